"""`Checkpointer`: what a training loop sees of checkpoints."""

from __future__ import annotations

import logging
import os
import socket
import time
from collections.abc import Collection, Iterator, Mapping
from types import TracebackType
from typing import Literal, SupportsFloat

from gsched.ckpt import layout
from gsched.ckpt.manifest import Reason
from gsched.ckpt.outcome import Committed, Failed
from gsched.ckpt.target import RunTarget
from gsched.ckpt.writer.start import SOCKET_VARIABLE
from gsched.errors import UnavailableError, UsageError
from gsched.runtime.checkpoint import folder_check, folder_lock, last_words, options, restoring
from gsched.runtime.checkpoint.cadence import Cadence
from gsched.runtime.checkpoint.job_folder import tell_start
from gsched.runtime.checkpoint.outcomes import Outcomes, show_log
from gsched.runtime.checkpoint.ranks import Ranks, Wishes
from gsched.runtime.checkpoint.snapshots import Snapshots
from gsched.runtime.checkpoint.states import States
from gsched.runtime.checkpoint.stop_signals import DEFAULT_SIGNALS, SignalAction, StopSignals
from gsched.runtime.checkpoint.writer_watch import WriterWatch, next_look_s
from gsched.runtime.data import shield_workers
from gsched.runtime.environment import mark_stopped
from gsched.runtime.heartbeat import Heartbeat
from gsched.telemetry.job_environment import of_this_job

_log = logging.getLogger("gsched.checkpoint")

FINISH_LIMIT_S = 3600.0
"""For the last checkpoint of a training that has come to its end."""

_LEAST_WAIT_S = 1.0

_MAX_RESERVE_S = 3.0
_RESERVE_SHARE = 0.1
"""Of the grace that is left to the process for its own end, at most `_MAX_RESERVE_S`."""


class Checkpointer:
    """Saves a training run's states beside the training, and goes on after the newest valid ones.

    ::

        with Checkpointer("checkpoints", model=model, optimizer=optimizer, loader=loader) as ckpt:
            for step in ckpt.steps(10_000):
                ...

    A state is an object with `state_dict` and `load_state_dict`, a generator of random numbers, or
    a dict, which is filled in place. The global generators are kept by themselves.

    `folder` holds the checkpoints of one run; GSCHED_CHECKPOINT_DIR in the environment wins.
    `every` is the interval in seconds; "auto": GSCHED_CHECKPOINT_EVERY_S, else Young's from the
    measured cost and `mtbf_s`, the job's mean time between failures (default: 150 days divided by
    the number of nodes). `snapshot_every` is the interval of snapshots in memory, in steps; "auto":
    as often as costs 1 % of the time. `keep` valid checkpoints stay. `signals` says what signals
    ask for, `grace_s` how long after one the job lives (default: GSCHED_GRACE_S, else 30).
    `replicated` names states that are the same on every rank, so that rank 0 alone writes them
    (default: a model under DistributedDataParallel and its optimiser). `chain_signals`: a handler
    that was there before is called too.

    Leaving the `with` block waits for the writer, and raises UnavailableError where the checkpoint
    that the loop has ended with could not be written, nor once more then; an exception of the block
    goes before.

    With several ranks every rank makes one, after torch.distributed.init_process_group.
    """

    def __init__(
        self,
        folder: str | os.PathLike[str] | None = None,
        *,
        every: float | Literal["auto"] = "auto",
        snapshot_every: int | Literal["auto"] = "auto",
        keep: int = 3,
        signals: Mapping[int, SignalAction] = DEFAULT_SIGNALS,
        grace_s: float | None = None,
        mtbf_s: float | None = None,
        replicated: Collection[str] | None = None,
        chain_signals: bool = True,
        **states: object,
    ) -> None:
        self.folder = options.folder(folder)
        self.step = 0
        """Finished steps."""
        self.total: int | None = None
        """Steps in all, for the expected end in the heartbeat; `steps` sets it."""
        self.exit_status: int | None = None
        """128 + the signal's number, once a signal has ended the loop."""
        if keep < 1:
            raise UsageError(f"keep={keep}: at least one checkpoint has to stay")
        self._keep = keep
        self._cadence = Cadence(
            options.every(every), options.snapshot_every(snapshot_every), options.mtbf(mtbf_s)
        )
        self._grace_s = options.grace(grace_s)
        self._signals = StopSignals(signals, chain=chain_signals)
        self._given = states
        self._replicated = replicated
        self._stop = self._save = False
        self._why_unsaved = ""
        """Why the loop's last step is not saved; "" while there is nothing to say."""
        self._gave_up = False  # waiting for a writer that does not answer
        self._reported: tuple[SupportsFloat | None, int] = (None, 0)
        self._step_began = 0.0
        self._started = False

    def __enter__(self) -> Checkpointer:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close(failed=kind is not None and not issubclass(kind, GeneratorExit | SystemExit))

    def start(self) -> int | None:
        """Load the newest valid checkpoint and watch the signals: the step, None for a first start.

        For loops that are not `steps`; `with` calls it. Raises DataError where the checkpoints are
        all torn or do not fit, TryAgainError where another run uses the folder; then nothing was
        changed.
        """
        if self._started:
            raise UsageError("a Checkpointer is started twice", "`with` calls start() by itself")
        show_log()
        self._ranks = ranks = Ranks()
        self._states = States(self._given, self._replicated, ranks.rank)
        self._outcomes = Outcomes(self._cadence, is_first_rank=ranks.rank == 0)
        folder_check.prepare(self.folder, ranks)
        run = ranks.from_first(layout.new_run())
        lock = folder_lock.hold(self.folder, run, options.job(), ranks)
        self._snapshots = Snapshots(
            RunTarget(
                folder=self.folder,
                run=run,
                rank=ranks.rank,
                world_size=ranks.world_size,
                keep=self._keep,
                job=options.job(),
                versions=options.versions(),
            ),
            self._states,
            self._signals.numbers,
            of_this_job(os.environ, SOCKET_VARIABLE),
            ranks.gather(socket.gethostname()).count(socket.gethostname()),
            lock,
        )
        self._watch = WriterWatch(self._snapshots, self._cadence)
        try:
            found = restoring.restore(self.folder, self._states, ranks)
        except BaseException:
            self._snapshots.close(0.0)
            raise
        if found is not None:
            self.step = self._outcomes.loaded_step = found.step
        if ranks.rank == 0:
            tell_start(self.folder, None if found is None else found.step)
        for value in self._given.values():
            shield_workers(value, self._signals.numbers)
        self._signals.install(self._snapshots.wake_fd)
        self._heartbeat = Heartbeat(
            self.total,
            first_step=self.step,
            rank=ranks.rank,
            world_size=ranks.world_size,
            checkpoint_dir=self.folder,
        )
        self._started = True
        self._step_began = time.monotonic()
        return None if found is None else found.step

    def steps(self, total: int) -> Iterator[int]:
        """The numbers of the steps that are still to be done, of `total`; saves between them.

        Ends with a checkpoint of the last step; where that fails, `close` says so. When a signal
        asks to stop, ends after the running step with a checkpoint, by SystemExit(128 + signal).
        """
        if not self._started:
            raise UsageError("steps() before the Checkpointer is started", "use it in a `with`")
        self.total = total
        self._heartbeat.total = total
        for step in range(self.step, total):
            yield step
            if self.finish_step(step + 1):
                if self.exit_status is not None:
                    raise SystemExit(self.exit_status)
                return

    def report(self, *, loss: SupportsFloat | None = None, tokens: int = 0) -> None:
        """What the running step had, for the heartbeat. A loss may be a tensor."""
        self._reported = (loss, self._reported[1] + tokens)

    def save(self) -> None:
        """Ask for a checkpoint at the end of this step; with several ranks, of the next one."""
        self._save = True

    def stop(self) -> None:
        """Ask for the loop to end after this step, with a checkpoint; all ranks, after the next."""
        self._stop = True

    def restore_random(self) -> None:
        """Set the random generators once more to what was loaded.

        For frameworks that draw random numbers between loading and the first step.
        """
        self._states.restore_random()

    def finish_step(self, step: int, *, is_last: bool = False) -> bool:
        """So many steps are done now. True: the loop is to end; all is saved that can be.

        For loops that are not `steps`, which has `exit_status` follow by SystemExit. `is_last`: the
        loop ends by itself after this step, on all ranks; it is that also with `total` steps.
        """
        began = time.monotonic()
        self._cadence.step_took(began - self._step_began, writing=self._snapshots.is_writing)
        self.step = step
        self._take_outcomes()
        self._watch.look()
        self._beat()
        is_last = is_last or (self.total is not None and step >= self.total)
        wishes = self._wishes(began)
        agreed = self._ranks.agree(wishes, at_once=is_last)
        ends = bool(agreed.stop or agreed.stop_signal) or is_last
        if ends:
            self._end(agreed)
        elif agreed.save or agreed.save_signal or agreed.persist:
            reason = Reason.ASKED if agreed.save else Reason.INTERVAL
            self._persist(Reason.SIGNAL if agreed.save_signal else reason)
        elif wishes.save:  # the ranks agree at the next step; if none follows, `close` has this one
            self._snapshot(deadline=began + FINISH_LIMIT_S)
        elif agreed.snapshot or self._snapshots.newest is None:
            self._snapshot(deadline=began)
        self._step_began = time.monotonic()
        return ends

    def close(self, *, failed: bool = False) -> None:
        """End it all: the writer finishes what it was asked. `with` calls it.

        With `failed`, or when the loop was left before its end, the newest snapshot is written; so
        is one that could not be at the loop's end. Raises UnavailableError where it still cannot
        be, unless it `failed` anyway.
        """
        if not self._started:
            return
        self._started = False
        try:
            if self._is_unsaved(self._snapshots.newest):
                by_signal = Reason.SIGNAL if self.exit_status else Reason.END
                self._snapshots.flush(Reason.TRAINER_DIED if failed else by_signal)
            self._signals.stop_waking()
            self._outcomes.take(self._snapshots.close(self._last_wait_s(failed)))
        finally:
            self._signals.remove()
            self._heartbeat.close()
        self._tell_end(failed)
        if self._why_unsaved and self._is_unsaved(self.step) and not (failed or self.exit_status):
            raise UnavailableError(
                f"the last checkpoint, of step {self.step:,}, failed: {self._why_unsaved}",
                f"see gsched ckpt list {self.folder} for what is saved",
            )

    def _wishes(self, now: float) -> Wishes:
        signals, is_first = self._signals, self._ranks.rank == 0
        signals.look()
        save, self._save = self._save, False
        save_signal, signals.save_signal = signals.save_signal, 0
        late = bool(signals.stop_signal) and now > signals.stop_time + self._grace_s
        return Wishes(
            stop_signal=signals.stop_signal,
            save_signal=save_signal,
            stop=int(self._stop),
            save=int(save),
            persist=int(
                is_first and not self._snapshots.is_writing and self._cadence.wants_persist(now)
            ),
            snapshot=int(is_first and self._cadence.wants_snapshot(self.step)),
            late=int(late),
        )

    def _snapshot(self, deadline: float) -> bool:
        """One of this step, unless there is one; False where no slot was free by `deadline`."""
        if self._snapshots.newest == self.step:
            return True
        began, is_first = time.monotonic(), self._snapshots.newest is None
        while not self._snapshots.take(self.step, next_look_s(deadline)):
            if time.monotonic() >= deadline:
                return False
            self._watch.look()
        stall_s = time.monotonic() - began
        self._cadence.snapshot_taken(self.step, stall_s, is_typical=not is_first)
        return True

    def _persist(self, reason: Reason, deadline: float | None = None) -> bool:
        """Have this step written; training waits only for a slot. False where none was free."""
        if not self._snapshot(deadline or time.monotonic() + FINISH_LIMIT_S):
            return False
        self._snapshots.persist(self.step, reason)
        self._heartbeat.saving(begins=True)
        self._cadence.persist_asked(time.monotonic())
        return True

    def _end(self, agreed: Wishes) -> None:
        """The last checkpoint, and the wait for it. What fails is told when all is closed.

        None where nothing was done since one: a loop may come to its end twice.
        """
        by_signal = agreed.stop_signal > 0
        if by_signal:
            self.exit_status = 128 + agreed.stop_signal
            mark_stopped()
        if self.step == self._outcomes.loaded_step or not self._is_unsaved(self.step):
            return
        if by_signal and agreed.late:
            self._why_unsaved = "the grace was over when it ended"
            return
        limit_s = self._grace_left() if by_signal else FINISH_LIMIT_S
        reason = Reason.SIGNAL if by_signal else Reason.ASKED if agreed.stop else Reason.END
        answer = self._written(reason, time.monotonic() + limit_s)
        self._take_outcomes()
        if isinstance(answer, Failed):
            self._why_unsaved = answer.message
        elif answer is None:
            self._gave_up = True
            self._why_unsaved = f"{self._watch.words()}, after {limit_s:.1f} s"
            if not by_signal:
                _log.error("step %s is not saved: %s", f"{self.step:,}", self._why_unsaved)

    def _written(self, reason: Reason, deadline: float) -> Committed | Failed | None:
        """Have this step written: what became of it, None where nothing has by then."""
        if not self._persist(reason, deadline):
            return None
        while True:
            answer = self._snapshots.wait(self.step, next_look_s(deadline))
            if answer is not None or time.monotonic() >= deadline:
                return answer
            self._watch.look()

    def _is_unsaved(self, step: int | None) -> bool:
        valid = self._outcomes.valid_step
        return step is not None and (valid is None or valid < step)

    def _tell_end(self, failed: bool) -> None:
        """Which step is saved, where a signal or an exception has ended the run."""
        saved, newest = self._outcomes.saved_step, self._snapshots.newest
        if self.exit_status and self._ranks.rank == 0:
            failure = self._outcomes.failed
            reasons = filter(None, (self._why_unsaved, failure.message if failure else ""))
            level, words = last_words.stop_words(
                step=self.step,
                saved=saved,
                loaded=self._outcomes.loaded_step,
                why_not="; ".join(dict.fromkeys(reasons)),
            )
            used_s = time.monotonic() - (self._signals.stop_time or self._step_began)
            grace = f"{used_s:.1f} s of {self._grace_s:g} s grace used"
            _log.log(level, "stopped by a signal: %s, %s", words, grace)
        elif failed and newest is not None and self._ranks.world_size > 1:
            commit = self._outcomes.committed
            is_flushed = commit is not None and commit.reason is Reason.TRAINER_DIED
            _log.log(*last_words.failure_words(newest=newest, saved=saved, is_flushed=is_flushed))

    def _last_wait_s(self, failed: bool) -> float:
        """For the writer to finish, when all else is done."""
        if self._gave_up:
            return 0.0
        if failed and self._ranks.world_size > 1:
            return _LEAST_WAIT_S  # other ranks may hang until this one ends; the writer goes on
        return self._grace_left() if failed or self.exit_status else FINISH_LIMIT_S

    def _grace_left(self) -> float:
        """Until the process has to end by itself; a moment, where that is over."""
        since = self._signals.stop_time or time.monotonic()
        reserve_s = min(_RESERVE_SHARE * self._grace_s, _MAX_RESERVE_S)
        return max(since + self._grace_s - reserve_s - time.monotonic(), _LEAST_WAIT_S)

    def _take_outcomes(self) -> None:
        before = self._outcomes.committed
        self._outcomes.take(self._snapshots.poll())
        self._outcomes.check_folder()
        commit = self._outcomes.committed
        if commit is not None and commit is not before:
            self._heartbeat.committed(commit.step)
        if not self._snapshots.is_writing:
            self._heartbeat.saving(begins=False)

    def _beat(self) -> None:
        loss, tokens = self._reported
        self._reported = (None, 0)
        self._heartbeat.total = self.total
        self._heartbeat.report(self.step, loss=loss, tokens=tokens)
