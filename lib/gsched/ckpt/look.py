"""One place on disk, looked at with care: names and contents are a stranger's.

Symbolic links are not followed, what is no plain file is not opened (a FIFO would block), and the
number of names is bounded.
"""

from __future__ import annotations

import errno
import os
import stat
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from gsched.ckpt.found import Progress, Verdict

MAX_NAMES = 100_000
"""A folder with more of them is not read on."""
MAX_DEPTH = 3
"""So many levels of folders belong to a checkpoint."""
CHUNK_BYTES = 4 << 20

_OPEN = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class RefusedError(Exception):
    """A checkpoint is not whole: the verdict, and the reason with the file."""

    def __init__(self, verdict: Verdict, reason: str) -> None:
        super().__init__(reason)
        self.verdict = verdict
        self.reason = reason


def torn(reason: str) -> RefusedError:
    """To raise where a committed checkpoint is damaged."""
    return RefusedError(Verdict.TORN, reason)


def foreign(reason: str) -> RefusedError:
    """To raise where a checkpoint cannot be judged."""
    return RefusedError(Verdict.FOREIGN, reason)


@dataclass(frozen=True, slots=True)
class Look:
    """A file or a folder, and what lies in it: name (``a/b`` further down) → its status."""

    path: Path
    status: os.stat_result
    entries: Mapping[str, os.stat_result]

    @property
    def is_folder(self) -> bool:
        """Whether it is a folder (and no link to one)."""
        return stat.S_ISDIR(self.status.st_mode)

    @property
    def is_file(self) -> bool:
        """Whether it is a plain file (and no link to one)."""
        return stat.S_ISREG(self.status.st_mode)

    @property
    def num_bytes(self) -> int:
        """Bytes of all its plain files."""
        return sum(s.st_size for s in (self.status, *self.entries.values()) if _is_plain(s))

    def size(self, name: str) -> int:
        """Bytes of a file in the folder. Raises RefusedError where there is no such plain file."""
        status = self.entries.get(name)
        if status is None:
            raise torn(f"{name} is missing")
        if not _is_plain(status):
            raise torn(f"{name} is not a plain file")
        return status.st_size

    @contextmanager
    def opened(self, name: str = "") -> Iterator[BinaryIO]:
        """A file of the folder, or without a name the file itself, to read.

        Any OSError in the block is a RefusedError: what cannot be read cannot be judged.
        """
        called = name or self.path.name
        try:
            fd = os.open(self.path / name if name else self.path, _OPEN)
            if not _is_plain(os.fstat(fd)):
                os.close(fd)
                raise torn(f"{called} is not a plain file")
            with os.fdopen(fd, "rb") as f:
                yield f
        except FileNotFoundError:
            raise torn(f"{called} is missing") from None
        except OSError as e:
            if e.errno == errno.ELOOP:
                raise torn(f"{called} is a symbolic link") from None
            raise foreign(f"{called} cannot be read: {e.strerror or e}") from None

    def read(self, name: str, max_bytes: int) -> bytes:
        """All of a small file. Raises RefusedError, also where it is larger."""
        with self.opened(name) as f:
            data = f.read(max_bytes + 1)
        if len(data) > max_bytes:
            raise foreign(f"{name} has more than {max_bytes} bytes: it was not read")
        return data

    def crc32(self, name: str, tell: Progress) -> int:
        """CRC-32 of a file in the folder, as zlib has it."""
        crc, done, total = 0, 0, self.size(name)
        with self.opened(name) as f:
            while chunk := f.read(CHUNK_BYTES):
                crc = zlib.crc32(chunk, crc)
                done += len(chunk)
                tell(name, done, total)
        return crc


def look_at(path: Path, *, deep: bool = False) -> Look:
    """Look at `path`, and into it where it is a folder; `deep`: into the folders in it as well.

    Raises OSError, FileNotFoundError where it has vanished.
    """
    status = path.lstat()
    entries: dict[str, os.stat_result] = {}
    if stat.S_ISDIR(status.st_mode):
        for name, found in _walk(path, "", MAX_DEPTH if deep else 1):
            entries[name] = found
            if len(entries) >= MAX_NAMES:
                break
    return Look(path, status, entries)


def is_same(one: os.stat_result, other: os.stat_result) -> bool:
    """Whether both are the status of one file or folder."""
    return (one.st_dev, one.st_ino) == (other.st_dev, other.st_ino)


def _walk(folder: Path, prefix: str, levels: int) -> Iterator[tuple[str, os.stat_result]]:
    with os.scandir(folder) as found:
        for entry in found:
            try:
                status = entry.stat(follow_symlinks=False)
                yield prefix + entry.name, status
                if levels > 1 and stat.S_ISDIR(status.st_mode):
                    yield from _walk(folder / entry.name, f"{prefix}{entry.name}/", levels - 1)
            except FileNotFoundError:  # it has vanished since it was listed
                continue


def _is_plain(status: os.stat_result) -> bool:
    return stat.S_ISREG(status.st_mode)
