"""Reads a table with a header: columns are found by name, whatever their order and case.

A format says which columns it needs and how to make attempts of them, column by column. Where that
fails, the rows are halved until the bad ones stand alone: they become rejects with their line, and
the rest is converted as it would have been without them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, BinaryIO

from gsched.errors import DataError
from gsched.model.history import Reject
from gsched.model.job import JobState
from gsched.model.trace import AttemptColumns, Cells, Constant, ReadOptions, TraceChunk
from gsched.traces import cells as parsing
from gsched.traces.cells import Clock, Remembered
from gsched.traces.csv_rows import (
    DELIMITERS,
    CsvRows,
    RowBlock,
    row_text,
    split_line,
)

_MAX_COLUMNS = 2000


@dataclass(frozen=True)
class TableFormat:
    """A format of one table.

    `convert` makes the columns of `AttemptColumns` of a table's, each row for itself, and raises
    DataError for anything that is wrong with any row. `needed` columns are there; `known` are those
    that it may also use; all others go into `extra`. Of `one_of` at least one column is there.
    `words` are its states, in lower case.
    `finish` gives further columns, in which a row may depend on those before it. Rows of a table
    that `is_aside` are no jobs: `finish` keeps what they tell for other files.
    """

    name: str
    needed: tuple[str, ...]
    known: tuple[str, ...]
    convert: Callable[[Table], dict[str, Cells]]
    one_of: tuple[str, ...] = ()
    words: Mapping[str, JobState] = field(default_factory=dict)
    finish: Callable[[AttemptColumns, ReadOptions], dict[str, Cells]] | None = None
    is_aside: bool = False

    def source_of(self, options: ReadOptions) -> str:
        """Where a reject comes from."""
        return f"{self.name}:{options.file_name}"


class Reading:
    """What is parsed once for a whole file, and the notes for the person who imports it."""

    def __init__(self, options: ReadOptions, words: Mapping[str, JobState]) -> None:
        self.options = options
        self.clock = Clock(options.timezone)
        self.counts = Remembered(parsing.count_of)
        self.seconds = Remembered(parsing.seconds_of(1))
        self.minutes = Remembered(parsing.seconds_of(60))
        self.milliseconds = Remembered(parsing.seconds_of(0.001))
        self.numbers = Remembered(parsing.number_of)
        self.texts = Remembered(parsing.text_of)
        self.states = Remembered(parsing.state_of(words))
        self._said: dict[str, bool] = {}  # note → whether it was handed on

    def note(self, text: str) -> None:
        """Says something once a file."""
        self._said.setdefault(text, False)

    def new_notes(self) -> tuple[str, ...]:
        """Notes that were not handed on yet."""
        new = tuple(text for text, is_out in self._said.items() if not is_out)
        self._said.update(dict.fromkeys(new, True))
        return new


@dataclass(frozen=True, slots=True)
class Table:
    """Some rows of a file, as columns of text by name in lower case."""

    reading: Reading
    columns: Mapping[str, Sequence[str]]
    unknown: tuple[str, ...]  # columns that the format does not know
    count: int

    def __contains__(self, name: str) -> bool:
        return name in self.columns

    def cells(self, name: str) -> Sequence[str]:
        """A column as it stands; empty cells where the file has none of that name."""
        return self.columns[name] if name in self.columns else [""] * self.count

    def part(self, first: int, end: int) -> Table:
        """The rows from `first` to before `end`."""
        columns = {name: cells[first:end] for name, cells in self.columns.items()}
        return Table(self.reading, columns, self.unknown, end - first)

    def without(self, bad: Mapping[int, str]) -> Table:
        """The rows that are not in `bad`."""
        kept = [row for row in range(self.count) if row not in bad]
        columns = {name: [cells[row] for row in kept] for name, cells in self.columns.items()}
        return Table(self.reading, columns, self.unknown, len(kept))

    # -- columns of values ------------------------------------------------------------------

    def texts(self, name: str) -> Cells:
        """Texts, None where there is none."""
        if name not in self.columns:
            return Constant(None)
        return self.reading.texts.column(name, self.columns[name])

    def ids(self, name: str) -> list[str]:
        """Texts none of which is missing."""
        texts = [cell.strip() for cell in self.columns[name]]
        if not parsing.MISSING.isdisjoint(map(str.casefold, texts)):
            raise DataError(f"{name}: missing")
        return texts

    def counts(self, name: str) -> Cells:
        """Numbers of things, None where there is none."""
        if name not in self.columns:
            return Constant(None)
        return self.reading.counts.column(name, self.columns[name])

    def times(self, name: str) -> list[int | None]:
        """Times of day as epoch seconds."""
        return self.reading.clock.column(name, self.columns[name])

    def states(self, name: str) -> dict[str, Cells]:
        """The columns `state` and `state_text`."""
        told = self.columns[name]
        return {
            "state": self.reading.states.column(name, told),
            "state_text": [cell.strip() for cell in told],
        }

    def extras(self, more: Mapping[str, Sequence[Any]] | None = None) -> Cells:
        """The column `extra`: columns not known, and `more`."""
        columns = {name: self.columns[name] for name in self.unknown} | dict(more or {})
        return parsing.json_rows(columns, self.count) if columns else Constant(None)


def read_table(
    stream: BinaryIO, options: ReadOptions, table_format: TableFormat
) -> Iterator[TraceChunk]:
    """The chunks of a file. Raises DataError for a file without the columns that are needed."""
    source = table_format.source_of(options)
    rows = CsvRows(stream, source)
    delimiter, names = header_of(rows.first_line(), table_format, options)
    yield from read_rows(rows, delimiter, names, options, table_format)


def read_rows(
    rows: CsvRows,
    delimiter: str,
    names: tuple[str, ...],
    options: ReadOptions,
    table_format: TableFormat,
) -> Iterator[TraceChunk]:
    """The chunks of a file whose columns are `names`."""
    reading = Reading(options, table_format.words)
    source = table_format.source_of(options)
    known = {*table_format.needed, *table_format.known}
    unknown = tuple(name for name in names if name not in known)
    for block in rows.blocks(delimiter, len(names), options.chunk_rows):
        good, rejects = _of_width(block, len(names), delimiter, source)
        columns = dict(zip(names, zip(*good.rows, strict=True), strict=False))
        table = Table(reading, columns, unknown, len(good.rows))
        values, bad = converted(table, table_format)
        attempts = AttemptColumns(table.count - len(bad), values)
        if attempts.count and table_format.finish:
            more = table_format.finish(attempts, options)
            attempts = AttemptColumns(attempts.count, {**values, **more})
        rejects += [
            Reject(source, good.lines[row], reason, row_text(good.rows[row], delimiter))
            for row, reason in bad.items()
        ]
        rejects.sort(key=lambda reject: reject.line)
        yield TraceChunk(
            AttemptColumns(0, {}) if table_format.is_aside else attempts,
            tuple(rejects),
            rows_in=len(block.rows) + len(block.rejects),
            rows_skipped=attempts.count if table_format.is_aside else 0,
            notes=reading.new_notes(),
        )


def normalised(name: str) -> str:
    """The name of a column as it is compared."""
    return name.strip().casefold()


def header_of(
    line: str, table_format: TableFormat, options: ReadOptions
) -> tuple[str, tuple[str, ...]]:
    """The delimiter and the names of the columns, in lower case."""
    if not line:
        raise empty(options)
    ways = [(d, [normalised(n) for n in split_line(line, d)]) for d in DELIMITERS]
    delimiter, names = max(ways, key=lambda way: len(set(way[1]) & set(table_format.needed)))
    missing = [name for name in table_format.needed if name not in names]
    if table_format.one_of and not set(table_format.one_of) & set(names):
        missing.append(" or ".join(table_format.one_of))
    if missing:
        found = repr(", ".join(filter(None, names))[:300])[1:-1] or "nothing"
        raise DataError(
            f"{options.file_name}: not a trace of format {table_format.name}: no column "
            f"{', '.join(missing)} in its header ({found})",
            f"format {table_format.name} needs the columns {', '.join(table_format.needed)}",
        )
    if len(names) > _MAX_COLUMNS:
        raise DataError(f"{options.file_name}: {len(names)} columns; {_MAX_COLUMNS} are the limit")
    known = {*table_format.needed, *table_format.known}
    twice = sorted({name for name in names if names.count(name) > 1 and name in known})
    if twice:
        raise DataError(f"{options.file_name}: column {twice[0]} stands twice in its header")
    return delimiter, _distinct(names)


def empty(options: ReadOptions) -> DataError:
    """What is wrong with a file in which nothing is, not even a header."""
    return DataError(f"{options.file_name} is empty")


def _distinct(names: Sequence[str]) -> tuple[str, ...]:
    """Names that `extra` can hold: none empty and none twice."""
    taken: dict[str, None] = {}
    for place, name in enumerate(names, start=1):
        text = name or f"column {place}"
        taken[text if text not in taken else f"{text} ({place})"] = None
    return tuple(taken)


def _of_width(
    block: RowBlock, width: int, delimiter: str, source: str
) -> tuple[RowBlock, list[Reject]]:
    """The rows with as many fields as the header, and rejects for the others."""
    rejects = list(block.rejects)
    if set(map(len, block.rows)) <= {width}:
        return block, rejects
    rows, lines = [], []
    for row, line in zip(block.rows, block.lines, strict=True):
        if len(row) == width:
            rows.append(row)
            lines.append(line)
        else:
            reason = f"{len(row)} fields where the header has {width}"
            rejects.append(Reject(source, line, reason, row_text(row, delimiter)))
    return RowBlock(rows, lines), rejects


def converted(
    table: Table, table_format: TableFormat
) -> tuple[dict[str, Cells], Mapping[int, str]]:
    """The columns of the good rows, and what is wrong with each bad row."""
    if not table.count:
        return {}, {}
    try:
        return table_format.convert(table), {}
    except DataError:
        bad = dict(_bad_rows(table, table_format))
    rest = table.without(bad)
    return (table_format.convert(rest) if rest.count else {}), bad


def _bad_rows(table: Table, table_format: TableFormat, first: int = 0) -> Iterator[tuple[int, str]]:
    """The places of the rows that cannot be converted, and why."""
    try:
        table_format.convert(table)
    except DataError as e:
        if table.count == 1:
            yield first, e.message
            return
        half = table.count // 2
        yield from _bad_rows(table.part(0, half), table_format, first)
        yield from _bad_rows(table.part(half, table.count), table_format, first + half)
