"""The job's private folder on its node: removed at the end, and what killed jobs have left as well.

A launcher that lives holds a lock on a file in its folder. Where Slurm kills all of a job's
processes at once nobody is left to remove it: the user's next job on that node does. The file is
named after the host, for a temporary folder that several hosts share: their locks may not be seen.

The ranks of a job on several nodes are started from copies, one on each node, in a folder of the
same name and COPIES. The job removes them, but where Slurm cancels it: nothing of its runs on the
other nodes then. They go with a later job, once no process is started from them.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import socket
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

PREFIX = "gsched-job."
COPIES = ".ranks"
COPY_PLACES = (Path("/tmp"), Path("/dev/shm"))  # noqa: S108, in a folder of its user's alone
"""Where copies may lie, besides the folder in which the job's own is; template ddp names them."""

COPY_MARK = ".on-"
"""Before the name of a host that has copied there."""

COPY_AGE_S = 3600.0
"""Copies are not touched before: the step that runs them may not have begun."""

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
        for copies in _copies_of(path):
            if _is_own(copies):
                remove(copies)
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
    for place in {parent, *COPY_PLACES}:
        with suppress(OSError):
            for path in place.glob(f"{PREFIX}*"):
                if path.name.endswith(COPIES):
                    is_left_over = _are_left_over(path)
                else:
                    is_left_over = place == parent and _is_left_over(path)
                if is_left_over:
                    remove(path)


def _copies_of(path: Path) -> list[Path]:
    return [place / f"{path.name}{COPIES}" for place in {path.parent, *COPY_PLACES}]


def _is_own(path: Path) -> bool:
    """Whether it is a folder of this user, and no link to one."""
    with suppress(OSError):
        found = path.lstat()
        return stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid()
    return False


def _are_left_over(copies: Path) -> bool:
    """Whether they are this user's, old, made by this host alone, and of no process that runs."""
    if not _is_own(copies):
        return False
    with suppress(OSError):
        is_old = time.time() - copies.lstat().st_mtime > COPY_AGE_S
        hosts = [path.name for path in copies.glob(f"{COPY_MARK}*")]
        if is_old and hosts == [f"{COPY_MARK}{socket.gethostname()}"]:
            return not any(_names(process, copies) for process in Path("/proc").glob("[0-9]*"))
    return False


def _names(process: Path, folder: Path) -> bool:
    """Whether what a process was started with lies in a folder, as far as it can be seen."""
    with suppress(OSError):
        return os.fsencode(f"{folder}/") in (process / "cmdline").read_bytes()
    return False


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
