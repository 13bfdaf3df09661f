"""Removing old checkpoints while others are written.

Which may go is found out in a thread: those that stay are verified, and reading what an earlier run
has written may take minutes, in which a signal must not wait. Removing takes little time.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Collection

from gsched.ckpt import layout, prune
from gsched.ckpt.disk import Disk
from gsched.ckpt.faults import FaultHook
from gsched.ckpt.prune import PrunePlan
from gsched.ckpt.removal import remove, take_away
from gsched.ckpt.target import RunTarget
from gsched.errors import GschedError


class Pruning:
    """The old checkpoints of one folder; `advance` is to be called now and then until idle."""

    def __init__(self, disk: Disk, target: RunTarget, fault: FaultHook) -> None:
        self._disk = disk
        self._target = target
        self._fault = fault
        self._known: set[int] = set()  # steps written or verified here: they are not read again
        self._thread: threading.Thread | None = None
        self._found: PrunePlan | OSError | GschedError | None = None
        self._is_wanted = False

    @property
    def is_idle(self) -> bool:
        """Whether nothing is to be done."""
        return self._thread is None and not self._is_wanted

    def committed(self, step: int, *, written_here: bool) -> None:
        """There is a new checkpoint: older ones may have to go."""
        if written_here:
            self._known.add(step)
        self._is_wanted = self._target.keep is not None

    def advance(self) -> str:
        """Do what can be done at once; the words for what went wrong, else ""."""
        words = ""
        if self._thread is not None and not self._thread.is_alive():
            self._thread.join()
            self._thread = None
            words = self._carry_out()
        if self._thread is None and self._is_wanted:
            self._is_wanted = False
            self._thread = threading.Thread(target=self._look, daemon=True)
            self._thread.start()
        return words

    def _look(self) -> None:
        """In the thread: only reads."""
        try:
            self._found = prune.plan(
                self._target.folder,
                self._target.keep or 1,
                trusted_steps=frozenset(self._known),
                kinds=("gsched",),
            )
        except (OSError, GschedError) as e:
            self._found = e

    def _carry_out(self) -> str:
        found, self._found = self._found, None
        try:
            if isinstance(found, PrunePlan):
                prune.apply(found, self._disk, self._fault)
                self._known = {c.step for c in found.kept if c.step is not None}
                return ""
        except (OSError, GschedError) as e:
            found = e
        return f"old checkpoints were not removed: {found}"


def remove_leftovers(disk: Disk, target: RunTarget, step: int, active: Collection[int]) -> None:
    """Remove what writers that died have left, now that `step` is committed. Raises OSError.

    Of this run: partial checkpoints of earlier steps that are not `active`, still being written. Of
    other runs: agreements on a flush, and ranks' locks, that nobody has touched for long.
    """
    for path in target.folder.iterdir():
        partial, ranks = layout.parse_partial_name(path.name), layout.parse_ranks_name(path.name)
        if partial and partial[1] == target.run:
            is_left = partial[0] < step and partial[0] not in active
        else:
            is_others = layout.parse_flush_name(path.name) or ranks not in (None, target.run)
            is_left = bool(is_others) and path.stat().st_mtime < time.time() - prune.UNTOUCHED_S
        if is_left:
            remove(disk, take_away(disk, path))
