"""The trainer's end of the writer: slots to fill, and what has become of them.

Not for several threads. A forked child of the trainer (a data-loading worker) has no part in it:
there everything is closed at once, so that the trainer's end is noticed when the trainer ends.
"""

from __future__ import annotations

import math
import os
import select
import signal
import socket
import time
import weakref
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from gsched.ckpt import cgroup_memory
from gsched.ckpt.lock import FolderLock
from gsched.ckpt.manifest import Reason
from gsched.ckpt.outcome import Committed, Failed
from gsched.ckpt.target import RunTarget
from gsched.ckpt.writer import messages, start
from gsched.ckpt.writer.messages import Notice, Outcome
from gsched.ckpt.writer.slots import Contents, Slot
from gsched.errors import UnavailableError

READY_LIMIT_S = 30.0
"""For a writer to start: well under a second, but for a file system that is slow to give Python."""

MAX_DEATHS = 5
"""Writers that may die one after the other without a commit before no other is started."""

_MAX_ANSWERS = 16


class WriterLink:
    """A writer with its slots; see `open`."""

    def __init__(
        self,
        target: RunTarget,
        num_slots: int,
        flush_signals: Sequence[int],
        listening: str,
        lock: FolderLock | None,
    ) -> None:
        """For `open`, which also starts the writer."""
        self._hello = messages.Hello(target, tuple(flush_signals), lock is not None)
        self._lock = lock
        self._slots: list[Slot] = []
        self._usable: list[int] = []
        self._held = [-1] * num_slots  # the step of the snapshot that this side has put there
        self._filling: set[int] = set()
        self._asked: dict[int, Reason] = {}  # steps to persist, not answered yet
        self._flush_asked: Reason | None = None  # not answered yet
        self._flush_step = -1  # the newest snapshot when it was asked
        self._is_done = False  # the writer has said that it ends
        self._answers: dict[int, Committed | Failed] = {}
        self._outcomes: list[Outcome] = []
        self._close_by: float | None = None  # monotonic seconds, once `close` was called
        self._listening = listening
        self._deaths = 0
        self.writer_pid = -1
        self._connection: socket.socket | None = None
        self._child: start.WriterProcess | None = None
        self._wake_read, self.wake_fd = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        _links.add(self)
        self._slots.extend(Slot.make() for _ in range(num_slots))

    @classmethod
    def open(
        cls,
        target: RunTarget,
        *,
        num_slots: int = 2,
        flush_signals: Sequence[int] = (signal.SIGTERM, signal.SIGUSR1),
        listening: str = "",
        lock: FolderLock | None = None,
    ) -> WriterLink:
        """Start a writer, or connect to the one at the socket `listening`; then `ensure_room`.

        Returns when the writer has the slots: from then on a byte with the number of one of
        `flush_signals` in `wake_fd` (see signal.set_wakeup_fd) makes it flush. When nobody answers
        at `listening`, a writer beside the trainer is started, and `poll` tells so. `lock` is held
        until both have ended. Raises UnavailableError when there is none.
        """
        if not 1 <= num_slots <= messages.MAX_SLOTS:
            raise ValueError(f"{num_slots} slots: 1 to {messages.MAX_SLOTS} are possible")
        link = cls(target, num_slots, flush_signals, listening, lock)
        try:
            link._start()
        except UnavailableError:
            link._release()
            raise
        return link

    def ensure_room(self, num_bytes: int, sharers: int = 1) -> int:
        """Let the slots have room for snapshots of `num_bytes`; how many there are now.

        The memory is there when this returns, so that filling never waits for it. Fewer than were
        wanted, or 0, where the cgroup (see `cgroup_memory`) has no room for them, which `sharers`
        processes of this host divide. Slots that have the room keep it, and what they hold.
        """
        bound = cgroup_memory.tightest()
        left = None if bound is None else bound.headroom // sharers
        for slot in self._slots:
            more = max(0, num_bytes - len(slot.data))
            if left is not None and more > left:
                break
            with suppress(UnavailableError):
                slot.grow(num_bytes)
                left = None if left is None else left - more
        self._usable = [i for i, slot in enumerate(self._slots) if len(slot.data) >= num_bytes]
        return len(self._usable)

    @property
    def num_slots(self) -> int:
        """How many snapshots it holds at most. With one, a new one takes the place of the last."""
        return len(self._usable)

    @property
    def target(self) -> RunTarget:
        """Which rank's checkpoints these are, and where they go."""
        return self._hello.target

    def free_slot(self) -> int | None:
        """Take a slot to fill; None while the writer needs all that may be taken.

        Never the newest complete snapshot, unless there is but one slot; never one that is being
        written, or was asked to be. What the slot held is gone from now on.
        """
        self._receive()
        newest = max(range(len(self._held)), key=self._held.__getitem__)
        for index in sorted(self._usable, key=self._held.__getitem__):
            slot = self._slots[index]
            if index in self._filling or self._held[index] in self._asked:
                continue
            if index == newest and self._held[index] >= 0 and len(self._usable) > 1:
                continue
            if slot.try_lock(for_writing=True):
                slot.mark_empty()
                self._held[index] = -1
                self._filling.add(index)
                return index
        return None

    def buffer(self, slot: int) -> memoryview:
        """The bytes of a slot, page-aligned: write only between `free_slot` and `filled`."""
        return self._slots[slot].data

    def filled(self, slot: int, step: int, num_bytes: int) -> None:
        """The slot that was taken now holds the whole snapshot after `step` finished steps."""
        self._slots[slot].mark_filled(Contents(step, num_bytes))
        self._held[slot] = step
        self._filling.discard(slot)
        self._slots[slot].unlock()

    def give_up(self, slot: int) -> None:
        """The slot that was taken could not be filled: it stays empty."""
        self._filling.discard(slot)
        self._slots[slot].unlock()

    def persist(self, step: int, reason: Reason) -> None:
        """Ask for the snapshot of `step`, which a slot holds, on the disk. `poll` tells of it."""
        self._asked[step] = reason
        self._send(messages.Persist(step, reason))

    def flush(self, reason: Reason) -> None:
        """Ask for the newest snapshot that all ranks hold, as a signal does through `wake_fd`."""
        self._flush_asked, self._flush_step = reason, max(self._held)
        self._send(messages.Flush(reason))

    def poll(self, timeout_s: float = 0.0) -> list[Outcome]:
        """What has happened since the last call; waits this long for anything to happen.

        A writer that died is started anew, and a Notice tells so.
        """
        deadline = time.monotonic() + timeout_s
        self._receive()
        while not self._outcomes and self._wait_readable(deadline - time.monotonic()):
            self._receive()
        outcomes, self._outcomes = self._outcomes, []
        return outcomes

    def wait(self, step: int, timeout_s: float) -> Committed | Failed | None:
        """The answer to `persist(step)`; None when there is none within the time.

        A commit of a later step is an answer too. `poll` gives all of them once more.
        """
        deadline = time.monotonic() + timeout_s
        self._receive()
        while step in self._asked and self._wait_readable(deadline - time.monotonic()):
            self._receive()
        return self._answers.get(step) if step not in self._asked else None

    def close(self, timeout_s: float) -> list[Outcome]:
        """Let the writer finish what it was asked, at most this long; then let go of it.

        A writer that takes longer goes on by itself; the memory of the slots goes with it. One that
        dies before it has done all is started anew, as before.
        """
        if self._connection is not None:
            self._close_by = time.monotonic() + timeout_s
            self._send(messages.Close())
            while self._connection is not None and self._wait_readable(self._time_left_s()):
                self._receive()
        self._release()
        outcomes, self._outcomes = self._outcomes, []
        return outcomes

    def _time_left_s(self) -> float:
        """Until a `close` that was begun has to return; no limit before."""
        return math.inf if self._close_by is None else self._close_by - time.monotonic()

    def _wait_readable(self, timeout_s: float) -> bool:
        if self._connection is None or timeout_s <= 0:
            return False
        poll = select.poll()
        poll.register(self._connection, select.POLLIN)
        return bool(poll.poll(timeout_s * 1000))

    def _send(self, message: messages.Message) -> None:
        if self._connection is None:
            self._fail_asked("no-writer", "no checkpoint writer runs")
            return
        try:
            messages.send(self._connection, message)
        except OSError:  # it has died: `_receive` finds out how
            self._receive()

    def _receive(self) -> None:
        """Take whatever the writer has sent."""
        while self._connection is not None:
            try:
                received = messages.receive(self._connection)
            except BlockingIOError:
                return
            if received is None:
                self._ended()
            else:
                self._take(received[0])

    def _take(self, message: messages.Message) -> None:
        if isinstance(message, Committed | Failed) and (
            message.step not in self._asked or message.step >= self._flush_step
        ):
            self._flush_asked = None
        if isinstance(message, Committed):
            self._deaths = 0
            for step in [s for s in self._asked if s <= message.step]:
                self._answer(step, message)
        elif isinstance(message, Failed) and message.step in self._asked:
            self._answer(message.step, message)
        elif isinstance(message, messages.Closed):
            self._is_done = True
        if isinstance(message, Committed | Failed | Notice):
            self._outcomes.append(message)

    def _answer(self, step: int, answer: Committed | Failed) -> None:
        del self._asked[step]
        self._answers[step] = answer
        while len(self._answers) > _MAX_ANSWERS:
            del self._answers[next(iter(self._answers))]

    def _fail_asked(self, error: str, message: str) -> None:
        for step, reason in list(self._asked.items()):
            failed = Failed(step, reason, error, message)
            self._answer(step, failed)
            self._outcomes.append(failed)
        if self._flush_asked is not None:
            self._outcomes.append(Failed(-1, self._flush_asked, error, message))
            self._flush_asked = None

    def _ended(self) -> None:
        """The writer has hung up. Unless it has done all, another takes its place, and work."""
        how = self._hang_up()
        if self._is_done or not (self._close_by is None or self._is_owed):
            return
        self._deaths += 1
        what_now = f"{self._deaths} in a row without a commit; no other is started"
        if self._deaths < MAX_DEATHS:
            what_now = "started anew"
            try:
                self._start()
                self._ask_again()
            except UnavailableError as e:
                what_now = e.message
        if self._connection is None:
            self._fail_asked("writer-died", f"the checkpoint writer died: {how}")
        self._outcomes.append(Notice(f"the checkpoint writer died ({how}): {what_now}"))

    @property
    def _is_owed(self) -> bool:
        """Whether the writer has something to do that it has not answered."""
        return bool(self._asked) or self._flush_asked is not None

    def _ask_again(self) -> None:
        """Tell a new writer what the one before has not answered."""
        for step, reason in list(self._asked.items()):
            self._send(messages.Persist(step, reason))
        if self._flush_asked is not None:
            self._send(messages.Flush(self._flush_asked))
        if self._close_by is not None:
            self._send(messages.Close())

    def _start(self) -> None:
        """A writer that has the slots. UnavailableError when there is none."""
        if self._listening:
            try:
                self._connection = start.connect(Path(self._listening))
            except UnavailableError as e:
                self._outcomes.append(
                    Notice(f"{e.message}; started one within the job step, which ends with it")
                )
        if self._connection is None:
            self._connection, self._child = start.start_child()
        locks = [self._lock.fd] if self._lock else []
        fds = [self._wake_read, *locks, *(slot.fd for slot in self._slots)]
        try:
            messages.send(self._connection, self._hello, fds)
            limit_s = min(READY_LIMIT_S, self._time_left_s())
            ready = self._wait_readable(limit_s) and messages.receive(self._connection)
        except OSError as e:
            self._hang_up()
            raise UnavailableError(f"the checkpoint writer does not answer: {e}") from None
        if not ready or not isinstance(ready[0], messages.Ready):
            how = self._hang_up()
            raise UnavailableError(f"the checkpoint writer did not start: {how}")
        self.writer_pid = ready[0].pid

    def _hang_up(self) -> str:
        """Close the line; how the writer ended, where that can be known. A child is gone then."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None
        child, self._child = self._child, None
        return child.end_words() if child else "it hung up"

    def _release(self) -> None:
        """Let go of all that it has."""
        _links.discard(self)
        if self._connection is not None:
            self._connection.close()
            self._connection = None
        for slot in self._slots:
            slot.close()
        for fd in (self._wake_read, self.wake_fd):
            if fd >= 0:
                os.close(fd)
        self._wake_read = self.wake_fd = -1
        if self._lock is not None:
            self._lock.close()
            self._lock = None
        self._slots = []
        self._usable = []

    def leave_to_parent(self) -> None:
        """In a forked child: nothing of it is the child's."""
        with suppress(ValueError):
            before = signal.set_wakeup_fd(-1)
            if before not in (-1, self.wake_fd):
                signal.set_wakeup_fd(before)
        self._release()


_links: weakref.WeakSet[WriterLink] = weakref.WeakSet()


def _leave_links_to_parent() -> None:
    for link in list(_links):
        link.leave_to_parent()


os.register_at_fork(after_in_child=_leave_links_to_parent)
