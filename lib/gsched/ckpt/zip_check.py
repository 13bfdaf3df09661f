"""Whether a zip archive is whole, without unpacking anything: `torch.save` writes one."""

from __future__ import annotations

import os
import struct
import zipfile
from collections.abc import Callable, Iterator
from io import RawIOBase
from typing import IO, TYPE_CHECKING

from gsched.ckpt.look import CHUNK_BYTES, foreign, torn

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

MAX_DIRECTORY_BYTES = 64 << 20
"""Of an archive's table of members: some 500,000 of them."""

NOT_ENDED = "the archive has no end, or a damaged one"
DAMAGED_TABLE = "its table of members is damaged"
_ENTRY_BYTES = 46
"""Of an entry of that table, before its name; the lengths of what follows are at byte 28."""
_LENGTHS = struct.Struct("<3H")
_END = struct.Struct("<4s4H2LH")
"""End of central directory: signature, disks, counts, size and offset of the table, comment."""
_LOCATOR = struct.Struct("<4sLQL")
"""Where the following record is: signature, disk, offset, number of disks."""
_END64 = struct.Struct("<4sQ2H2L4Q")
"""Its 64-bit form: signature, size, versions, disks, counts, size and offset of the table."""
_ZIP_ERRORS = (zipfile.BadZipFile, NotImplementedError, RuntimeError, ValueError, EOFError)


class Window(RawIOBase):
    """Bytes `start` to `start + length` of a file, as a file of their own to read.

    What asks for more at once than an archive's table may have is refused: the length that a
    hostile file names costs no memory.
    """

    def __init__(self, file: IO[bytes], start: int, length: int) -> None:
        self._file = file
        self._start = start
        self._length = length
        self._at = 0

    def readable(self) -> bool:
        """Yes."""
        return True

    def seekable(self) -> bool:
        """Yes."""
        return True

    def seek(self, offset: int, whence: int = 0) -> int:
        """As files do; before the beginning is OSError, as zipfile expects it."""
        at = offset + (0, self._at, self._length)[whence]
        if at < 0:
            raise OSError("before the beginning")
        self._at = at
        return at

    def read(self, size: int = -1) -> bytes:
        """Up to `size` bytes, by default all that follow."""
        rest = max(self._length - self._at, 0)
        size = rest if size < 0 else min(size, rest)
        if size > MAX_DIRECTORY_BYTES:
            raise zipfile.BadZipFile(f"a part of {size:,} bytes")
        self._file.seek(self._start + self._at)
        data = self._file.read(size)
        self._at += len(data)
        return data

    def readinto(self, buffer: WriteableBuffer) -> int:
        """As files do."""
        view = memoryview(buffer).cast("B")
        data = self.read(len(view))
        view[: len(data)] = data
        return len(data)


class Archive:
    """A zip archive in a window of a file; `called` names it in what is refused."""

    def __init__(self, window: Window, called: str) -> None:
        self._called = called
        try:
            self._zip = zipfile.ZipFile(window)
        except _ZIP_ERRORS as e:
            why = NOT_ENDED if "not a zip file" in str(e) else f"{DAMAGED_TABLE} ({e})"
            raise torn(f"{called}: {why}") from None
        self.members = [member for member in self._zip.infolist() if not member.is_dir()]
        _check_end(window, self._zip, called)
        self.root = self.members[0].filename.partition("/")[0] if self.members else ""
        self.has_checksums = any(member.CRC for member in self.members)
        if not self.has_checksums:  # torch can leave them out, and writes 0 then
            for member in self.members:
                del member.CRC  # zipfile compares nothing then
        if any(member.compress_type != zipfile.ZIP_STORED for member in self.members):
            raise foreign(f"{called} is a packed zip archive, which torch does not write")
        if any(m.compress_size != m.file_size or m.volume for m in self.members):
            raise torn(f"{called}: {DAMAGED_TABLE}")
        if sum(member.file_size for member in self.members) > window.seek(0, os.SEEK_END):
            raise torn(f"{called}: its members are longer than the file")

    def has(self, name: str) -> bool:
        """Whether there is such a member below the root folder."""
        return any(member.filename == f"{self.root}/{name}" for member in self.members)

    def content(self, name: str, max_bytes: int) -> bytes | None:
        """A member below the root folder; None where it is larger. RefusedError: torn."""
        member = next(m for m in self.members if m.filename == f"{self.root}/{name}")
        if member.file_size > max_bytes:
            return None
        return b"".join(self._chunks(member))

    def check(self, tell: Callable[[int], None]) -> None:
        """Compare all checksums; `tell` gets the bytes read so far. RefusedError: torn."""
        done = 0
        for member in self.members if self.has_checksums else ():
            for chunk in self._chunks(member):
                done += len(chunk)
                tell(done)

    def _chunks(self, member: zipfile.ZipInfo) -> Iterator[bytes]:
        try:
            with self._zip.open(member) as f:
                while chunk := f.read(CHUNK_BYTES):
                    yield chunk
        except _ZIP_ERRORS as e:
            why = "checksum of" if "CRC" in str(e) else f"{e} of"
            raise torn(f"{self._called}: {why} {member.filename}") from None


def _check_end(window: Window, archive: zipfile.ZipFile, called: str) -> None:
    """Compare the records at the end, which have no checksum, with what they describe.

    Python's zipfile looks at a part of them; torch refuses an archive where any is wrong.
    """
    size, count = window.seek(0, os.SEEK_END), len(archive.infolist())
    window.seek(max(size - _END.size - _LOCATOR.size - _END64.size, 0))
    tail = window.read()
    signature, *disks, here, total, _, _, comment = _END.unpack(tail[-_END.size :])
    is_right = signature == b"PK\5\6" and not comment
    locator = tail[-_END.size - _LOCATOR.size : -_END.size]
    if locator.startswith(b"PK\6\7"):
        _, disk, at, num_disks = _LOCATOR.unpack(locator)
        record = _END64.unpack(tail[: _END64.size])
        starts = at == size - len(tail) and record[0] == b"PK\6\6" and record[1] == _END64.size - 12
        is_right &= starts and (disk, num_disks) == (0, 1) and all(d in (0, 0xFFFF) for d in disks)
        is_right &= all(n in (count, 0xFFFF) for n in (here, total))
        disks, (here, total) = list(record[4:6]), record[6:8]
    if not is_right or any(disks) or (here, total) != (count, count):
        raise torn(f"{called}: {NOT_ENDED}")
    end_bytes = len(tail) if locator.startswith(b"PK\6\7") else _END.size
    window.seek(archive.start_dir)
    _check_table(window.read(size - end_bytes - archive.start_dir), count, called)


def _check_table(table: bytes, count: int, called: str) -> None:
    """That `count` entries fill it exactly."""
    at = 0
    for _ in range(count):
        if at + _ENTRY_BYTES > len(table):
            break
        at += _ENTRY_BYTES + sum(_LENGTHS.unpack_from(table, at + 28))
    if at != len(table):
        raise torn(f"{called}: {DAMAGED_TABLE}")
