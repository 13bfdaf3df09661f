"""Which ranks of a run are there still: each holds a lock, its trainer and its writer together.

Rank 0 holds FOLDER/.lock, the others a file in FOLDER/.ranks-RUN/. The kernel, or the file server,
lets go of it when both have ended: then nobody waits for what that rank was to write. Where a file
system has no locks nothing is known, and the others wait as long as for one that is silent.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from gsched.ckpt import layout
from gsched.ckpt.lock import FolderLock
from gsched.ckpt.target import RunTarget

_LOOK_S = 1.0
_FLAGS = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


def hold(folder: Path, run: str, rank: int) -> FolderLock | None:
    """The lock of a rank that is not the first; None where there can be none."""
    path = _lock_of(folder, run, rank)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        fd = os.open(path, os.O_RDWR | os.O_CREAT | _FLAGS, 0o666)
    except OSError:
        return None
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(fd)
        with suppress(OSError):
            path.unlink()  # else it would seem to be let go of
        return None
    return FolderLock(fd)


class Presence:
    """The other ranks of a run, as one of them sees them; each is asked about now and then."""

    def __init__(self, target: RunTarget, stopwatch: Callable[[], float] = time.monotonic) -> None:
        self._target = target
        self._stopwatch = stopwatch
        self._next_look: dict[int, float] = {}

    def has_ended(self, rank: int) -> bool:
        """Whether a rank is seen to have ended, its trainer and its writer."""
        now = self._stopwatch()
        if now < self._next_look.get(rank, now):
            return False
        self._next_look[rank] = now + _LOOK_S
        return _is_free(_lock_of(self._target.folder, self._target.run, rank))


def _lock_of(folder: Path, run: str, rank: int) -> Path:
    if rank == 0:
        return folder / layout.LOCK_NAME
    return folder / layout.ranks_name(run) / layout.rank_lock_name(rank)


def _is_free(path: Path) -> bool:
    """Whether there is a lock, and nobody has it."""
    try:
        fd = os.open(path, os.O_RDONLY | _FLAGS)
    except OSError:
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return False
    finally:
        os.close(fd)
    return True
