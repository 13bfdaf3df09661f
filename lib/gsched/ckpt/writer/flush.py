"""How the writers of one run agree which snapshot to flush: the newest that all ranks hold.

In FOLDER/.flush-RUN-N/ each rank says which steps it holds, and the writer of rank 0 decides. N
counts the decisions; a rank that comes late, or anew, follows the decisions that it has missed.
What one rank says calls the others, whose trainers may know nothing of it: each looks now and then.
Nothing of it has to survive a crash of the host.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Collection, Generator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from gsched.ckpt import layout, manifest
from gsched.ckpt.disk import Disk, make_folders, read_fresh, replace_file
from gsched.ckpt.faults import FaultHook, FaultPoint, no_faults
from gsched.ckpt.manifest import Reason
from gsched.ckpt.patience import Patience
from gsched.ckpt.presence import Presence
from gsched.ckpt.removal import remove, take_away
from gsched.ckpt.target import RunTarget
from gsched.errors import DataError

_MAX_BYTES = 4096
_NO_STEP = -1

Agreeing = Generator[None, None, int]
"""Yields while other ranks are waited for; returns the step."""


class NoAgreementError(Exception):
    """The ranks hold no snapshot of one step, or one of them does not answer: the words."""


@dataclass
class Agreement:
    """One rank's part in all flushes of its run."""

    disk: Disk
    target: RunTarget
    fault: FaultHook = no_faults
    stopwatch: Callable[[], float] = time.monotonic
    is_last: bool = field(default=False, init=False)
    """Whether a trainer has died in what was agreed last: nothing newer can be held by all."""
    _number: int = field(default=0, init=False)
    _heard: set[tuple[str, int]] = field(default_factory=set, init=False)

    def call(self) -> Reason | None:
        """Why another rank wants a flush that this one has had no part in. Raises OSError.

        A folder that is opened is asked of the server, also on NFS (close-to-open).
        """
        number = max(self._numbers(), default=0)
        if number < max(self._number, 1) or not (new := self._calls(number) - self._heard):
            return None
        self._heard |= new
        said = [_said(self._folder(number) / name) for name, _ in new]
        has_died = any(s is not None and s.has_died for s in said)
        return Reason.TRAINER_DIED if has_died else Reason.SIGNAL

    def agree(self, held: Collection[int], reason: Reason = Reason.SIGNAL) -> Agreeing:
        """The step to flush, of those that this rank holds. Raises OSError or NoAgreementError."""
        make_folders(self.disk, self.target.folder)
        if self._number == 0:
            self._number = max([1, *self._numbers()])
        while (decided := self._decided()) is not None:
            self._number += 1
            if decided in held:
                return decided
        folder = self._folder(self._number)
        self.disk.make_folder(folder)
        mark = folder / layout.mark_name(self.target.rank)
        _put(self.disk, mark, {"steps": sorted(held), "reason": reason})
        self.fault(FaultPoint.FLUSH_ANNOUNCED)
        try:
            step = yield from (
                self._lead(folder, held, reason) if self.target.leads else self._follow()
            )
        except (OSError, NoAgreementError, GeneratorExit):
            with suppress(OSError):
                self.disk.unlink(mark)
                self._heard |= self._calls(self._number)  # those were answered, in vain
            raise
        self._number += 1
        self.fault(FaultPoint.FLUSH_DECIDED)
        if step not in held:
            raise NoAgreementError("no step is held by all ranks")
        return step

    def forget(self) -> None:
        """Remove what nobody asks about any more: the decisions before the last."""
        for number in self._numbers():
            if number < self._number - 1:
                with suppress(OSError):
                    remove(self.disk, self._folder(number))

    def leave(self) -> None:
        """Let the others know that this rank takes part no more. The last one removes all.

        Raises OSError.
        """
        make_folders(self.disk, self.target.folder)
        numbers = self._numbers()
        number = max([1, self._number, *numbers])
        folder = self._folder(number)
        self.disk.make_folder(folder)
        _put(self.disk, folder / layout.ended_name(self.target.rank), {"ended": True})
        if all(self._has_ended(rank, number) for rank in range(self.target.world_size)):
            ranks = self.target.folder / layout.ranks_name(self.target.run)
            for left in (*map(self._folder, {number, *numbers}), *[ranks] * ranks.is_dir()):
                remove(self.disk, take_away(self.disk, left))

    def _has_ended(self, rank: int, number: int) -> bool:
        """Whether a rank takes no part in flush `number`; it may have said so in the one before."""
        folders = (self._folder(number), self._folder(number - 1))
        return any(_content(f / layout.ended_name(rank)) for f in folders if f.is_dir())

    def _lead(self, folder: Path, own: Collection[int], reason: Reason) -> Agreeing:
        common, has_died = set(own), reason is Reason.TRAINER_DIED
        patience = Patience(self.target.peer_wait_s, self.stopwatch)
        presence = Presence(self.target, self.stopwatch)
        for rank in range(1, self.target.world_size):
            while (said := _said(folder / layout.mark_name(rank))) is None:
                if presence.has_ended(rank) or self._has_ended(rank, self._number):
                    raise NoAgreementError(f"rank {rank} has ended")
                if patience.is_over(rank):
                    raise NoAgreementError(f"rank {rank} does not say what it holds")
                yield
            common &= said.steps
            has_died |= said.has_died
        step = max(common, default=_NO_STEP)
        self.is_last = has_died
        _put(self.disk, folder / layout.DECISION_NAME, {"step": step, "last": self.is_last})
        return step

    def _follow(self) -> Agreeing:
        patience = Patience(self.target.peer_wait_s, self.stopwatch)
        presence = Presence(self.target, self.stopwatch)
        while (step := self._decided()) is None:
            if presence.has_ended(0) or self._has_ended(0, self._number):
                raise NoAgreementError("rank 0 has ended")
            if patience.is_over(None):
                raise NoAgreementError("rank 0 does not decide")
            yield
        return step

    def _decided(self) -> int | None:
        folder = self._folder(self._number)
        decision = _content(folder / layout.DECISION_NAME) if folder.is_dir() else {}
        step = decision.get("step")
        if not isinstance(step, int):
            return None
        self.is_last = decision.get("last") is True
        return step

    def _calls(self, number: int) -> set[tuple[str, int]]:
        """What other ranks have said while nothing is decided: the mark's name, and when."""
        own = layout.mark_name(self.target.rank)
        with os.scandir(self._folder(number)) as entries:
            found = {e.name: e.stat(follow_symlinks=False) for e in entries}
        if _has_content(found.get(layout.DECISION_NAME)):
            return set()
        return {
            (name, status.st_mtime_ns)
            for name, status in found.items()
            if name != own and layout.parse_mark_name(name) is not None and _has_content(status)
        }

    def _numbers(self) -> list[int]:
        names = (layout.parse_flush_name(path.name) for path in self.target.folder.iterdir())
        return [name[1] for name in names if name and name[0] == self.target.run]

    def _folder(self, number: int) -> Path:
        return self.target.folder / layout.flush_name(self.target.run, number)


@dataclass(frozen=True, slots=True)
class _Said:
    """The steps that a rank holds, and whether it says so because its trainer has died."""

    steps: set[int]
    has_died: bool


def _said(mark: Path) -> _Said | None:
    """What a rank says; None as long as it has said nothing."""
    content = _content(mark)
    steps = content.get("steps")
    if not isinstance(steps, list):
        return None
    has_died = content.get("reason") == Reason.TRAINER_DIED
    return _Said({s for s in steps if isinstance(s, int)}, has_died)


def _has_content(status: os.stat_result | None) -> bool:
    """Whether more was done to a file than to ask for it (see `read_fresh`)."""
    return status is not None and status.st_size > 0


def _content(path: Path) -> dict[str, object]:
    with suppress(DataError):
        return manifest.load_json_object(read_fresh(path, _MAX_BYTES), _MAX_BYTES)
    return {}


def _put(disk: Disk, path: Path, content: dict[str, object]) -> None:
    replace_file(disk, path, json.dumps(content).encode())
