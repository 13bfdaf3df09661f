"""Opens a file of past jobs, whatever it is packed in: plain, gzip, zstd, zip, tar.

What a file is packed in is told by its first bytes; names do not count. Everything is unpacked as
a stream in blocks of bounded size, so that a file that unpacks to any length costs time but no
memory.
"""

from __future__ import annotations

import gzip
import io
import os
import shutil
import stat
import tempfile
import zlib
from abc import abstractmethod
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, Any, cast

from gsched.errors import DataError, PermissionDeniedError, UnavailableError, UsageError
from gsched.files import keeping_a_copy
from gsched.traces import archives
from gsched.traces.archives import DamagedError

STDIN = "-"

_BLOCK = 1 << 17
_ZSTD_STEP = 512  # a block of zstd takes 4 bytes at least and gives 128 KiB at most: 16 MiB a step
_LONGEST_HELD = 1 << 20
_MAX_LAYERS = 4
_GZIP, _ZSTD, _ZIP = b"\x1f\x8b", b"\x28\xb5\x2f\xfd", (b"PK\x03\x04", b"PK\x05\x06")
_FOREIGN = {b"\xfd7zXZ\x00": "xz", b"BZh": "bzip2", b"7z\xbc\xaf\x27\x1c": "7z"}
_SUFFIXES = (".gz", ".zst", ".zip", ".tgz", ".tar")


class TraceStream(io.BufferedReader):
    """The unpacked bytes of one file.

    Packed data that are cut off or damaged end after the last whole line before the damage, and
    `damage` says so then: no number of a line that was cut is taken for a whole one. An I/O error
    of the file itself is an UnavailableError.
    """

    def __init__(self, file: _File, unpacked: _Layer, resources: ExitStack) -> None:
        super().__init__(unpacked, _BLOCK)
        self._file = file
        self._unpacked = unpacked
        self._resources = resources

    @property
    def position(self) -> int:
        """Bytes of the (packed) file taken so far; 0 for a pipe."""
        return self._file.position

    @property
    def size(self) -> int | None:
        """Bytes of the (packed) file; None for a pipe."""
        return self._file.size

    @property
    def damage(self) -> str:
        """Why the data end before their end, and how far they were read; "" while all is well."""
        return self._unpacked.damage

    def close(self) -> None:
        """Close the file, too."""
        super().close()
        self._resources.close()


def open_trace(path: str) -> TraceStream:
    """Open the file `path`, ``-`` (standard input) or ``ARCHIVE:MEMBER``; use it in a `with`.

    An archive (zip, tar) without MEMBER must hold exactly one file of data. Raises UsageError for
    no such file, PermissionDeniedError, UnavailableError, and DataError for an archive with several
    files (it names them) and for packed data that are damaged from the start.
    """
    path, member = _split_member(path)
    with ExitStack() as resources:
        file = resources.enter_context(_open(path))
        unpacked = _unpacked(file, member, resources)
        if unpacked.damage and not unpacked.head(1):
            raise DataError(unpacked.damage)
        return TraceStream(file, unpacked, resources.pop_all())


@contextmanager
def spooled(stream: IO[bytes]) -> Iterator[IO[bytes]]:
    """All of a stream in a temporary file, for what must be read from its end."""
    with ExitStack() as stack:
        with keeping_a_copy():
            copy = stack.enter_context(tempfile.TemporaryFile())
            shutil.copyfileobj(stream, copy)
            copy.seek(0)
        yield copy


def flows(path: str) -> bool:
    """Whether what `open_trace` takes can be read only once: standard input, a pipe."""
    file = Path(path)
    return path == STDIN or file.is_fifo() or file.is_char_device() or file.is_socket()


def file_stem(path: str) -> str:
    """The name of the data alone: ``KTH-SP2`` of ``x/KTH-SP2.swf.gz``, "" of standard input."""
    if path == STDIN:
        return ""
    name = Path(_split_member(path)[1] or path).name
    while name.lower().endswith(_SUFFIXES):
        name = name[: name.rindex(".")]
    return name.rpartition(".")[0] or name


def _split_member(path: str) -> tuple[str, str | None]:
    """``ARCHIVE:MEMBER`` in two, unless there is a file of just that name."""
    if ":" in path and not os.path.lexists(path):
        for colon in (at for at, letter in enumerate(path) if letter == ":"):
            if Path(path[:colon]).is_file():
                return path[:colon], path[colon + 1 :]
    return path, None


class _Layer(io.RawIOBase):
    """Bytes of which the first can be looked at before they are read."""

    damage = ""

    def __init__(self) -> None:
        super().__init__()
        self._head = b""

    @abstractmethod
    def _next(self, length: int) -> bytes:
        """Some more bytes, about `length`; none at the end."""

    def head(self, length: int) -> bytes:
        """The first bytes, which stay to be read; fewer when there are no more."""
        while len(self._head) < length and (more := self._next(length - len(self._head))):
            self._head += more
        return self._head[:length]

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        view = memoryview(buffer)
        data = self._head or self._next(len(view))
        view[: len(data)] = data[: len(view)]
        self._head = data[len(view) :]
        return min(len(data), len(view))


class _File(_Layer):
    """A file as it lies there, or a pipe."""

    def __init__(self, plain: IO[bytes], name: str) -> None:
        super().__init__()
        status = os.fstat(plain.fileno())
        self.plain = plain
        self.name = name
        self.size = status.st_size if stat.S_ISREG(status.st_mode) else None

    @property
    def position(self) -> int:
        """See TraceStream."""
        return 0 if self.size is None or self.plain.closed else self.plain.tell()

    def seekable(self) -> bool:
        return self.size is not None

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        if whence == io.SEEK_CUR:
            offset -= len(self._head)
        self._head = b""
        return self.plain.seek(offset, whence)

    def tell(self) -> int:
        return self.plain.tell() - len(self._head)

    def close(self) -> None:
        super().close()
        self.plain.close()

    def _next(self, length: int) -> bytes:
        try:
            return self.plain.read(length) or b""
        except OSError as e:
            raise UnavailableError(f"cannot read {self.name}: {e.strerror}") from e


def _open(path: str) -> _File:
    name = "standard input" if path == STDIN else path
    try:
        if path == STDIN:
            return _File(open(0, "rb", buffering=0, closefd=False), name)
        return _File(Path(path).open("rb", buffering=0), name)
    except PermissionError as e:
        raise PermissionDeniedError(f"cannot read {name}: {e.strerror}") from e
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError) as e:
        raise UsageError(f"cannot read {name}: {e.strerror}") from e
    except OSError as e:
        raise UnavailableError(f"cannot read {name}: {e.strerror}") from e
    except ValueError as e:  # a NUL in the name
        raise UsageError(f"cannot read {name!r}: {e}") from e


class _Unpacked(_Layer):
    """Unpacked blocks as a file that ends with the last whole line before any damage."""

    def __init__(self, blocks: Iterator[bytes], name: str) -> None:
        super().__init__()
        self._blocks = blocks
        self._name = name
        self._held = b""  # what follows the last line that is known to be whole
        self._lines = self._bytes = 0

    def _next(self, length: int) -> bytes:
        while block := self._block():
            data = self._held + block
            end = data.rfind(b"\n") + 1
            if len(data) - end > _LONGEST_HELD:
                end = len(data)
            self._held = data[end:]
            self._lines += data.count(b"\n", 0, end)
            self._bytes += end
            if end:
                return data[:end]
        rest, self._held = self._held, b""
        return b"" if self.damage else rest

    def _block(self) -> bytes:
        try:
            return b"" if self.damage else next(self._blocks, b"")
        except DamagedError as e:
            self.damage = (
                f"{self._name}: {e}, after {self._lines:,} lines ({self._bytes:,} bytes) unpacked"
            )
            return b""


def _unpacked(file: _File, member: str | None, resources: ExitStack) -> _Layer:
    """`file` without archives and layers of compression."""
    layer: _Layer = file
    asked = member
    for _ in range(_MAX_LAYERS):
        head = layer.head(archives.TAR_HEAD)
        blocks: Iterator[bytes]
        if head.startswith(_GZIP):
            blocks = _gzip_blocks(layer)
        elif head.startswith(_ZSTD):
            blocks = _zstd_blocks(layer)
        elif head.startswith(_ZIP) and layer is file:
            blocks, asked = archives.zip_blocks(_seekable(file, resources), file.name, member), None
        elif archives.is_tar(head):
            blocks, asked = _tar_blocks(file, layer, member), None
        else:
            break
        layer = _Unpacked(blocks, file.name)
    else:
        raise DataError(f"{file.name} is packed more than {_MAX_LAYERS - 1} times over")
    for magic, kind in _FOREIGN.items():
        if head.startswith(magic):
            raise DataError(f"{file.name} is packed by {kind}", "unpack it, or repack it by zstd")
    if asked is not None:
        raise DataError(f"{file.name} is no archive, so that it has no file {asked!r}")
    return layer


def _gzip_blocks(layer: _Layer) -> Iterator[bytes]:
    unpacking = gzip.GzipFile(fileobj=layer)
    try:
        while block := unpacking.read1(_BLOCK):
            yield block
    except EOFError:
        raise DamagedError("the gzip data are cut off") from None
    except (gzip.BadGzipFile, zlib.error) as e:
        raise DamagedError(f"the gzip data are damaged ({e})") from None


def _zstd_blocks(layer: _Layer) -> Iterator[bytes]:
    import zstandard

    new = zstandard.ZstdDecompressor().decompressobj
    decoder = new()
    try:
        while data := layer.read(_BLOCK):
            for start in range(0, len(data), _ZSTD_STEP):
                piece = data[start : start + _ZSTD_STEP]
                while piece:
                    decoder = new() if decoder.eof else decoder
                    if block := decoder.decompress(piece):
                        yield block
                    piece = decoder.unused_data if decoder.eof else b""
    except zstandard.ZstdError as e:
        raise DamagedError(f"the zstd data are damaged ({e})") from None
    if not decoder.eof:
        raise DamagedError("the zstd data are cut off")


def _seekable(file: _File, resources: ExitStack) -> IO[bytes]:
    """The file, or what a pipe gives in a temporary file: a zip's directory is at its end."""
    if file.size is not None:
        file.seek(0)
        return file.plain
    return resources.enter_context(spooled(cast(IO[bytes], file)))


def _tar_blocks(file: _File, layer: _Layer, member: str | None) -> Iterator[bytes]:
    """The one member of a tar archive: which one that is, a first reading tells."""
    if file.size is None:
        raise DataError(f"{file.name} is a tar archive, which needs a file", "or: tar -xO … | …")
    name = archives.tar_member(layer, file.name, member)
    file.seek(0)
    again: _Layer = file
    while not archives.is_tar(head := again.head(archives.TAR_HEAD)):
        packed = _gzip_blocks(again) if head.startswith(_GZIP) else _zstd_blocks(again)
        again = _Unpacked(packed, file.name)
    return archives.tar_blocks(again, name)
