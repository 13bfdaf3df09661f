"""A slot: host memory that trainer and writer share, with one snapshot in it, or none.

A memfd: no name, no limit of /dev/shm, gone with its last holder; its pages are charged to the
memory cgroup of the trainer, which touches them first. The first page tells what the slot holds;
behind it lie the exact bytes of the rank's file.

Whoever reads or writes it holds a lock on it, which the kernel takes back when its holder dies, and
which orders memory: the writer never reads a slot that is being filled, whatever it has been told.
The lock belongs to an open file of this side's own (an "OFD lock"), so that neither a forked child
nor a mapping that is let go of can end it.
"""

from __future__ import annotations

import fcntl
import mmap
import os
import struct
from contextlib import suppress
from dataclasses import dataclass

from gsched.errors import UnavailableError

HEADER_BYTES = 4096
"""One page, so that the data are aligned for whoever copies into them."""

_HEADER = struct.Struct("=8sqq")
_MAGIC = b"gschslt1"
_NOTHING = -1
_FLOCK = struct.Struct("hhqqi4x")
"""struct flock of 64-bit Linux: type, whence, start, length, pid."""


@dataclass(frozen=True, slots=True)
class Contents:
    """The snapshot in a slot: after how many finished steps, and how many bytes."""

    step: int
    num_bytes: int


class Slot:
    """One of them, as either side sees it."""

    def __init__(self, fd: int) -> None:
        """Map the memory behind `fd`, which the slot owns from now on."""
        self.fd = fd
        self._lock_fd = os.open(f"/proc/self/fd/{fd}", os.O_RDWR | os.O_CLOEXEC)
        self._map_all()

    @classmethod
    def make(cls) -> Slot:
        """A new slot without room; see `grow`. Raises UnavailableError without memory."""
        fd = os.memfd_create("gsched-snapshot", os.MFD_CLOEXEC)
        try:
            os.posix_fallocate(fd, 0, HEADER_BYTES)
            return cls(fd)
        except OSError as e:
            os.close(fd)
            raise UnavailableError(f"no shared memory for snapshots: {e.strerror}") from None

    def grow(self, num_bytes: int) -> None:
        """Give it room for at least `num_bytes`, whose pages are there and mapped: no faults later.

        `data` is another view then; what it holds stays. Raises UnavailableError without memory.
        """
        if num_bytes <= len(self.data):
            return
        try:
            os.posix_fallocate(self.fd, 0, HEADER_BYTES + num_bytes)
            self._map_all()
        except OSError as e:
            raise UnavailableError(
                f"no {num_bytes:,} bytes of shared memory for a snapshot: {e.strerror}"
            ) from None

    def _map_all(self) -> None:
        size = os.fstat(self.fd).st_size
        if size < HEADER_BYTES:
            raise UnavailableError("a slot has no room for its header")
        self._map = mmap.mmap(self.fd, size, mmap.MAP_SHARED | mmap.MAP_POPULATE)
        self.data = memoryview(self._map)[HEADER_BYTES:]

    def contents(self) -> Contents | None:
        """What it holds; None while it is empty or half filled. Only under a lock."""
        if os.fstat(self.fd).st_size > HEADER_BYTES + len(self.data):  # the trainer let it grow
            self._map_all()
        magic, step, num_bytes = _HEADER.unpack_from(self._map)
        if magic != _MAGIC or step == _NOTHING or not 0 <= num_bytes <= len(self.data):
            return None
        return Contents(step, num_bytes)

    def mark_empty(self) -> None:
        """From now on it holds nothing."""
        _HEADER.pack_into(self._map, 0, _MAGIC, _NOTHING, 0)

    def mark_filled(self, contents: Contents) -> None:
        """From now on it holds a complete snapshot."""
        if not 0 <= contents.num_bytes <= len(self.data) or contents.step < 0:
            raise ValueError(f"{contents} does not fit a slot of {len(self.data)} bytes")
        _HEADER.pack_into(self._map, 0, _MAGIC, contents.step, contents.num_bytes)

    def try_lock(self, *, for_writing: bool) -> bool:
        """Lock it against the other process; False while that one has it."""
        try:
            self._set_lock(fcntl.F_WRLCK if for_writing else fcntl.F_RDLCK)
        except (BlockingIOError, PermissionError):  # EAGAIN or EACCES: POSIX leaves the choice
            return False
        return True

    def unlock(self) -> None:
        """Let the other process have it."""
        self._set_lock(fcntl.F_UNLCK)

    def _set_lock(self, kind: int) -> None:
        first_byte = _FLOCK.pack(kind, os.SEEK_SET, 0, 1, 0)
        fcntl.fcntl(self._lock_fd, fcntl.F_OFD_SETLK, first_byte)

    def close(self) -> None:
        """Give the memory back, once nobody refers to `data` any more."""
        with suppress(BufferError):  # a tensor over it still lives: then it goes with that one
            self.data.release()
            self._map.close()
        os.close(self._lock_fd)
        os.close(self.fd)
