"""Reading in the heartbeat folder. Whoever owns a job may put anything under its name.

A folder or file is opened without following links and without waiting for anybody (FIFOs, leases),
and must belong to the job's owner; so much is read as is asked for, whatever the size.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Self

from gsched.errors import DataError

_OPEN = os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY
_NO_SUCH = (FileNotFoundError, NotADirectoryError)
_NO_FILE = frozenset({errno.ELOOP, errno.ENXIO, errno.EISDIR})
"""A link, a socket, a folder: what its owner has put there instead."""


class UnreadableError(DataError):
    """It is there, or may be, and cannot be read: what it holds is not known."""


class UserFolders:
    """The heartbeat folder of a site, to be used in a ``with``: users' folders stay open."""

    def __init__(self, path: Path) -> None:
        """`path` is the administrator's word, and trusted."""
        self._path = path
        self._users: dict[int, int] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for fd in self._users.values():
            os.close(fd)
        self._users.clear()

    def read(self, uid: int, name: str, size: int, offset: int, max_size: int) -> bytes | None:
        """`size` bytes of a file of the user `uid`; None where there is none, or only zeros.

        Raises DataError for what is no such file, or larger than `max_size`; UnreadableError where
        the file system fails.
        """
        return self._opened(uid, name, lambda fd, _: os.pread(fd, size, offset), max_size)

    def read_end(self, uid: int, name: str, size: int) -> bytes | None:
        """The last `size` bytes of a file, or all of them; else as `read`."""

        def end(fd: int, length: int) -> bytes:
            return os.pread(fd, size, max(0, length - size))

        return self._opened(uid, name, end, None)

    def _opened(
        self, uid: int, name: str, read: Callable[[int, int], bytes], max_size: int | None
    ) -> bytes | None:
        where = f"{self._path}/{uid}/{name}"
        try:
            fd = os.open(name, os.O_RDONLY | _OPEN, dir_fd=self._user_folder(uid))
        except _NO_SUCH:
            return None
        except OSError as e:
            refusal = DataError if e.errno in _NO_FILE else UnreadableError
            raise refusal(f"{where}: {_words(e)}") from None
        try:
            status = os.fstat(fd)
            if why := why_refused(status, uid, max_size):
                raise DataError(f"{where}: {why}")
            data = read(fd, status.st_size)
            return data if data.strip(b"\0") else None  # a file that has just been made
        except OSError as e:
            raise UnreadableError(f"{where}: {_words(e)}") from None
        finally:
            os.close(fd)

    def _user_folder(self, uid: int) -> int:
        """Raises OSError; DataError where somebody else has taken the place."""
        if uid not in self._users:
            fd = os.open(self._path / str(uid), os.O_PATH | os.O_DIRECTORY | _OPEN)
            if os.fstat(fd).st_uid != uid:
                os.close(fd)
                raise DataError(f"{self._path}/{uid} belongs to another user")
            self._users[uid] = fd
        return self._users[uid]


def why_refused(status: os.stat_result, uid: int, max_size: int | None) -> str:
    """Why a file is not believed to be the user's; "" where it is."""
    if not stat.S_ISREG(status.st_mode):
        return "is not a file"
    if status.st_uid != uid:
        return f"belongs to another user (uid {status.st_uid})"
    if max_size is not None and status.st_size > max_size:
        return f"has {status.st_size} bytes, more than {max_size}"
    return ""


def _words(error: OSError) -> str:
    return "is a link" if error.errno == errno.ELOOP else error.strerror or "cannot be read"
