"""Writes gsched's own file of attempts (see ``gsched.traces.gsched_format``), chunk by chunk."""

from __future__ import annotations

import csv
import gzip
import io
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, Any, BinaryIO, cast

from gsched.errors import UsageError
from gsched.files import writing_whole
from gsched.model.trace import ATTEMPT_FIELDS, INTEGER_FIELDS, AttemptColumns
from gsched.traces.attempt_text import texts_of
from gsched.traces.gsched_format import HEAD_LINE, METADATA_KEY, VERSION

Write = Callable[[AttemptColumns], None]
"""Adds some attempts to the file."""

_MODE = 0o644
_GZIP_LEVEL = 6
_ROWS_OF_A_GROUP = 100_000


def form_of(name: str) -> tuple[str, str]:
    """``csv`` or ``parquet``, and ``gz``, ``zst`` or "": what the name of a file asks for.

    Raises UsageError for any other name.
    """
    stem, packing = name.lower(), ""
    for suffix in ("gz", "zst"):
        if stem.endswith(f".{suffix}"):
            stem, packing = stem.removesuffix(f".{suffix}"), suffix
    for form in ("csv", "parquet"):
        if stem.endswith(f".{form}"):
            return form, packing
    raise UsageError(
        f"what shall be written into {name}?", "name it .csv or .parquet, perhaps with .gz or .zst"
    )


@contextmanager
def writing_attempts(path: Path, *, replace: bool) -> Iterator[Write]:
    """A function that adds attempts to `path`; the file appears whole, when the block ends.

    Raises UsageError for a name that says no form, and for a file that is there, unless `replace`.
    """
    form, packing = form_of(path.name)
    with ExitStack() as stack:
        file: Any = stack.enter_context(writing_whole(path, _MODE, replace=replace))
        if packing:
            file = stack.enter_context(_packed(file, packing))
        yield stack.enter_context(csv_writer(file) if form == "csv" else _parquet_writer(file))


@contextmanager
def csv_writer(file: BinaryIO) -> Iterator[Write]:
    """A function that adds attempts to a stream as CSV."""
    text = io.TextIOWrapper(cast(IO[bytes], file), "utf-8", newline="", write_through=False)
    text.write(f"{HEAD_LINE}\n")
    rows = csv.writer(text, lineterminator="\n")
    rows.writerow(ATTEMPT_FIELDS)

    def write(attempts: AttemptColumns) -> None:
        rows.writerows(zip(*(_cells(attempts, name) for name in ATTEMPT_FIELDS), strict=True))

    yield write
    text.flush()
    text.detach()


@contextmanager
def _parquet_writer(file: BinaryIO) -> Iterator[Write]:
    """Row groups are gathered, so that many small chunks do not make many small groups."""
    import pyarrow
    from pyarrow.parquet import ParquetWriter

    types = {
        name: pyarrow.int64() if name in INTEGER_FIELDS else pyarrow.string()
        for name in ATTEMPT_FIELDS
    }
    metadata = {METADATA_KEY: str(VERSION)}
    schema = pyarrow.schema(list(types.items()), metadata=metadata)
    gathered: list[Any] = []

    def flush() -> None:
        if gathered:
            table = pyarrow.Table.from_batches(gathered, schema)
            parquet.write_table(table, row_group_size=2 * _ROWS_OF_A_GROUP)
            gathered.clear()

    def write(attempts: AttemptColumns) -> None:
        columns = [_cells(attempts, name) for name in ATTEMPT_FIELDS]
        gathered.append(pyarrow.record_batch(columns, schema))
        if sum(batch.num_rows for batch in gathered) >= _ROWS_OF_A_GROUP:
            flush()

    with ParquetWriter(file, schema, compression="zstd") as parquet:
        yield write
        flush()


def _cells(attempts: AttemptColumns, name: str) -> Any:
    values = attempts.column(name)
    return values if name in INTEGER_FIELDS else texts_of(name, values)


@contextmanager
def _packed(file: BinaryIO, packing: str) -> Iterator[BinaryIO]:
    if packing == "gz":
        with gzip.GzipFile("", "wb", _GZIP_LEVEL, file, mtime=0) as packed:
            yield cast(BinaryIO, packed)
        return
    import zstandard

    with zstandard.ZstdCompressor(write_checksum=True).stream_writer(file, closefd=False) as packed:
        yield cast(BinaryIO, packed)
