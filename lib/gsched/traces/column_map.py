"""What a MAP.toml says: which column of a file is which field of an attempt.

gsched-columns(5) describes the file. It is checked whole before any row is read: every error
names the file and the key.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

from gsched.errors import DataError, GschedError, UsageError
from gsched.model.job import JobState
from gsched.model.phases import PHASE_VALUES
from gsched.model.units import parse_memory, parse_time_limit
from gsched.traces import cells
from gsched.traces.cells import MAX_TIME, Clock, Remembered, shown, text_of

TIMES = ("submit_time", "eligible_time", "start_time", "end_time")
DURATIONS = ("time_limit_s", "queueing_s", "duration_s")
COUNTS = ("num_nodes", "num_cpus", "num_gpus", "restarts")
CODES = ("exit_code", "exit_signal")
TEXTS = ("cluster", "user", "tenant", "partition", "qos", "name", "node_list")
FIELDS = ("job_id", "state", "phase", *TIMES, *DURATIONS, *COUNTS, *CODES, *TEXTS)
"""What a column can be. queueing_s and duration_s stand for start_time and end_time."""

TIME_UNITS = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9, "min": 60.0, "h": 3600.0, "d": 86400.0}
MEMORY_UNITS = {"B": 1, "KB": 2**10, "MB": 2**20, "GB": 2**30, "TB": 2**40}

_LAYOUTS = ("csv", "json")
_MAX_AMOUNT = 2**63 - 1
_HINT = "gsched-columns(5) says what such a file holds"


@dataclass(frozen=True)
class Column:
    """Where the values of a field come from: a column of the file, or always `value`."""

    name: str | None
    value: Any
    parse: Callable[[str], Any]

    def values(self, cells_of: Callable[[str], Any], count: int) -> list[Any]:
        """The values for some rows. Raises DataError."""
        if self.name is None:
            return [self.value] * count
        return list(map(self.parse, cells_of(self.name)))


@dataclass(frozen=True)
class ColumnMap:
    """A checked map. `header` names the columns of a CSV without a header row."""

    layout: str
    delimiter: str | None
    header: tuple[str, ...] | None
    cluster: str | None
    fields: Mapping[str, Column]
    requested: Mapping[str, Column]
    allocated: Mapping[str, Column]
    clock: Clock  # that its times are read by

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that it names, each once."""
        told = (*self.fields.values(), *self.requested.values(), *self.allocated.values())
        return tuple(dict.fromkeys(column.name for column in told if column.name is not None))


def load(path: Path) -> Mapping[str, Any]:
    """The contents of a MAP.toml, checked. Raises UsageError and DataError."""
    try:
        told = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as e:
        raise UsageError(f"--columns: cannot read {path}: {e.strerror}") from e
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as e:
        raise DataError(f"{path}: not TOML: {e}", _HINT) from None
    try:
        compiled(told, UTC)
    except GschedError as e:
        raise DataError(f"{path}: {e.message}", e.hint or _HINT) from None
    return told


def compiled(told: Mapping[str, Any], zone: tzinfo) -> ColumnMap:
    """The map that a TOML document describes; `zone` where it names none. Raises DataError."""
    top = _Keys(told, "")
    layout = top.take("layout", str, "csv")
    if layout not in _LAYOUTS:
        raise DataError(f"layout: {layout!r} is none of {', '.join(_LAYOUTS)}")
    delimiter = top.take("delimiter", str, None)
    if delimiter is not None and (len(delimiter) != 1 or delimiter in '"\r\n\0'):
        raise DataError("delimiter: one character that can stand between columns")
    header = top.take("header", list, None)
    if header is not None and not all(isinstance(name, str) for name in header):
        raise DataError("header: a list of names")
    if delimiter is not None and header is None:
        raise DataError("delimiter: where the file has a header, it is found by itself")
    clock = Clock(_zone(top.take("timezone", str, None), zone))
    make = _Columns(clock, _states(top))
    found = ColumnMap(
        layout,
        delimiter,
        None if header is None else tuple(map(_normalised, header)),
        top.take("cluster", str, None),
        {key: make.field(key, spec) for key, spec in top.table("fields").items()},
        {key: make.amount("requested", key, spec) for key, spec in top.table("requested").items()},
        {key: make.amount("allocated", key, spec) for key, spec in top.table("allocated").items()},
        clock,
    )
    top.check_all_taken()
    _check(found)
    return found


def _check(found: ColumnMap) -> None:
    if "submit_time" not in found.fields:
        raise DataError("fields.submit_time is needed: no job is known without it")
    told = found.fields.keys()
    if {"start_time", "queueing_s"} <= told:
        raise DataError("fields.start_time and fields.queueing_s say the same")
    if {"end_time", "duration_s"} <= told and {"start_time", "queueing_s"} & told:
        raise DataError("fields.end_time and fields.duration_s say the same")
    if found.header is not None:
        missing = [name for name in found.columns if name not in found.header]
        if missing:
            raise DataError(f"header: no column {missing[0]!r}, which the map uses")


class _Keys:
    """A table of TOML of which every key must be known."""

    def __init__(self, told: Mapping[str, Any], where: str) -> None:
        self._left = dict(told)
        self._known: list[str] = []
        self._where = where

    def take(self, key: str, kind: Any, default: Any) -> Any:
        self._known.append(key)
        value = self._left.pop(key, default)
        if value is not default and (not isinstance(value, kind) or isinstance(value, bool)):
            raise DataError(f"{self._where}{key}: not {_KINDS[kind]}: {value!r}"[:200])
        return value

    def table(self, key: str) -> dict[str, Any]:
        value: dict[str, Any] = self.take(key, dict, {})
        return value

    def check_all_taken(self) -> None:
        for key in self._left:
            known = ", ".join(self._known)
            raise DataError(f"unknown key {self._where}{key}", f"known here: {known}")


_KINDS: dict[Any, str] = {str: "a text", list: "a list", dict: "a table", str | int: "a value"}


@dataclass(frozen=True)
class _Columns:
    """Makes columns of what a map says of them."""

    clock: Clock
    states: Callable[[str], JobState]

    def field(self, name: str, spec: Any) -> Column:
        where = f"fields.{name}"
        if name not in FIELDS:
            raise DataError(f"unknown key {where}", f"known here: {', '.join(FIELDS)}")
        column, value, keys, none = _taken(where, spec)
        parse: Callable[[str], Any] = _PARSERS.get(name, text_of)
        if name in TIMES:
            parse = self._time(where, keys)
        elif name in DURATIONS:
            parse = _duration(where, keys)
        elif name == "state":
            parse = self.states
        keys.check_all_taken()
        return _column(where, column, value, parse, none)

    def amount(self, table: str, name: str, spec: Any) -> Column:
        where = f"{table}.{name}"
        column, value, keys, none = _taken(where, spec)
        unit = keys.take("unit", str, None)
        keys.check_all_taken()
        if unit == "suffix":
            return _column(where, column, value, _with_suffix, none)
        if unit is not None and unit not in MEMORY_UNITS:
            raise DataError(f"{where}.unit: {unit!r} is none of {', '.join(MEMORY_UNITS)}, suffix")
        return _column(where, column, value, _amount_of(MEMORY_UNITS[unit] if unit else 1), none)

    def _time(self, where: str, keys: _Keys) -> Callable[[str], int | None]:
        unit, form = keys.take("unit", str, None), keys.take("format", str, None)
        if unit is not None and unit not in TIME_UNITS:
            raise DataError(f"{where}.unit: {unit!r} is none of {', '.join(TIME_UNITS)}")
        if form is not None:
            return _formatted(form, self.clock)
        seconds, clock = cells.seconds_of(TIME_UNITS[unit or "s"]), self.clock

        def parse(cell: str) -> int | None:
            is_number = cell.strip().replace(".", "", 1).isdigit()
            return seconds(cell) if unit or is_number else clock.time(cell)

        return parse


def _taken(where: str, spec: Any) -> tuple[str | None, Any, _Keys, frozenset[str]]:
    """(column, constant, further keys, texts that mean nothing) of what a map says of a field."""
    if isinstance(spec, str):
        spec = {"column": spec}
    if not isinstance(spec, dict):
        raise DataError(
            f'{where}: write the name of a column, or a table such as {{ column = "a" }}'
        )
    keys = _Keys(spec, f"{where}.")
    column = keys.take("column", str, None)
    value = keys.take("value", str | int, None)
    none = keys.take("none", list, [])
    if (column is None) == (value is None):
        raise DataError(f"{where}: either a column or a value")
    return column, value, keys, frozenset(str(text).strip() for text in none)


def _column(
    where: str,
    column: str | None,
    value: Any,
    parse: Callable[[str], Any],
    none: frozenset[str],
) -> Column:
    def parsed(cell: str) -> Any:
        return None if cell.strip() in none else parse(cell)

    if column is None:
        try:
            return Column(None, parse(str(value)), parse)
        except DataError as e:
            raise DataError(f"{where}.value: {e.message}") from None
    remembered: Remembered[Any] = Remembered(parsed if none else parse)
    return Column(_normalised(column), None, remembered.__getitem__)


def _normalised(name: str) -> str:
    return name.strip().casefold()


def _zone(name: str | None, otherwise: tzinfo) -> tzinfo:
    if name is None:
        return otherwise
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        raise DataError(f"timezone: no such time zone: {name!r}") from None


def _states(top: _Keys) -> Callable[[str], JobState]:
    """Parses states: by the table `states`, or else Slurm's words."""
    told = top.table("states")
    for word, state in told.items():
        if not isinstance(state, str) or state not in JobState.__members__:
            raise DataError(
                f"states.{word}: no state of Slurm: {state!r}",
                f"use {', '.join(JobState.__members__)}",
            )
    words = {word.strip().casefold(): JobState[state] for word, state in told.items()}
    if not told:
        return cells.state_of({})
    default = words.pop("default", JobState.UNKNOWN)
    return lambda cell: words.get(cell.strip().casefold(), default)


# -- cells ----------------------------------------------------------------------------------


def _formatted(form: str, clock: Clock) -> Callable[[str], int | None]:
    def parse(cell: str) -> int | None:
        if cells.is_missing(cell):
            return None
        try:
            when = datetime.strptime(cell.strip(), form)
        except (ValueError, OverflowError):
            raise DataError(f"not a time like {form}: {shown(cell)}") from None
        return clock.time(when.isoformat())

    return parse


def _duration(where: str, keys: _Keys) -> Callable[[str], int | None]:
    unit = keys.take("unit", str, "s")
    if unit == "slurm":
        return lambda cell: parse_time_limit(cell) if not cells.is_missing(cell) else None
    if unit not in TIME_UNITS:
        raise DataError(f"{where}.unit: {unit!r} is none of {', '.join(TIME_UNITS)}, slurm")
    return cells.seconds_of(TIME_UNITS[unit])


def _amount_of(factor: int) -> Callable[[str], int | None]:
    def parse(cell: str) -> int | None:
        number = cells.number_of(cell)
        if number is None:
            return None
        text = cell.strip()
        amount = int(text) * factor if text.isdigit() else round(number * factor)
        return _bounded(amount, cell)

    return parse


def _with_suffix(cell: str) -> int | None:
    if cells.is_missing(cell):
        return None
    text = cell.strip()
    if text[-1] in "bB":  # PBS: 64b, 512mb
        text = text[:-1]
    return _bounded(parse_memory(text, default_suffix="").num_bytes, cell)


def _bounded(amount: int, cell: str) -> int:
    if not 0 <= amount <= _MAX_AMOUNT:
        raise DataError(f"not an amount: {shown(cell)}")
    return amount


def _code_of(cell: str) -> int | None:
    number = cells.number_of(cell)
    if number is None:
        return None
    if number != int(number) or abs(number) > MAX_TIME:
        raise DataError(f"not an exit code: {shown(cell)}")
    return int(number)


def _phase_of(cell: str) -> str | None:
    text = text_of(cell)
    if text is not None and text.casefold() not in PHASE_VALUES:
        raise DataError(f"no phase: {shown(cell)}")
    return None if text is None else text.casefold()


_PARSERS: dict[str, Callable[[str], Any]] = {
    "phase": _phase_of,
    **dict.fromkeys(COUNTS, cells.count_of),
    **dict.fromkeys(CODES, _code_of),
}
