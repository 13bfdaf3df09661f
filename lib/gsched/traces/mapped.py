"""Any table of jobs, by a map of its columns (``--columns MAP.toml``): CSV, or JSON.

JSON is a list of objects, or an object a line; a member is a column. What the map does not use is
kept in `extra`. A file without ids is numbered by its content (``gsched.traces.identity``), one
without states holds jobs that completed when they ended.
"""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, BinaryIO, cast

from gsched.errors import DataError, UsageError
from gsched.json_stream import read_elements
from gsched.model.history import Reject, Tres
from gsched.model.job import JobState
from gsched.model.trace import AttemptColumns, Cells, Constant, ReadOptions, TraceChunk
from gsched.text_lines import MAX_LINE_CHARS, TOO_LONG, shortened, text_lines
from gsched.traces.cells import Clock, Moments, check_order, given, settled
from gsched.traces.column_map import Column, ColumnMap, compiled
from gsched.traces.csv_rows import CsvRows
from gsched.traces.identity import cluster_of_file, content_ids, numbers_or_texts
from gsched.traces.table import (
    Reading,
    Table,
    TableFormat,
    converted,
    empty,
    normalised,
    read_rows,
    read_table,
)
from gsched.traces.workload import say_start_is_submit

_ARRAY_ID = re.compile(r"(\d{1,18})(?:_(\d{1,9})|\[(\d{1,9})\]|\+(\d{1,9}))", re.ASCII)
_DERIVED = ("job_id", "state", "queueing_s", "duration_s", "cluster")
_REST = "\0rest"  # the column of a JSON table that holds what the map does not use


def read(stream: BinaryIO, options: ReadOptions) -> Iterator[TraceChunk]:
    """The jobs of one file, by `options.column_map`.

    Raises UsageError without a map, DataError for a file without a column that the map names.
    """
    if options.column_map is None:
        raise UsageError("format csv needs --columns MAP.toml")
    column_map = compiled(options.column_map, options.timezone)
    table_format = _Mapped(column_map, options).table_format()
    if column_map.layout == "json":
        essential = [column_map.fields.get(name) for name in ("submit_time", "job_id")]
        members = [column.name for column in essential if column and column.name]
        return _read_json(stream, options, table_format, members)
    if column_map.header is None:
        return read_table(stream, options, table_format)
    rows = CsvRows(stream, table_format.source_of(options))
    line = rows.first_line()
    if not line:
        raise empty(options)
    rows.push_back(line)
    delimiter = column_map.delimiter or ","
    return read_rows(rows, delimiter, column_map.header, options, table_format)


class _Mapped:
    """Makes attempts of the columns that a map names."""

    def __init__(self, column_map: ColumnMap, options: ReadOptions) -> None:
        self._map = column_map
        self._cluster = options.cluster or column_map.cluster or cluster_of_file(options, "csv")
        self._is_cluster_told = options.cluster is not None

    def table_format(self) -> TableFormat:
        """The format of a table with these columns."""
        has_ids = "job_id" in self._map.fields
        number = None if has_ids else _number
        return TableFormat("csv", self._map.columns, (), self._columns, finish=number)

    def _columns(self, table: Table) -> dict[str, Cells]:
        told = {name: _values(name, c, table) for name, c in self._map.fields.items()}
        plain = {name: values for name, values in told.items() if name not in _DERIVED}
        times = _times(told, table, self._map.clock)
        return {
            **plain,
            **times,
            **(_identity(told["job_id"]) if "job_id" in told else {}),
            **self._states(told, times["end_time"], table),
            "cluster": self._clusters(told),
            "source": Constant("csv"),
            "requested": _tres("requested", self._map.requested, table),
            "allocated": _tres("allocated", self._map.allocated, table),
            "extra": [t or None for t in table.cells(_REST)] if _REST in table else table.extras(),
        }

    def _clusters(self, told: Mapping[str, list[Any]]) -> Cells:
        if self._is_cluster_told or "cluster" not in told:
            return Constant(self._cluster)
        return [name or self._cluster for name in told["cluster"]]

    def _states(
        self, told: Mapping[str, list[Any]], ends: Sequence[int | None], table: Table
    ) -> dict[str, Cells]:
        if "state" in told:
            name = self._map.fields["state"].name
            texts = [] if name is None else [cell.strip() for cell in table.cells(name)]
            return {"state": told["state"], "state_text": texts or Constant("")}
        table.reading.note("the map has no state: jobs that have ended are stored as COMPLETED")
        states = [JobState.UNKNOWN if end is None else JobState.COMPLETED for end in ends]
        return {"state": states, "state_text": Constant("")}


def _values(name: str, column: Column, table: Table) -> list[Any]:
    try:
        return column.values(table.cells, table.count)
    except DataError as e:
        raise DataError(f"{name}: {e.message}") from None


def _times(
    told: Mapping[str, list[Any]], table: Table, clock: Clock
) -> dict[str, Sequence[int | None]]:
    """When jobs came, started and ended, from as much of it as the file has."""
    submits: list[Any] = list(given("submit_time", told["submit_time"]))
    nothing = [None] * table.count
    assumed: list[int | None] = [None] * table.count
    runs = told.get("duration_s", nothing)
    ends: Moments | None = told.get("end_time")
    starts: Moments
    if ends is not None and "start_time" not in told:
        _, ends = settled(clock, submits, nothing, ends, nothing)
    if "start_time" in told:
        starts, told_ends = settled(clock, submits, told["start_time"], ends or nothing, runs)
        ends = ends and told_ends
    elif "queueing_s" in told:
        starts = list(map(_sum, submits, told["queueing_s"]))
    elif ends is not None:
        starts = [
            None if e is None or r is None else e - r for e, r in zip(ends, runs, strict=True)
        ]
    else:
        starts = [s if r is not None else None for s, r in zip(submits, runs, strict=True)]
        if "duration_s" in told:
            say_start_is_submit(table.reading)
            assumed = [None if start is None else 1 for start in starts]
    if ends is None:
        ends = list(map(_sum, starts, runs))
    check_order(submits, starts, ends)
    return {
        "submit_time": submits,
        "start_time": starts,
        "start_assumed": assumed,
        "end_time": ends,
    }


def _sum(time: int | None, seconds: int | None) -> int | None:
    return None if time is None or seconds is None else time + seconds


def _identity(ids: Sequence[str | None]) -> dict[str, Cells]:
    """Who the jobs are: ``7``, ``7_3`` and ``7[3]`` (array tasks), ``7+1`` (het), any text."""
    texts = list(given("job_id", ids))
    parts = list(map(_ARRAY_ID.fullmatch, texts))
    if not any(parts):
        numbers, source_ids = numbers_or_texts(texts)
        return {"job_id": numbers, "source_id": source_ids}
    heads = [match[1] if match else text for match, text in zip(parts, texts, strict=True)]
    numbers, source_ids = numbers_or_texts(heads)
    tasks = [match and (match[2] or match[3]) for match in parts]
    offsets = [match and match[4] for match in parts]
    return {
        "job_id": numbers,
        "source_id": source_ids,
        "array_task": [None if task is None else int(task) for task in tasks],
        "het_offset": [None if offset is None else int(offset) for offset in offsets],
    }


def _tres(which: str, columns: Mapping[str, Column], table: Table) -> Cells:
    if not columns:
        return Constant(())
    told = [_values(f"{which}.{name}", column, table) for name, column in columns.items()]
    made: dict[tuple[int | None, ...], tuple[Tres, ...]] = {}
    return [
        made.get(row) or made.setdefault(row, _list(columns, row))
        for row in zip(*told, strict=True)
    ]


def _list(names: Iterable[str], counts: Iterable[int | None]) -> tuple[Tres, ...]:
    return tuple(Tres(name, n) for name, n in zip(names, counts, strict=True) if n is not None)


def _number(attempts: AttemptColumns, options: ReadOptions) -> dict[str, Cells]:
    """Ids for jobs without one, from everything that the map and the file say of them."""
    names = sorted(attempts.columns)
    rows = zip(*map(attempts.column, names), strict=True)
    contents = ("\x1f".join(map(str, row)) for row in rows)
    return {"job_id": content_ids(attempts.column("submit_time"), contents, options.seen)}


# -- JSON -----------------------------------------------------------------------------------


def _read_json(
    stream: BinaryIO, options: ReadOptions, table_format: TableFormat, essential: Sequence[str]
) -> Iterator[TraceChunk]:
    reading = Reading(options, {})
    rows = _rows(stream, options)
    has_rows = False
    while True:
        told, error = _some(rows, options.chunk_rows)
        if told and not has_rows:
            has_rows = True
            _check_members(told, essential, options)
        if told:
            yield _json_chunk(told, reading, table_format)
        if error is not None:
            raise error
        if not told:
            return


def _rows(stream: BinaryIO, options: ReadOptions) -> Iterator[tuple[int, Any, str]]:
    """(place, value, what is wrong) of each element of a list, or of each line."""
    peeked = stream if isinstance(stream, io.BufferedReader) else io.BufferedReader(_raw(stream))
    if peeked.peek(1).lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"["):
        try:
            for place, value in enumerate(read_elements(peeked), start=1):
                yield place, value, "" if isinstance(value, dict) else "no JSON object"
        except DataError as e:
            raise DataError(f"{options.file_name}: {e.message}") from None
        return
    is_empty = True
    for place, line in enumerate(text_lines(peeked), start=1):
        if line.strip():
            is_empty = False
            yield place, *_line_value(line)
    if is_empty:
        raise empty(options)


def _line_value(line: str) -> tuple[Any, str]:
    if len(line) >= MAX_LINE_CHARS:
        return line, TOO_LONG
    try:
        value = json.loads(line, strict=False)
    except (ValueError, RecursionError):
        return line.rstrip("\n"), "not JSON"
    return (value, "") if isinstance(value, dict) else (line.rstrip("\n"), "no JSON object")


def _some(
    rows: Iterator[tuple[int, Any, str]], count: int
) -> tuple[list[tuple[int, Any, str]], DataError | None]:
    """The next rows, and the error that ends them: what stands before it is not lost."""
    told = []
    try:
        for row in islice(rows, count):
            told.append(row)
    except DataError as e:
        return told, e
    return told, None


def _check_members(
    told: Sequence[tuple[int, Any, str]], essential: Sequence[str], options: ReadOptions
) -> None:
    """Any member may be missing in an object, but not these in all of them."""
    objects = [value for _, value, problem in told if not problem]
    found = {normalised(name) for value in objects for name in value}
    missing = [name for name in essential if name not in found]
    if objects and missing:
        raise DataError(
            f"{options.file_name}: no object has a member {', '.join(missing)}, which the map uses",
            f"found: {shortened(', '.join(sorted(found)))[:300]}",
        )


def _json_chunk(
    told: Sequence[tuple[int, Any, str]], reading: Reading, table_format: TableFormat
) -> TraceChunk:
    source = table_format.source_of(reading.options)
    rejects = [Reject(source, place, why, _raw_text(value)) for place, value, why in told if why]
    good = [(place, value) for place, value, why in told if not why]
    cells = [_cells(value, table_format.needed) for _, value in good]
    names = (*table_format.needed, _REST)
    columns = dict(zip(names, zip(*cells, strict=True), strict=False))
    table = Table(reading, columns, (), len(good))
    values, bad = converted(table, table_format)
    attempts = AttemptColumns(table.count - len(bad), values)
    if attempts.count and table_format.finish:
        values |= table_format.finish(attempts, reading.options)
    rejects += [
        Reject(source, good[row][0], reason, _raw_text(good[row][1])) for row, reason in bad.items()
    ]
    rejects.sort(key=lambda reject: reject.line)
    return TraceChunk(attempts, tuple(rejects), len(told), notes=reading.new_notes())


def _cells(value: Mapping[str, Any], needed: Sequence[str]) -> list[str]:
    """The members that the map uses, as a CSV would have them, and the others as JSON."""
    members = {normalised(name): told for name, told in value.items()}
    used = [_cell(members.pop(name, None)) for name in needed]
    rest = {name: told for name, told in members.items() if told is not None}
    return [*used, _clean(_json(rest)) if rest else ""]


def _cell(value: Any) -> str:
    if value is None:
        return ""
    return _clean(value if isinstance(value, str) else _json(value))


def _raw_text(value: Any) -> str:
    return shortened(_cell(value))


def _json(value: Any) -> str:
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    except (ValueError, RecursionError):  # what Python reads, but is no JSON
        return '"no JSON: infinite, not a number, or nested too deeply"'


def _clean(text: str) -> str:
    """Text that can be stored: JSON may hold half a surrogate pair, and NUL."""
    if "\0" in text:
        text = text.replace("\0", "\\x00")
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode()


def _raw(stream: BinaryIO) -> io.RawIOBase:
    return cast(io.RawIOBase, stream)
