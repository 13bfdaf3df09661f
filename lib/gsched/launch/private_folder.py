"""The job's private folder on its node: removed at the end, and what killed jobs have left as well.

A launcher that lives holds a lock on a file in its folder. Where Slurm kills all of a job's
processes at once nobody is left to remove it: the user's next job on that node does. The file is
named after the host, for a temporary folder that several hosts share: their locks may not be seen.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

PREFIX = "gsched-job."
_MAX_TRIES = 20
_POLL_S = 0.05
_SAFELY = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


@contextmanager
def held(path: Path | None) -> Iterator[None]:
    """The folder is this process's, and that of what it forks, until the block ends."""
    if path is None:
        yield
        return
    lock = _marked(path)
    _remove_left_over(path.parent)
    try:
        yield
    finally:
        remove(path)
        if lock is not None:
            os.close(lock)


def remove(path: Path) -> None:
    """Remove it with all that is in it, though a process that is just being killed writes there."""
    for _ in range(_MAX_TRIES):
        shutil.rmtree(path, ignore_errors=True)
        if not path.exists():
            return
        time.sleep(_POLL_S)


def _mark_name() -> str:
    return f"held-on-{socket.gethostname()}"


def _marked(path: Path) -> int | None:
    """The mark, locked before it has its name; None where none can be made."""
    temporary = path / ".held"
    with suppress(OSError):
        lock = os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL | _SAFELY, 0o600)
        with suppress(OSError):
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            temporary.rename(path / _mark_name())
            return lock
        os.close(lock)
    return None


def _remove_left_over(parent: Path) -> None:
    with suppress(OSError):
        for path in parent.glob(f"{PREFIX}*"):
            if _is_left_over(path):
                remove(path)


def _is_left_over(path: Path) -> bool:
    """Whether it is a folder of this user whose launcher has ended: its mark is there, unlocked."""
    with suppress(OSError):
        folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | _SAFELY)
        try:
            if os.fstat(folder).st_uid != os.geteuid():
                return False
            mark = os.open(_mark_name(), os.O_RDWR | _SAFELY, dir_fd=folder)
        finally:
            os.close(folder)
        try:
            fcntl.flock(mark, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        finally:
            os.close(mark)
    return False
