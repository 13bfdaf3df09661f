"""Snapshots of the states in the writer's slots, and what is asked of the writer."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from gsched.ckpt.lock import FolderLock
from gsched.ckpt.manifest import Reason
from gsched.ckpt.outcome import Committed, Failed
from gsched.ckpt.target import RunTarget
from gsched.ckpt.writer.link import WriterLink
from gsched.ckpt.writer.messages import Outcome
from gsched.errors import UnavailableError
from gsched.runtime.checkpoint import tensor_file
from gsched.runtime.checkpoint.states import States
from gsched.runtime.checkpoint.stored import FORMAT_VERSION
from gsched.runtime.checkpoint.tensor_file import Layout

_POLL_S = 0.05


@dataclass(frozen=True, slots=True)
class Asked:
    """A step that the writer is to write; since when, by the monotonic clock."""

    step: int
    time: float


class Snapshots:
    """Of one rank, and the writer that has them."""

    def __init__(
        self,
        target: RunTarget,
        states: States,
        flush_signals: Sequence[int],
        listening: str,
        sharers: int,
        lock: FolderLock | None = None,
    ) -> None:
        """Start the writer. `sharers` ranks of this host divide the memory that is left.
        `lock` is the folder's, which the writer holds as well.

        Raises UnavailableError when no writer can be had.
        """
        self._target = target
        self._states = states
        self._sharers = sharers
        self._link = WriterLink.open(
            target, flush_signals=flush_signals, listening=listening, lock=lock
        )
        self._layout: Layout | None = None
        self._views: dict[int, list[torch.Tensor]] = {}
        self._asked: dict[int, float] = {}  # by step, since when
        self._left_over: list[Outcome] = []
        self.newest: int | None = None
        """The step of the newest snapshot."""

    @property
    def wake_fd(self) -> int:
        """Where a signal's number makes the writer flush."""
        return self._link.wake_fd

    @property
    def is_writing(self) -> bool:
        """Whether the writer was asked for something that it has not answered."""
        return bool(self._asked)

    @property
    def oldest_asked(self) -> Asked | None:
        """What the writer has not answered for longest."""
        return min(
            (Asked(*item) for item in self._asked.items()), key=lambda a: a.time, default=None
        )

    @property
    def num_bytes(self) -> int:
        """Of one snapshot of this rank; 0 before the first."""
        return 0 if self._layout is None else self._layout.num_bytes

    @property
    def writer_pid(self) -> int:
        """The process that writes."""
        return self._link.writer_pid

    def take(self, step: int, wait_s: float) -> bool:
        """Copy all states into a slot. False when none was free within `wait_s` seconds.

        Returns when the copy is complete: the states may change again. Raises UsageError for a
        state that cannot be kept, UnavailableError without memory.
        """
        with torch.no_grad():
            encoder, tree = self._states.encode()
            metadata = {
                "gsched": FORMAT_VERSION,
                "step": str(step),
                "rank": str(self._target.rank),
                "world_size": str(self._target.world_size),
                "state": tree,
            }
            header = self._prepare(tensor_file.key_of(encoder.tensors), metadata)
            slot = self._free_slot(wait_s)
            if slot is None:
                return False
            self._fill(slot, step, header, list(encoder.tensors.values()))
        return True

    def persist(self, step: int, reason: Reason) -> None:
        """Ask for the snapshot of `step` on the disk."""
        self._asked[step] = time.monotonic()
        self._link.persist(step, reason)

    def flush(self, reason: Reason) -> None:
        """Ask for the newest snapshot that all ranks hold on the disk."""
        self._link.flush(reason)

    def poll(self, timeout_s: float = 0.0) -> list[Outcome]:
        """What has become of what was asked, once each."""
        outcomes, self._left_over = self._left_over, []
        outcomes += self._link.poll(timeout_s)
        for outcome in outcomes:
            if isinstance(outcome, Committed):
                self._asked = {s: since for s, since in self._asked.items() if s > outcome.step}
            elif isinstance(outcome, Failed):
                self._asked.pop(outcome.step, None)
        return outcomes

    def wait(self, step: int, timeout_s: float) -> Committed | Failed | None:
        """The answer to `persist(step)`, None when there is none within the time."""
        return self._link.wait(step, timeout_s)

    def close(self, timeout_s: float) -> list[Outcome]:
        """Let the writer finish what it was asked, then let go of it."""
        self._views = {}
        return self._left_over + self._link.close(timeout_s)

    def _prepare(self, key: tensor_file.Key, metadata: dict[str, str]) -> bytes:
        """The file's header; with a layout, and slots, that have room for this snapshot."""
        if self._layout is None or self._layout.key != key:
            self._lay_out(key, metadata)
        header = tensor_file.header(self._laid_out, metadata)
        if header is None:  # a tree that has grown by more than its spare room
            self._lay_out(key, metadata)
            header = tensor_file.header(self._laid_out, metadata)
        assert header is not None  # noqa: S101 - a new layout has room
        return header

    def _lay_out(self, key: tensor_file.Key, metadata: dict[str, str]) -> None:
        self._layout, self._views = tensor_file.plan(key, metadata), {}
        num_bytes = self._layout.num_bytes
        if not self._link.ensure_room(num_bytes, self._sharers):
            raise UnavailableError(
                f"no memory for a snapshot of {num_bytes / 1e9:,.2f} GB beside the training",
                "ask for more memory (--mem): twice the size of the states is best, once is needed",
            )

    @property
    def _laid_out(self) -> Layout:
        if self._layout is None:
            raise RuntimeError("no snapshot was laid out")
        return self._layout

    def _free_slot(self, wait_s: float) -> int | None:
        deadline = time.monotonic() + wait_s
        while (slot := self._link.free_slot()) is None and time.monotonic() < deadline:
            self._left_over += self._link.poll(_POLL_S)
        return slot

    def _fill(self, slot: int, step: int, header: bytes, tensors: list[torch.Tensor]) -> None:
        link, layout = self._link, self._laid_out
        try:
            buffer = link.buffer(slot)
            buffer[: len(header)] = header
            if slot not in self._views:
                self._views[slot] = tensor_file.views(layout, buffer)
            for place, tensor in zip(self._views[slot], tensors, strict=True):
                place.copy_(tensor, non_blocking=True)
            for device in {t.device for t in tensors if t.device.type != "cpu"}:
                torch.accelerator.synchronize(device)
        except BaseException:
            link.give_up(slot)
            raise
        link.filled(slot, step, layout.num_bytes)
        self.newest = step
