"""Which file of a zip or tar archive holds the data, and its bytes."""

from __future__ import annotations

import lzma
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath
from typing import IO, Any

from gsched.errors import DataError

TAR_HEAD = 262
"""Bytes by which a tar archive is known."""

_BLOCK = 1 << 17
_SHOWN = 10
_BROKEN_ZIP = (
    zipfile.BadZipFile,
    zlib.error,
    lzma.LZMAError,
    struct.error,
    EOFError,
    OSError,
    ValueError,
    OverflowError,
    NotImplementedError,
)
"""What zipfile raises for archives that are cut off, damaged or beyond it."""


class DamagedError(Exception):
    """Packed bytes that end early or do not fit together; the text says which."""


def is_tar(head: bytes) -> bool:
    """Whether the first TAR_HEAD bytes of a file are those of a tar archive."""
    return head[257:262] == b"ustar"


def zip_blocks(file: IO[bytes], name: str, member: str | None) -> Iterator[bytes]:
    """The bytes of the one file of data, or of `member`, of the zip archive `name`.

    Raises DataError when there is no such file, or there are several, and for a damaged archive;
    the blocks raise DamagedError.
    """
    try:
        archive = zipfile.ZipFile(file)
        listed = [entry for entry in archive.namelist() if entry and entry[-1] != "/"]
    except _BROKEN_ZIP as e:
        raise DataError(f"{name}: cut off or damaged, nothing was read: {e}") from None
    chosen = archive.getinfo(_chosen(listed, name, member))
    if chosen.flag_bits & 1:
        raise DataError(f"{name}: {chosen.filename} is encrypted", "unpack it first")
    try:
        return _read_blocks(archive.open(chosen), "zip", _BROKEN_ZIP)
    except _BROKEN_ZIP as e:
        raise DataError(f"{name}: {chosen.filename} cannot be unpacked ({e})") from None


def tar_member(file: Any, name: str, member: str | None) -> str:
    """The one file of data, or `member`, of a tar archive that is read to its end.

    Raises DataError as `zip_blocks` does.
    """
    try:
        with tarfile.open(fileobj=file, mode="r|", ignore_zeros=False) as archive:
            listed = [entry.name for entry in archive if entry.isreg()]
    except (tarfile.TarError, EOFError, ValueError, OverflowError) as e:
        raise DataError(f"{name}: the tar archive is cut off or damaged ({e})") from None
    return _chosen(listed, name, member)


def tar_blocks(file: Any, member: str) -> Iterator[bytes]:
    """The bytes of one file of a tar archive; raises DamagedError."""
    with tarfile.open(fileobj=file, mode="r|") as archive:
        for entry in archive:
            if entry.isreg() and entry.name == member:
                data = archive.extractfile(entry)
                yield from _read_blocks(data, "tar", (tarfile.TarError, EOFError))
                return


def _read_blocks(data: Any, kind: str, broken: tuple[type[Exception], ...]) -> Iterator[bytes]:
    try:
        while block := data.read1(_BLOCK):
            yield block
    except EOFError:
        raise DamagedError(f"the {kind} data are cut off") from None
    except broken as e:
        raise DamagedError(f"the {kind} data are damaged ({e})") from None


def _chosen(listed: Sequence[str], archive: str, member: str | None) -> str:
    """The file to read: `member`, or the only one that is no note or hidden file."""
    if member is not None:
        if member not in listed:
            raise DataError(f"{archive} has no file {member!r}", f"it has {_names(listed)}")
        return member
    data = [name for name in listed if _is_data(name)]
    if len(data) != 1:
        some = f"{len(data)} files of data: {_names(data)}" if data else "no file of data"
        raise DataError(f"{archive} has {some}", f"name one: {archive}:MEMBER" if data else "")
    return data[0]


def _is_data(name: str) -> bool:
    path = PurePosixPath(name)
    is_note = path.name.upper().startswith(("README", "LICENSE", "LICENCE", "COPYING"))
    return not is_note and not any(part.startswith((".", "__MACOSX")) for part in path.parts)


def _names(listed: Sequence[str]) -> str:
    more = f" and {len(listed) - _SHOWN} more" if len(listed) > _SHOWN else ""
    return ", ".join(listed[:_SHOWN]) + more
