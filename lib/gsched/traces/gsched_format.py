"""gsched's own file of attempts, as CSV or Parquet: what `gsched trace convert` writes.

The columns are the fields of ``gsched.model.history.AttemptRecord``; gsched-attempts(5) describes
them. A CSV begins with the line ``# gsched attempts 1``, a Parquet file says the same in its
metadata (key ``gsched.attempts``). A CSV without that line will do: a header with job_id,
submit_time and state is enough, so that one can be made by hand.
"""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, BinaryIO, cast

from gsched.errors import DataError
from gsched.model.history import Reject
from gsched.model.trace import (
    ATTEMPT_FIELDS,
    AttemptColumns,
    Cells,
    Constant,
    ReadOptions,
    TraceChunk,
)
from gsched.traces.attempt_text import read_cells
from gsched.traces.cells import given
from gsched.traces.csv_rows import CsvRows, row_text
from gsched.traces.source import spooled
from gsched.traces.table import Reading, Table, TableFormat, converted, header_of, read_rows

if TYPE_CHECKING:
    from pyarrow import Array, RecordBatch

VERSION = 1
HEAD_LINE = f"# gsched attempts {VERSION}"
PARQUET_MAGIC = b"PAR1"
METADATA_KEY = b"gsched.attempts"

_NEEDED = ("job_id", "submit_time", "state")
_HEAD = re.compile(r"#\s*gsched attempts (\d{1,9})\W*")  # a spreadsheet adds commas
_MAX_SOURCE_CHARS = 64
_BUFFER_BYTES = 1 << 20  # of each column: a row group is not read whole


def read(stream: BinaryIO, options: ReadOptions) -> Iterator[TraceChunk]:
    """The attempts of one file, CSV or Parquet.

    Raises DataError for a file of a later version, without the needed columns, or a damaged one.
    """
    peeked = stream if isinstance(stream, io.BufferedReader) else io.BufferedReader(_raw(stream))
    if peeked.peek(len(PARQUET_MAGIC)).startswith(PARQUET_MAGIC):
        return _read_parquet(peeked, options)
    return _read_csv(peeked, options)


def _raw(stream: BinaryIO) -> io.RawIOBase:
    return cast(io.RawIOBase, stream)  # BytesIO has all that a BufferedReader asks of it


def _read_csv(stream: BinaryIO, options: ReadOptions) -> Iterator[TraceChunk]:
    rows = CsvRows(stream, _FORMAT.source_of(options))
    line = rows.first_line()
    if match := _HEAD.fullmatch(line):
        _check_version(match[1], options)
        line = rows.first_line()
    delimiter, names = header_of(line, _FORMAT, options)
    yield from read_rows(rows, delimiter, names, options, _FORMAT)


def _read_parquet(stream: BinaryIO, options: ReadOptions) -> Iterator[TraceChunk]:
    """Row group by row group; `line` of a reject is the number of its row."""
    import pyarrow
    from pyarrow.parquet import ParquetFile

    with ExitStack() as resources:
        file = stream if stream.seekable() else resources.enter_context(spooled(stream))
        try:
            parquet = ParquetFile(file, buffer_size=_BUFFER_BYTES)
            metadata = parquet.schema_arrow.metadata or {}
            told = metadata.get(METADATA_KEY, str(VERSION).encode())
            _check_version(told.decode(errors="replace"), options)
            names = _known_names(parquet.schema_arrow.names, options)
            reading = Reading(options, {})
            line = 1
            for batch in parquet.iter_batches(options.chunk_rows, use_threads=False):
                yield _parquet_chunk(batch, names, reading, line)
                line += batch.num_rows
        except (pyarrow.ArrowException, OSError, OverflowError, UnicodeDecodeError) as e:
            raise DataError(
                f"{options.file_name}: the Parquet file is cut off or damaged "
                f"({' '.join(str(e).split())[:200]})"
            ) from None


def _parquet_chunk(
    batch: RecordBatch, names: tuple[str, ...], reading: Reading, first: int
) -> TraceChunk:
    cells = [_texts(column) for column in batch.columns]
    table = Table(
        reading,
        dict(zip(names, cells, strict=True)),
        tuple(name for name in names if name not in ATTEMPT_FIELDS),
        batch.num_rows,
    )
    columns, bad = converted(table, _FORMAT)
    source = _FORMAT.source_of(reading.options)
    rejects = tuple(
        Reject(source, first + row, reason, row_text((column[row] for column in cells), ","))
        for row, reason in bad.items()
    )
    attempts = AttemptColumns(table.count - len(bad), columns)
    return TraceChunk(attempts, rejects, table.count, notes=reading.new_notes())


def _texts(column: Array) -> list[str]:
    """A column of Parquet as the text that a CSV would have."""
    import pyarrow

    if pyarrow.types.is_floating(column.type):  # pandas' whole numbers, NaN where not known
        from pyarrow import compute

        column = compute.if_else(compute.is_nan(column), pyarrow.scalar(None, column.type), column)
    try:
        if pyarrow.types.is_floating(column.type):
            column = column.cast(pyarrow.int64())
        texts = column.cast(pyarrow.string()).to_pylist()
    except (pyarrow.ArrowInvalid, pyarrow.ArrowNotImplementedError):
        values = column.to_pylist()
        texts = [None if v is None else v if isinstance(v, str) else str(v) for v in values]
    return [text or "" for text in texts]


def _known_names(names: Sequence[str], options: ReadOptions) -> tuple[str, ...]:
    """The names of columns, checked as those in the header of a CSV are."""
    _, known = header_of(row_text(names, ","), _FORMAT, options)
    if len(known) != len(names):
        raise DataError(f"{options.file_name}: names of columns with line ends")
    return known


def _check_version(told: str, options: ReadOptions) -> None:
    if told != str(VERSION):
        raise DataError(
            f"{options.file_name}: version {told[:20]} of gsched's files is not known",
            f"this gsched reads version {VERSION}: a later one has written the file",
        )


def _columns(table: Table) -> dict[str, Cells]:
    told = {name: _field(table, name) for name in ATTEMPT_FIELDS if name in table}
    nothing = [None] * table.count
    for name in ("job_id", "submit_time"):
        given(name, told[name])
    for name in ("job_id", "submit_time", "array_task", "het_offset"):
        if any(number is not None and number < 0 for number in told.get(name, ())):
            raise DataError(f"{name}: negative")
    texts = zip(told.get("state_text", nothing), table.cells("state"), strict=True)
    sources = [source or _FORMAT.name for source in told.get("source", nothing)]
    if max(map(len, sources)) > _MAX_SOURCE_CHARS:
        raise DataError(f"source: longer than {_MAX_SOURCE_CHARS} characters")
    columns: dict[str, Cells] = {
        **told,
        "state_text": [state if text is None else text for text, state in texts],
        "source": sources,
        "cluster": [cluster or _FORMAT.name for cluster in told.get("cluster", nothing)],
    }
    if table.reading.options.cluster is not None:
        columns["cluster"] = Constant(table.reading.options.cluster)
    if table.unknown:
        more = cast(Sequence[str | None], table.extras())
        columns["extra"] = list(map(_merged, told.get("extra", nothing), more))
    return columns


def _field(table: Table, name: str) -> Sequence[Any]:
    try:
        return read_cells(name, table.cells(name))
    except DataError as e:
        raise DataError(f"{name}: {e.message}") from None


def _merged(extra: str | None, unknown: str | None) -> str | None:
    """The JSON of the column `extra`, and of columns that are not gsched's."""
    if extra is None or unknown is None:
        return extra or unknown
    merged = json.loads(unknown) | json.loads(extra)
    return json.dumps(merged, ensure_ascii=False, separators=(",", ":"))


_FORMAT = TableFormat(
    "gsched",
    needed=_NEEDED,
    known=tuple(name for name in ATTEMPT_FIELDS if name not in _NEEDED),
    convert=_columns,
)
