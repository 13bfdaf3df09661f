"""`python -m gsched.runtime.save_command`: a command that saves, run when a training is to end.

For a training that cannot use `gsched.runtime.checkpoint`: a program in another language, one that
saves when it is told to by a file or a port. The training is the child of this program and has a
session of its own. Two signals are not passed on at once:

    TERM  run the save command, wait for a newer valid checkpoint, then pass TERM on
    USR1  run the save command; the training goes on and sees nothing of the signal

All other signals are passed on as they come. Neither torch nor a shell is used.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from gsched.ckpt.catalogue import scan
from gsched.ckpt.found import Verdict
from gsched.errors import GschedError
from gsched.runtime.environment import CHECKPOINT_FOLDER, DEFAULT_GRACE_S, GRACE_S, mark_stopped
from gsched.telemetry.job_environment import of_this_job

PASSED_ON = (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGUSR2)
_POLL_S = 0.25
_RESERVE_SHARE = 0.1  # of the grace: the training needs time to end after the signal
_MAX_RESERVE_S = 3.0
_SAVE = "--save"
EXIT_NOT_EXECUTABLE = 126  # as shells, env(1) and timeout(1) tell it
EXIT_NOT_FOUND = 127


@dataclass(frozen=True, slots=True)
class Plan:
    """What to run: `save` and `train` are argument vectors; without a `folder` the save command's
    exit status alone says whether it saved. `grace_s` seconds lie between TERM and SIGKILL."""

    save: tuple[str, ...]
    train: tuple[str, ...]
    folder: Path | None
    grace_s: float

    @property
    def save_limit_s(self) -> float:
        """How long a save may take before the signal is passed on without it."""
        return self.grace_s - min(_MAX_RESERVE_S, _RESERVE_SHARE * self.grace_s)


@dataclass(slots=True)
class _Save:
    """A save command that runs, and the checkpoints that were there before it."""

    process: subprocess.Popen[bytes]
    before: frozenset[tuple[Path, float]]
    started: float
    deadline: float


class Supervisor:
    """Runs a training, and the save command when a signal asks for it."""

    def __init__(self, plan: Plan, signals: _Signals) -> None:
        self._plan = plan
        self._signals = signals
        self._save: _Save | None = None
        self._ends = False  # TERM has come
        self._passed_on = False  # … and has been passed on

    def run(self) -> int:
        """Start the training and stay until it has ended; gives the exit code to hand on."""
        try:
            train = subprocess.Popen(self._plan.train, start_new_session=True)
        except OSError as error:
            return _not_started(self._plan.train, error)
        while train.poll() is None or self._save is not None:
            for signum in self._signals.next(_POLL_S if self._save is not None else None):
                self._take(signum, train)
            if self._save is not None:
                self._look_at(self._save)
            if self._ends and self._save is None and not self._passed_on:
                self._passed_on = True
                _send(train, signal.SIGTERM)
        if self._ends:
            mark_stopped()
        return _exit_code(train.returncode)

    def _take(self, signum: int, train: subprocess.Popen[bytes]) -> None:
        if signum in PASSED_ON or (signum == signal.SIGTERM and self._passed_on):
            _send(train, signum)
        elif signum == signal.SIGTERM and not self._ends:
            self._ends = True
            self._begin_save(signum, train)
        elif signum == signal.SIGUSR1 and not self._ends:
            self._begin_save(signum, train)

    def _begin_save(self, signum: int, train: subprocess.Popen[bytes]) -> None:
        """Run the save command, unless it runs already: then that one will do."""
        now = time.monotonic()
        if self._save is not None:
            self._save.deadline = min(self._save.deadline, now + self._plan.save_limit_s)
            return
        if train.poll() is not None:
            return
        name = signal.Signals(signum).name
        _tell(f"{name}: saving by {self._plan.save[0]!r}, within {self._plan.save_limit_s:.1f} s")
        before = frozenset(self._checkpoints())
        told = {"GSCHED_TRAIN_PID": str(train.pid), "GSCHED_SIGNAL": name.removeprefix("SIG")}
        if self._plan.folder is not None:
            told[CHECKPOINT_FOLDER] = str(self._plan.folder)
        try:
            process = subprocess.Popen(
                self._plan.save, env=os.environ | told, start_new_session=True
            )
        except OSError as error:
            _not_started(self._plan.save, error)
            return
        self._save = _Save(process, before, now, now + self._plan.save_limit_s)

    def _look_at(self, save: _Save) -> None:
        """End the save when it is done, has failed or has had its time; say which."""
        status, now = save.process.poll(), time.monotonic()
        taken = f"after {now - save.started:.1f} s"
        if status is not None and status != 0:
            _tell(f"not saved: {self._plan.save[0]!r} ended with {_status_words(status)} {taken}")
        elif status == 0 and (new := self._newer(save)):
            _tell(f"saved {taken}: {new}")
        elif now < save.deadline:
            return
        else:
            missing = "no newer valid checkpoint" if status == 0 else "the save command still runs"
            _tell(f"not saved {taken}: {missing}")
            _end_group(save.process)
        self._save = None

    def _newer(self, save: _Save) -> str:
        """What was saved, in words; "" when no valid checkpoint has come since."""
        if self._plan.folder is None:
            return "says the save command; no checkpoint folder is known to look into"
        return next(
            (str(found[0]) for found in self._checkpoints() if found not in save.before), ""
        )

    def _checkpoints(self) -> Iterator[tuple[Path, float]]:
        """The valid checkpoints of the folder, newest first: path and time of creation."""
        if self._plan.folder is None:
            return
        with contextlib.suppress(GschedError):  # not there yet, or not readable: none is seen
            for checkpoint in scan(self._plan.folder).of(Verdict.WHOLE):
                yield checkpoint.path, checkpoint.created


class _Signals:
    """The signals that come to this process, as numbers from a socket."""

    def __init__(self) -> None:
        self._ours, self._kernels = socket.socketpair()
        self._kernels.setblocking(False)
        signal.set_wakeup_fd(self._kernels.fileno(), warn_on_full_buffer=False)
        for signum in (*PASSED_ON, signal.SIGTERM, signal.SIGUSR1, signal.SIGCHLD):
            signal.signal(signum, _noted)

    def next(self, limit_s: float | None) -> bytes:
        """Wait for signals, `limit_s` seconds at the most; SIGCHLD is one of them."""
        self._ours.settimeout(limit_s)
        try:
            return self._ours.recv(64)
        except TimeoutError:
            return b""


def _noted(signum: int, frame: object) -> None:
    """Python's own part of a signal: nothing, its number is in the socket."""


def _send(train: subprocess.Popen[bytes], signum: int) -> None:
    """Send the training's whole session group a signal, unless it has ended."""
    if train.poll() is None:
        os.killpg(train.pid, signum)


def _end_group(process: subprocess.Popen[bytes]) -> None:
    """End a save command that has had its time, with what it started."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGTERM)


def _exit_code(status: int) -> int:
    """As a shell tells it: 128 and the signal's number for a process that a signal has ended."""
    return 128 - status if status < 0 else status


def _status_words(status: int) -> str:
    return f"signal {-status}" if status < 0 else f"exit status {status}"


def _not_started(argv: Sequence[str], error: OSError) -> int:
    _tell(f"{argv[0]!r} could not be started: {error.strerror}")
    return EXIT_NOT_FOUND if isinstance(error, FileNotFoundError) else EXIT_NOT_EXECUTABLE


def _tell(line: str) -> None:
    with contextlib.suppress(OSError):  # nobody reads any more: the work goes on
        print(f"gsched: {line}", file=sys.stderr, flush=True)


def parse(arguments: Sequence[str]) -> Plan:
    """The plan that a command line asks for. Ends the program, status 2, when it asks for none."""
    parser = argparse.ArgumentParser(
        prog="python -m gsched.runtime.save_command",
        usage=f"%(prog)s [OPTION…] {_SAVE} CMD [ARG…] -- TRAIN [ARG…]",
        description="Run TRAIN; at SIGTERM run CMD, wait until a newer valid checkpoint is there, "
        "then pass the signal on. At SIGUSR1 run CMD and let TRAIN go on. Ends with TRAIN's "
        "exit code (128 and the signal's number where a signal ended it).",
        epilog="CMD finds GSCHED_TRAIN_PID, GSCHED_SIGNAL (TERM or USR1) and GSCHED_CHECKPOINT_DIR "
        "in its environment. Both are run without a shell; the first -- ends CMD. "
        "Example: %(prog)s --checkpoints out --save touch out/save-now -- ./train --steps 10000",
    )
    parser.add_argument(
        "--checkpoints",
        type=Path,
        metavar="FOLDER",
        default=of_this_job(os.environ, CHECKPOINT_FOLDER) or None,
        help="where the checkpoints appear, in any format that `gsched ckpt list` knows; "
        f"without it CMD's exit status says whether it saved [{CHECKPOINT_FOLDER}]",
    )
    parser.add_argument(
        "--grace-s",
        type=float,
        metavar="SECONDS",
        default=os.environ.get(GRACE_S) or DEFAULT_GRACE_S,
        help="from SIGTERM to SIGKILL; a tenth of it, at most 3 s, is kept for TRAIN to end in "
        f"[{GRACE_S}, else {DEFAULT_GRACE_S:.0f}]",
    )
    options_end = arguments.index(_SAVE) if _SAVE in arguments else len(arguments)
    options = parser.parse_args(arguments[:options_end])
    words = list(arguments[options_end + 1 :])
    cut = words.index("--") if "--" in words else len(words)
    save, train = tuple(words[:cut]), tuple(words[cut + 1 :])
    if not save or not train:
        missing = "training's command after --" if save else f"command after {_SAVE}"
        parser.error(f"there is no {missing}")
    if not 0 < options.grace_s < float("inf"):
        parser.error("--grace-s has to be more than 0 seconds")
    return Plan(save, train, options.checkpoints, options.grace_s)


def main() -> int:
    """The program."""
    plan = parse(sys.argv[1:])
    return Supervisor(plan, _Signals()).run()


if __name__ == "__main__":
    sys.exit(main())
