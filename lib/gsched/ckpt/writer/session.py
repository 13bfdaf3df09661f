"""One trainer's writer: it waits for words, signals and the trainer's end, and writes."""

from __future__ import annotations

import os
import select
import socket
import time
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass

from gsched.ckpt import lock
from gsched.ckpt.commit import POLL_S, Commit, Waiting
from gsched.ckpt.disk import Disk
from gsched.ckpt.faults import FaultHook, FaultPoint
from gsched.ckpt.manifest import Reason
from gsched.ckpt.outcome import Committed, Failed, errno_name
from gsched.ckpt.patience import Patience
from gsched.ckpt.present import steps_in
from gsched.ckpt.writer import messages, start
from gsched.ckpt.writer.flush import Agreement, NoAgreementError
from gsched.ckpt.writer.messages import Close, Flush, Hello, Notice, Outcome, Persist, Ready
from gsched.ckpt.writer.pruning import Pruning, remove_leftovers
from gsched.ckpt.writer.slots import Slot

_MAX_SIGNALS = 4096
_ENDED = object()
_LEAST_LOOK_S = 0.1
"""Of a step that all ranks hold, some rank may put a newer one in its place until it has looked."""

_MAX_LOOKS_A_S = 256
_WAITS_A_RESERVATION = 60
"""Of the time that ranks wait for each other, for this part a flush keeps what it may need."""


@dataclass(frozen=True, slots=True)
class _Wish:
    """A flush that is to be begun, and whether the trainer waits for an answer."""

    reason: Reason
    is_asked: bool = False


class Session:
    """The trainer at the other end of `connection`, from its hello to its end."""

    def __init__(
        self,
        connection: socket.socket,
        hello: Hello,
        fds: Sequence[int],
        disk: Disk,
        fault: FaultHook,
    ) -> None:
        """`fds` came with the hello: the wake pipe, the folder's lock, the slots."""
        self._connection = connection
        self._target = hello.target
        self._flush_signals = frozenset(hello.flush_signals)
        self._wake_fd = fds[0]
        self._lock_fd = fds[1] if hello.has_lock else -1
        self._slots = [Slot(fd) for fd in fds[1 + hello.has_lock :]]
        self._disk = disk
        self._fault = fault
        self._inherited = steps_in(hello.target.folder)
        self._agreement = Agreement(disk, hello.target, fault)
        self._next_look = 0.0  # for other ranks' calls, by the monotonic clock
        self._active: dict[int, tuple[Commit, Waiting]] = {}  # by step: not committed yet
        self._flushing: Generator[None, None, None] | None = None
        self._flushed_step = -1  # nothing newer was held when the flush began
        self._flush_reason = Reason.SIGNAL
        self._flush_wish: _Wish | None = None
        self._unsaid: Failed | None = None  # of a flush; what may follow would make it needless
        self._committed_step: int | None = None
        self._is_ending = False
        self._reserved: set[Slot] = set()  # locked until the flush knows what it writes
        self._pruning = Pruning(disk, hello.target, fault)
        self._last_notice = ""
        self._poll = select.poll()
        self._trainer_fd = _open_pidfd(start.peer(connection)[0])
        for fd in (self._wake_fd, connection.fileno(), self._trainer_fd):
            if fd >= 0:
                self._poll.register(fd, select.POLLIN)

    def run(self) -> None:
        """Until the trainer has ended, and all is written that it asked for, or left behind."""
        self._tell(Ready(os.getpid()))
        while not (self._is_ending and self._is_idle()):
            self._wait()
            self._read_signals()
            self._read_messages()
            self._listen()
            self._advance()
        if self._unsaid is not None:
            self._tell(self._unsaid)
        if self._target.world_size > 1:
            with suppress(OSError):
                self._agreement.leave()
        self._tell(messages.Closed())

    def _is_idle(self) -> bool:
        return not self._is_writing() and self._flush_wish is None and self._pruning.is_idle

    def _is_writing(self) -> bool:
        return bool(self._active) or self._flushing is not None

    # -- what happens ------------------------------------------------------------------------------

    def _wait(self) -> None:
        """For anything to happen; a moment only while others are waited for, or looked at."""
        if self._is_ending and self._is_idle():
            return
        if self._flush_wish is None or self._flushing is not None:
            looks = self._is_writing() or not self._pruning.is_idle
            look_s = self._look_s if self._target.world_size > 1 else None
            wait_s = POLL_S if looks else look_s
            self._poll.poll(None if wait_s is None else wait_s * 1000)

    def _read_signals(self) -> None:
        if self._wake_fd < 0:
            return
        with suppress(BlockingIOError):
            numbers = os.read(self._wake_fd, _MAX_SIGNALS)
            if not numbers:  # all who could write have ended, which is seen otherwise
                self._poll.unregister(self._wake_fd)
                self._wake_fd = -1
            elif self._flush_signals.intersection(numbers):
                self._flush_wish = _Wish(Reason.SIGNAL)

    def _read_messages(self) -> None:
        while not self._is_ending:
            try:
                received = messages.receive(self._connection)
            except BlockingIOError:
                break
            if received is None:
                self._trainer_ended()
                return
            self._take(received[0])
        if self._trainer_fd >= 0 and not self._is_ending and _is_readable(self._trainer_fd):
            self._trainer_ended()

    def _take(self, message: messages.Message) -> None:
        if isinstance(message, Persist):
            self._persist(message.step, message.reason)
        elif isinstance(message, Flush):
            self._flush_wish = _Wish(message.reason, is_asked=True)
        elif isinstance(message, Close):
            self._end()

    def _trainer_ended(self) -> None:
        self._flush_wish = _Wish(Reason.TRAINER_DIED)
        self._end()

    @property
    def _look_s(self) -> float:
        """Between two looks for calls: together the ranks must not keep a file server busy."""
        return max(_LEAST_LOOK_S, self._target.world_size / _MAX_LOOKS_A_S)

    def _listen(self) -> None:
        """Take part in a flush that another rank has begun: nobody may tell this one's trainer."""
        now = time.monotonic()
        is_free = self._flushing is None and self._flush_wish is None
        if self._target.world_size == 1 or not is_free or now < self._next_look:
            return
        self._next_look = now + self._look_s
        with suppress(OSError):
            reason = self._agreement.call()
            if reason is not None:
                self._flush_wish = _Wish(reason)

    def _end(self) -> None:
        self._is_ending = True
        if self._lock_fd >= 0:
            lock.note_finishing(self._lock_fd)
        self._poll.unregister(self._connection)
        if self._trainer_fd >= 0:
            self._poll.unregister(self._trainer_fd)

    # -- writing -----------------------------------------------------------------------------------

    def _persist(self, step: int, reason: Reason) -> None:
        """Write the snapshot of a step, which all ranks are asked for."""
        if self._flushing is not None and self._flush_is_moot(step):
            self._flushing.close()
            self._flushing = None
        self._begin(step, reason)

    def _begin(self, step: int, reason: Reason) -> None:
        """Write the snapshot of a step; its commit may have to wait for other ranks."""
        if step in self._active:
            return
        commit = Commit(
            *(self._disk, self._target, step, reason, self._fault, self._inherited),
            is_ours=self._is_ours,
        )
        held = self._lock_held()
        contents = held[step].contents() if step in held else None
        if contents is None:
            commit.refuse(f"no snapshot of step {step} is held")
        else:
            commit.write([held[step].data[: contents.num_bytes]])
        self._unlock(held.values())
        self._active[step] = (commit, commit.finish())

    def _is_ours(self) -> bool:
        """Whether no later attempt of this job has taken the folder. Raises OSError."""
        return self._lock_fd < 0 or lock.is_ours(self._lock_fd, self._target.folder)

    def _flush_is_moot(self, step: int) -> bool:
        """Whether all ranks are asked for a `step` as new as what is being flushed.

        Not where a trainer has died: it may have asked for nothing.
        """
        return step >= self._flushed_step and self._flush_reason is not Reason.TRAINER_DIED

    def _flush(self, wish: _Wish) -> Generator[None, None, None]:
        """Write the newest snapshot that all ranks hold; until it is known, those held stay."""
        if self._agreement.is_last:
            return
        held = self._lock_held()
        self._reserved.update(held.values())
        self._flushed_step, self._flush_reason = max(held, default=-1), wish.reason
        try:
            self._begin((yield from self._newest(held, wish.reason)), wish.reason)
        except OSError as e:
            self._tell(Failed(-1, wish.reason, errno_name(e), e.strerror or str(e)))
        except NoAgreementError as e:
            self._no_flush(Failed(-1, wish.reason, "no-snapshot", str(e)), wish)
        finally:
            self._let_go(held.values())

    def _no_flush(self, failed: Failed, wish: _Wish) -> None:
        """Tell it who has asked; else only when nothing as new has come, or comes, to the disk."""
        if wish.is_asked:
            self._tell(failed)
        elif self._committed_step is None or self._committed_step < self._flushed_step:
            self._unsaid = failed

    def _newest(self, held: Mapping[int, Slot], reason: Reason) -> Generator[None, None, int]:
        """The step to flush. Raises OSError or NoAgreementError."""
        if self._target.world_size == 1:
            if not held:
                raise NoAgreementError("there is no complete snapshot")
            return max(held)
        patience = Patience(self._target.peer_wait_s / _WAITS_A_RESERVATION, time.monotonic)
        with closing(self._agreement.agree(held.keys(), reason)) as agreeing:
            while True:
                try:
                    next(agreeing)
                except StopIteration as end:
                    return int(end.value)
                if patience.is_over(None):  # some were not asked: training may have to go on
                    self._let_go(held.values())
                yield

    def _let_go(self, slots: Iterable[Slot]) -> None:
        """What the flush has held, the trainer may have."""
        self._reserved.clear()
        self._unlock(slots)

    def _lock_held(self) -> dict[int, Slot]:
        """The complete snapshots by step, locked; those being filled are not among them."""
        held = {}
        for slot in self._slots:
            if slot.try_lock(for_writing=False):
                contents = slot.contents()
                if contents is None:
                    slot.unlock()
                else:
                    held[contents.step] = slot
        return held

    def _unlock(self, slots: Iterable[Slot]) -> None:
        for slot in slots:
            if slot not in self._reserved:
                slot.unlock()

    # -- what comes of it --------------------------------------------------------------------------

    def _advance(self) -> None:
        """Let all that waits for other ranks look once."""
        if self._flushing is None and self._flush_wish is not None:
            self._flushing = self._flush(self._flush_wish)
            self._flush_wish = None
        if self._flushing is not None and next(self._flushing, _ENDED) is _ENDED:
            self._flushing = None
        for step, (commit, waiting) in list(self._active.items()):
            if step not in self._active:
                continue
            try:
                next(waiting)
            except StopIteration as end:
                del self._active[step]
                self._ended(end.value, commit.warning)
        self._notice(self._pruning.advance())

    def _ended(self, outcome: Committed | Failed, warning: str) -> None:
        self._tell(outcome)
        self._notice(warning)
        if isinstance(outcome, Committed):
            self._committed_step = max(outcome.step, self._committed_step or 0)
            if outcome.step >= self._flushed_step:
                self._unsaid = None
            for older in [step for step in self._active if step < outcome.step]:
                del self._active[older]  # whoever waits for it has something better now
        if isinstance(outcome, Committed) and self._target.leads:
            self._pruning.committed(outcome.step, written_here=outcome.num_bytes > 0)
            with suppress(OSError):
                self._agreement.forget()
                remove_leftovers(self._disk, self._target, outcome.step, self._active.keys())
        self._fault(FaultPoint.ENDED)

    def _notice(self, words: str) -> None:
        """Tell something for the log, once."""
        if words and words != self._last_notice:
            self._last_notice = words
            self._tell(Notice(words))

    def _tell(self, message: Ready | messages.Closed | Outcome) -> None:
        """Tell the trainer, unless it has died, or not listened for hundreds of messages."""
        with suppress(OSError):
            messages.send(self._connection, message, flags=socket.MSG_DONTWAIT)


def _open_pidfd(pid: int) -> int:
    """A descriptor that tells of a process's end; -1 where there is none (Linux before 5.3).

    Then the trainer's end is seen by the connection alone, which a child of the trainer may hold.
    """
    try:
        return os.pidfd_open(pid)
    except OSError:
        return -1


def _is_readable(fd: int) -> bool:
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    return bool(poll.poll(0))
