"""The file of a backup, of no engine: any of the databases that gsched works with can take it.

A zip archive (`unzip`, `zstdcat` and a text editor read it) of

- ``tables/NAME.jsonl.zst``: the rows of a table by its primary key, each a JSON list in the order
  of the manifest's columns; binary as base64, texts as stored (``columns.KeptText``);
- ``manifest.json``: format and version, gsched's version, the schema's revision, when it was made,
  and of each table its columns with their kinds, its number of rows and the SHA-256 of its stream.

A backup may come from anywhere: what is read from one is bounded and checked.
"""

from __future__ import annotations

import base64
import errno
import hashlib
import io
import json
import struct
import time
import zipfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO

import zstandard

from gsched.errors import DataError, PermissionDeniedError, UnavailableError

FORMAT = "gsched-backup"
VERSION = 1
KINDS = frozenset({"boolean", "integer", "real", "text", "binary"})

_MANIFEST = "manifest.json"
_MAX_MANIFEST = 2**22
_MAX_LINE = 2**28  # a row of several texts of 16 MiB, each character escaped
_ROWS_AT_ONCE = 5000
_BYTES_AT_ONCE = 2**23
_MAX_WINDOW = 2**27
_CUT_OFF = "it is damaged or cut off: use another backup"

Rows = list[list[Any]]


@dataclass(frozen=True, slots=True)
class TableEntry:
    """A table in a backup: its columns as (name, kind), its rows and the hash of its stream."""

    name: str
    columns: tuple[tuple[str, str], ...]
    rows: int
    sha256: str


@dataclass(frozen=True, slots=True)
class Manifest:
    """What a backup says of itself. `engine` is where it came from, `made_at` epoch seconds."""

    schema: str
    gsched: str
    engine: str
    made_at: int
    tables: tuple[TableEntry, ...]


class StreamHash:
    """Rows to the bytes of a table's stream, and their running SHA-256 and number."""

    def __init__(self, kinds: Sequence[str]) -> None:
        self._binary = [place for place, kind in enumerate(kinds) if kind == "binary"]
        self._encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
        self._hash = hashlib.sha256()
        self.rows = 0

    def encoded(self, rows: Iterable[Sequence[Any]]) -> bytes:
        """Some more rows as bytes."""
        told = [self._texts(row) for row in rows] if self._binary else list(rows)
        data = "".join(f"{self._encode(row)}\n" for row in told).encode("utf-8", "surrogatepass")
        self.rows += len(told)
        self._hash.update(data)
        return data

    def _texts(self, row: Sequence[Any]) -> list[Any]:
        cells = list(row)
        for place in self._binary:
            if cells[place] is not None:
                cells[place] = base64.b64encode(cells[place]).decode("ascii")
        return cells

    @property
    def sha256(self) -> str:
        """Of everything encoded so far."""
        return self._hash.hexdigest()


class BackupWriter:
    """Writes a backup into a stream, table by table; a context, left by an error or by `close`."""

    def __init__(self, stream: BinaryIO) -> None:
        self._zip = zipfile.ZipFile(stream, "w", zipfile.ZIP_STORED)
        self._time = time.gmtime()[:6]

    def __enter__(self) -> BackupWriter:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if error is not None:
            self._zip.fp = None  # else it writes its directory when it is collected

    def add(
        self, name: str, columns: Sequence[tuple[str, str]], rows: Iterable[Sequence[Sequence[Any]]]
    ) -> TableEntry:
        """Write a table, given some rows at a time."""
        stream = StreamHash([kind for _, kind in columns])
        info = zipfile.ZipInfo(_member(name), self._time)
        compressor = zstandard.ZstdCompressor(level=3)
        with (
            self._zip.open(info, "w", force_zip64=True) as entry,
            compressor.stream_writer(entry, closefd=False) as packed,
        ):
            for some in rows:
                packed.write(stream.encoded(some))
        return TableEntry(name, tuple(columns), stream.rows, stream.sha256)

    def close(self, manifest: Manifest) -> None:
        """Write the manifest and the archive's directory."""
        document = {"format": FORMAT, "version": VERSION, **asdict(manifest)}
        info = zipfile.ZipInfo(_MANIFEST, self._time)
        self._zip.writestr(info, json.dumps(document, indent=1))
        self._zip.close()


class BackupReader:
    """A backup that has been opened; its manifest holds nothing that has not been checked."""

    def __init__(self, path: Path, archive: zipfile.ZipFile) -> None:
        self._path = path
        self._zip = archive
        self.manifest = self._manifest()

    def _manifest(self) -> Manifest:
        with self._member(_MANIFEST) as stream:
            data = stream.read(_MAX_MANIFEST + 1)
        try:
            if len(data) > _MAX_MANIFEST:
                raise ValueError("the manifest is too long")
            return _manifest_of(json.loads(data))
        except (ValueError, KeyError, TypeError, RecursionError) as e:
            raise self.damaged(f"its manifest cannot be understood ({e})") from e

    def damaged(self, why: str) -> DataError:
        """The error to raise for contents that cannot be."""
        return DataError(f"{self._path} is no backup that can be restored: {why}", _CUT_OFF)

    @contextmanager
    def _member(self, name: str) -> Iterator[BinaryIO]:
        try:
            info = self._zip.getinfo(name)
        except KeyError:
            raise self.damaged(f"it has no {name}") from None
        if info.flag_bits & 1 or info.compress_type != zipfile.ZIP_STORED:
            raise self.damaged(f"{name} is packed in a way that gsched does not use")
        with _errors_as(self.damaged), self._zip.open(info) as stream:
            yield stream  # type: ignore[misc]

    def rows(self, table: TableEntry) -> Iterator[Rows]:
        """The rows of a table, some at a time. Raises DataError unless all of them are right.

        The number of cells and the hash are checked here, the latter at the end.
        """
        digest = hashlib.sha256()
        total = 0
        for lines in self._lines(table):
            digest.update(b"".join(lines))
            total += len(lines)
            if total > table.rows:
                break
            yield self._decoded(table, lines)
        if total != table.rows:
            raise self.damaged(f"table {table.name} has not the {table.rows} rows that it should")
        if digest.hexdigest() != table.sha256:
            raise self.damaged(f"table {table.name} has not the SHA-256 that it should")

    def _lines(self, table: TableEntry) -> Iterator[list[bytes]]:
        unpack = zstandard.ZstdDecompressor(max_window_size=_MAX_WINDOW)
        with self._member(_member(table.name)) as member, unpack.stream_reader(member) as packed:
            stream = io.BufferedReader(packed, 2**20)
            lines: list[bytes] = []
            size = 0
            while line := stream.readline(_MAX_LINE):
                if not line.endswith(b"\n"):
                    raise self.damaged(f"table {table.name} has a row that does not end")
                lines.append(line)
                size += len(line)
                if len(lines) == _ROWS_AT_ONCE or size > _BYTES_AT_ONCE:
                    yield lines
                    lines, size = [], 0
            if lines:
                yield lines

    def _decoded(self, table: TableEntry, lines: Sequence[bytes]) -> Rows:
        try:
            rows: Rows = json.loads(b"[%s]" % b",".join(lines))
        except (ValueError, RecursionError) as e:
            raise self.damaged(f"a row of table {table.name} is no JSON ({e})") from e
        width = len(table.columns)
        if len(rows) != len(lines) or not all(
            type(row) is list and len(row) == width for row in rows
        ):
            raise self.damaged(f"a row of table {table.name} has not its {width} columns")
        for place, (_, kind) in enumerate(table.columns):
            if kind == "binary":
                self._decode_binary(table, rows, place)
        return rows

    def _decode_binary(self, table: TableEntry, rows: Rows, place: int) -> None:
        try:
            for row in rows:
                if row[place] is not None:
                    row[place] = base64.b64decode(row[place], validate=True)
        except (ValueError, TypeError) as e:
            raise self.damaged(f"a row of table {table.name} has no base64 ({e})") from e


@contextmanager
def opened(path: Path) -> Iterator[BackupReader]:
    """A backup to read. Raises DataError for what is none, and for contents that are damaged."""
    try:
        stream = path.open("rb")
    except PermissionError as e:
        raise PermissionDeniedError(f"cannot read {path}: {e.strerror}") from e
    except FileNotFoundError as e:
        raise DataError(f"cannot read {path}: {e.strerror}") from e
    except OSError as e:
        raise UnavailableError(f"cannot read {path}: {e.strerror}") from e

    def not_a_backup(why: str) -> DataError:
        return DataError(f"{path} is no backup of gsched: {why}", _CUT_OFF)

    with stream:
        with _errors_as(not_a_backup):
            archive = zipfile.ZipFile(stream)
        with archive:
            yield BackupReader(path, archive)


_DAMAGE = (
    zipfile.BadZipFile,
    zstandard.ZstdError,
    struct.error,
    EOFError,
    IndexError,
    NotImplementedError,  # a version or a way of packing that zipfile does not know
    OverflowError,
    RuntimeError,  # a member that is encrypted
    ValueError,
)
"""What zipfile and zstd raise for files that are not as they should be."""


@contextmanager
def _errors_as(damaged: Callable[[str], DataError]) -> Iterator[None]:
    try:
        yield
    except _DAMAGE as e:
        raise damaged(str(e) or type(e).__name__) from e
    except OSError as e:
        if e.errno == errno.EINVAL:  # the directory leads to a place that no file has
            raise damaged(str(e)) from e
        raise UnavailableError(f"cannot read the backup: {e.strerror}") from e


def _member(table: str) -> str:
    return f"tables/{table}.jsonl.zst"


def _manifest_of(document: Any) -> Manifest:
    """A checked manifest. Raises KeyError, TypeError or ValueError."""
    if document["format"] != FORMAT:
        raise ValueError(f"format {document['format']!r}")
    if document["version"] != VERSION:
        raise ValueError(f"version {document['version']!r}, not {VERSION}: use a newer gsched")
    tables = tuple(_entry_of(entry) for entry in document["tables"])
    names = {table.name for table in tables}
    if len(names) != len(tables):
        raise ValueError("a table is named twice")
    return Manifest(
        schema=_text(document["schema"]),
        gsched=_text(document["gsched"]),
        engine=_text(document["engine"]),
        made_at=_number(document["made_at"]),
        tables=tables,
    )


def _entry_of(entry: Any) -> TableEntry:
    columns = tuple((_text(name), _text(kind)) for name, kind in entry["columns"])
    if len(dict(columns)) != len(columns) or not {kind for _, kind in columns} <= KINDS:
        raise ValueError(f"the columns of {entry['name']!r}")
    return TableEntry(_text(entry["name"]), columns, _number(entry["rows"]), _text(entry["sha256"]))


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is no text")
    return value


def _number(value: Any) -> int:
    if type(value) is not int or not 0 <= value < 2**63:
        raise TypeError(f"{value!r} is no number")
    return value
