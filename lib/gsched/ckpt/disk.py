"""What the write protocol does to a file system: one small set of operations, behind a protocol.

A test puts another `Disk` in its place, which records each operation, makes it fail with ENOSPC,
EDQUOT or EIO, or ends the process there. `RealDisk` is the only one in the product.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Protocol


class Disk(Protocol):
    """The operations; all raise OSError. A file that is open for writing is its descriptor."""

    def make_folder(self, path: Path) -> None:
        """Make a folder; one that is there already is good too."""

    def create(self, path: Path) -> int:
        """Make a new file and open it for writing. FileExistsError when the name is taken."""

    def write(self, fd: int, data: bytes | memoryview) -> None:
        """Append all of `data`."""

    def fsync(self, fd: int) -> None:
        """Wait until the contents of a file are durable."""

    def close(self, fd: int) -> None:
        """Close a file."""

    def rename(self, source: Path, target: Path) -> None:
        """Give a file or folder another name; a file at `target` is replaced."""

    def fsync_folder(self, path: Path) -> None:
        """Wait until the names in a folder are durable."""

    def touch(self, path: Path) -> None:
        """Let a file that is there seem changed now: a sign of life."""

    def unlink(self, path: Path) -> None:
        """Remove a file."""

    def remove_folder(self, path: Path) -> None:
        """Remove an empty folder."""


class RealDisk:
    """The operating system's files."""

    def make_folder(self, path: Path) -> None:
        """mkdir(2). What is there and is no folder: FileExistsError."""
        path.mkdir(exist_ok=True)

    def create(self, path: Path) -> int:
        """open(2), exclusively: never through a link that somebody has laid."""
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        return os.open(path, flags, 0o666)

    def write(self, fd: int, data: bytes | memoryview) -> None:
        """write(2), as often as it takes: a full disk first gives a short write."""
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(fd, rest) :]

    def fsync(self, fd: int) -> None:
        """fsync(2)."""
        os.fsync(fd)

    def close(self, fd: int) -> None:
        """close(2), which on NFS can tell of a full quota."""
        os.close(fd)

    def rename(self, source: Path, target: Path) -> None:
        """rename(2)."""
        source.rename(target)

    def fsync_folder(self, path: Path) -> None:
        """fsync(2) of the folder itself."""
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)

    def touch(self, path: Path) -> None:
        """utimensat(2)."""
        os.utime(path)

    def unlink(self, path: Path) -> None:
        """unlink(2)."""
        path.unlink()

    def remove_folder(self, path: Path) -> None:
        """rmdir(2)."""
        path.rmdir()


def replace_file(disk: Disk, path: Path, data: bytes) -> None:
    """Write a small file whole: a temporary name, fsync, rename. The folder is not synced."""
    temporary = path.with_name(f".{path.name}.new")
    with suppress(FileNotFoundError):  # of one who was killed here before
        disk.unlink(temporary)
    try:
        write_file(disk, temporary, data)
        disk.rename(temporary, path)
    except OSError:
        with suppress(OSError):
            disk.unlink(temporary)
        raise


def write_file(disk: Disk, path: Path, data: bytes) -> None:
    """Write a new small file and sync its contents."""
    fd = disk.create(path)
    try:
        disk.write(fd, data)
        disk.fsync(fd)
    finally:
        disk.close(fd)


def read_fresh(path: Path, max_bytes: int) -> bytes:
    """What another host has written to `path` last; "" where it has not. Raises OSError.

    NFS clients remember for up to `acdirmax` that a name was not there. O_CREAT asks the server,
    and leaves an empty file until the other one renames its own over it; opening what is there
    fetches it anew (close-to-open). At most `max_bytes` are read.
    """
    flags = os.O_RDONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    fd = os.open(path, flags, 0o666)
    try:
        return os.read(fd, max_bytes)
    finally:
        os.close(fd)


def make_folders(disk: Disk, path: Path) -> None:
    """Make a folder and those above it, durably: one that is there was made so, or not by us."""
    if path.is_dir():
        return
    make_folders(disk, path.parent)
    disk.make_folder(path)
    try:
        disk.fsync_folder(path.parent)
    except OSError:
        with suppress(OSError):
            disk.remove_folder(path)
        raise
