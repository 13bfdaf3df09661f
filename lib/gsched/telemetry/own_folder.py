"""Writing in the heartbeat folder, as the user whose job it is.

Files are opened and closed around each write: on NFS this is what lets other hosts see it, and
elsewhere it costs microseconds.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import islice
from pathlib import Path

KEEP_DAYS = 30
"""A user's own files that nobody has written for so long are removed by the user's next job."""

_TIDY_INTERVAL_S = 86400.0
_MAX_TIDIED = 10_000
_MARK = ".tidied"
_SAFELY = os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK


class OwnFolder:
    """A user's folder of the heartbeat folder. All questions raise OSError where it fails, or
    somebody else has taken its place or that of a file.
    """

    def __init__(self, folder: Path, uid: int) -> None:
        """`uid` is the number under which Slurm knows the owner, who may be root to itself in a
        container.
        """
        self.path = folder / str(uid)

    def make(self) -> None:
        """Make the folder, where it is not there."""
        self.path.mkdir(mode=0o755, exist_ok=True)

    @contextmanager
    def open(self, name: str, flags: int) -> Iterator[int]:
        """The descriptor of a file."""
        with self._open_folder() as folder:
            fd = os.open(name, flags | _SAFELY, 0o644, dir_fd=folder)
            try:
                _refuse_strangers(fd, self.path / name, stat.S_ISREG)
                yield fd
            finally:
                os.close(fd)

    def replace(self, name: str, new_name: str) -> None:
        """Give a file another name, whatever has that now."""
        with self._open_folder() as folder:
            os.replace(name, new_name, src_dir_fd=folder, dst_dir_fd=folder)

    def tidy(self) -> None:
        """Once a day files that are older than KEEP_DAYS go."""
        now = time.time()
        with suppress(FileNotFoundError), self._open_folder() as folder:
            with suppress(FileNotFoundError):
                mark = os.stat(_MARK, dir_fd=folder, follow_symlinks=False)
                if now - mark.st_mtime < _TIDY_INTERVAL_S:
                    return
            os.close(os.open(_MARK, os.O_WRONLY | os.O_CREAT | _SAFELY, 0o644, dir_fd=folder))
            os.utime(_MARK, dir_fd=folder, follow_symlinks=False)
            with os.scandir(folder) as entries:
                old = [entry.name for entry in islice(entries, _MAX_TIDIED) if _is_old(entry, now)]
            for name in old:
                with suppress(FileNotFoundError):  # another job of the user's tidies too
                    os.unlink(name, dir_fd=folder)

    @contextmanager
    def _open_folder(self) -> Iterator[int]:
        fd = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY | _SAFELY)
        try:
            _refuse_strangers(fd, self.path, stat.S_ISDIR)
            yield fd
        finally:
            os.close(fd)


def write_all(fd: int, data: bytes, offset: int) -> None:
    """Write at a place of the file, whole."""
    while data:
        written = os.pwrite(fd, data, offset)
        data, offset = data[written:], offset + written


def _is_old(entry: os.DirEntry[str], now: float) -> bool:
    try:
        modified = entry.stat(follow_symlinks=False).st_mtime
    except FileNotFoundError:
        return False
    return entry.name[0].isdigit() and now - modified > KEEP_DAYS * 86400


def _refuse_strangers(fd: int, path: Path, is_right_kind: Callable[[int], bool]) -> None:
    status = os.fstat(fd)
    if status.st_uid != os.geteuid():
        raise PermissionError(f"{path} belongs to another user (uid {status.st_uid})")
    if not is_right_kind(status.st_mode):
        raise PermissionError(f"{path} is not a file")
