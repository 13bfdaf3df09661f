"""Running the user's script: signals are brought on, and its end becomes the job's."""

from __future__ import annotations

import math
import os
import signal
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from gsched.launch.child_process import Children
from gsched.launch.forwarding import forward
from gsched.launch.job import Job
from gsched.launch.processes import Tree, look_at
from gsched.launch.say import say
from gsched.launch.signals import FORWARDED, IGNORED_BY_DEFAULT, NOTICES, STOPPING, name_of
from gsched.launch.slurm_view import SlurmView
from gsched.launch.time_limit import NOTICE, TimeLimit
from gsched.launch.witness import Witness

_WATCHED = FORWARDED | {signal.SIGCHLD}

_BEFORE_LIMIT_S = 12.0  # a job is requeued so long before its time limit, whether saved or not
_AFTER_GRACE_S = 120.0  # Slurm looks every 30 s which jobs' grace is over
_POLL_S = 0.25
_SETTLE_S = 1.0  # from a signal that ends the script to the same one here
_KILLED_S = 5.0  # what is killed has gone by then, or never goes
_PARENT_LOOK_S = 5.0


def hold_signals() -> None:
    """From now on signals wait for `Supervisor`, also those that the caller ignores. The script
    ignores the same, but for USR1 and USR2: the head of the job script does so only until somebody
    can take them.
    """
    signal.pthread_sigmask(signal.SIG_BLOCK, _WATCHED)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # ends of children would not be told either
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:  # but a handler of Python's
        signal.signal(signal.SIGINT, signal.SIG_DFL)


class Supervisor:
    """One run of the user's script."""

    def __init__(
        self,
        job: Job | None,
        children: Children,
        witness: Witness,
        *,
        grace_s: float,
        limit: TimeLimit | None,
        own: Collection[int],
        note: Callable[[int], None],
        is_due: Callable[[], bool] | None = None,
    ) -> None:
        """`limit`: for a job that comes back from its time limit; `own`: processes beside the
        script, which signals do not mean; `note` is told each signal that comes. `is_due` says,
        once, that the script is to end.
        """
        self._children = children
        self._slurm = SlurmView(job)
        self._grace_s = grace_s
        self._job = job
        self._limit = limit
        self._note = note
        self._is_due = is_due
        self._witness = witness
        self._without = {*own, witness.pid}
        self._script = 0
        self._parent = os.getppid() if job is not None else 0
        self._got_term = False
        self._kill_time = 0.0
        self._taken: set[int] = set()
        self._requeue_time: float | None = None
        self._is_requeued = False

    def run(self, argv: Sequence[str], environ: Mapping[str, str]) -> int:
        """Run the script to its end; its exit code, negative for the signal that ended it.

        Raises UnavailableError where it cannot be started.
        """
        self._script = self._children.start(argv, environ)
        self._witness.guard(self._script)
        while (code := self._children.status_of(self._script)) is None:
            self._attend(_PARENT_LOOK_S)
        return code

    def settle(self) -> None:
        """See to what the script has left: one that saves after TERM has its grace, as a trainer's
        own writer has; all others are killed, as Slurm kills what a batch script leaves.
        """
        settled_time = time.monotonic() + _SETTLE_S  # TERM may have ended the script before it came
        while not self._got_term and time.monotonic() < settled_time and self._left_over():
            self._attend(_POLL_S)
        while time.monotonic() < self._kill_time and any(map(_is_alive, self._taken)):
            self._attend(_POLL_S)
        left = self._left_over()
        writers = [pid for pid in left if _is_writer(pid)]
        self._kill([pid for pid in left if pid not in writers])
        while any(map(_is_alive, writers)):
            self._attend(_POLL_S)

    def job_goes_on(self, code: int, *, was_stopped: bool) -> bool:
        """Whether the job begins again, though the script has ended: then its code says nothing.

        Returns when that is settled, which takes the grace of a preemption.
        """
        if code == 0 and not was_stopped:
            return self._is_requeued
        if self._requeue_time is not None:
            self._requeue()
        elif not self._got_term:
            return self._is_preempted()
        return self._is_requeued

    def is_over(self, code: int, *, was_stopped: bool) -> bool:
        """Whether the job, whose script has ended so, is known not to begin again: it has done
        what it was to do, or Slurm has ended it for good.
        """
        if self._job is None or self._is_requeued:
            return False
        if signal.SIGTERM in signal.sigpending() or self._got_term:
            view = self._slurm.look()
            return view is not None and view.has_ended(self._job)
        return code == 0 and not was_stopped

    def _attend(self, limit_s: float) -> None:
        """Wait for the next signal, at most `limit_s` seconds, and do what it asks for; then what
        time asks for.
        """
        info = signal.sigtimedwait(_WATCHED, limit_s)
        self._children.reap()
        if info is not None and info.si_signo in FORWARDED and info.si_pid != os.getpid():
            self._bring_on(info.si_signo)
        if self._requeue_time is not None and time.time() > self._requeue_time:
            self._requeue()
        if self._parent not in (0, os.getppid()):
            self._end_lost()
        if self._is_due is not None and self._is_due():
            self._send(signal.SIGTERM, by_slurm=False)

    def _bring_on(self, number: int) -> None:
        if number not in IGNORED_BY_DEFAULT:
            self._note(number)
        by_slurm = self._witness.saw(number)
        if number == NOTICE and self._requeue_time is None and self._is_time_limit():
            say(f"{name_of(number)}: the time limit is near: saves, ends, is requeued")
            self._send(signal.SIGTERM, by_slurm=False)
            return
        self._got_term |= number == signal.SIGTERM
        self._send(number, by_slurm=by_slurm)

    def _send(self, number: int, *, by_slurm: bool) -> None:
        taken = forward(
            number, by_slurm=by_slurm, without=self._without, signal_steps=self._signal_steps
        )
        name = name_of(number)
        if number == signal.SIGTERM:
            self._kill_time = time.monotonic() + self._grace_s
            self._taken.update(taken.pids)
        if taken:
            say(f"{name}: brought to {taken.words()}")
        elif self._children.status_of(self._script) is not None:
            pass  # it came with the script's end
        else:
            self._take_effect(number)

    def _take_effect(self, number: int) -> None:
        """Nobody catches it: what it does to the script is what it would do without gsched."""
        script = look_at(self._script)
        if number in NOTICES or (script is not None and script.ignores(number)):
            effect = "it goes on"
        else:
            effect = "the script stops" if number in STOPPING else "the script ends"
            with suppress(PermissionError):  # a setuid program's
                os.kill(self._script, number)
        if number not in IGNORED_BY_DEFAULT:
            say(f"{name_of(number)}: no process of the script catches it; {effect}")

    def _signal_steps(self, number: int) -> None:
        """Slurm tells the steps by itself when it ends the job."""
        view = self._slurm.look()
        if view is not None and view.is_running:
            self._slurm.signal_steps(number)

    def _is_time_limit(self) -> bool:
        """Whether the notice that has come is that, and the job is to be requeued."""
        if self._limit is None:
            return False
        end_time = self._limit.end_time(self._slurm.look())
        if end_time is None or not self._limit.allows_requeue():
            return False
        self._requeue_time = end_time - _BEFORE_LIMIT_S
        return True

    def _requeue(self) -> None:
        """At the time limit; once. A job that was cancelled must not come back."""
        self._requeue_time = math.inf
        view = self._slurm.look()
        if self._is_requeued or view is None or not view.is_running:
            return
        self._is_requeued = self._slurm.requeue()
        say("requeued at its time limit" if self._is_requeued else "it could not be requeued")

    def _is_preempted(self) -> bool:
        """Whether the script has ended because the job is preempted; then Slurm's requeue is waited
        for. A grace begins with TERM to the steps alone; if the job ended now, as they have, Slurm
        would take it for failed.
        """
        view = self._slurm.look()
        if view is None or not view.is_running or not view.preempt_time:
            return False
        say("preempted, and the script has ended: waits until Slurm requeues the job")
        deadline = (view.end_time or time.time()) + _AFTER_GRACE_S
        while (left_s := deadline - time.time()) > 0:
            info = signal.sigtimedwait(_WATCHED, left_s)
            if info is not None and info.si_signo == signal.SIGTERM:
                return True
        return False

    def _end_lost(self) -> None:
        """Slurm's own process on this node has gone, and Slurm has lost the job: it starts it
        elsewhere, and two runs must not go on side by side.
        """
        self._parent = 0
        self._got_term = True
        say("slurmstepd has gone: Slurm has lost this job, which saves and ends")
        self._send(signal.SIGTERM, by_slurm=False)
        while time.monotonic() < self._kill_time and any(map(_is_alive, self._left_over())):
            self._attend(_POLL_S)
        self._kill(self._left_over())

    def _left_over(self) -> list[int]:
        """What runs below this process, but for its own."""
        tree = Tree()
        mine = [pid for pid in tree.children(os.getpid()) if pid not in self._without]
        return [*mine, *(below for pid in mine for below in tree.below(pid))]

    def _kill(self, pids: Collection[int]) -> None:
        """Kill them and wait until they have gone."""
        for pid in pids:
            with suppress(OSError):  # gone, or a setuid program's
                os.kill(pid, signal.SIGKILL)
        deadline = time.monotonic() + _KILLED_S
        while time.monotonic() < deadline and any(map(_is_alive, pids)):
            self._attend(_POLL_S)


def _is_alive(pid: int) -> bool:
    process = look_at(pid)
    return process is not None and not process.is_zombie


def _is_writer(pid: int) -> bool:
    """Whether it is a checkpoint writer beside its trainer: it ends when all is on the disk."""
    try:
        return b"gsched.ckpt.writer" in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return False
