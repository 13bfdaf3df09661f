"""Columns of text → columns of values: numbers, times, texts, states. Strict, and fast.

Few columns of a trace have many different cells, so each distinct cell is parsed once and then
looked up. A cell that is no value of its column raises DataError.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, tzinfo
from itertools import pairwise, product
from typing import Any, Generic, TypeVar

from gsched.errors import DataError
from gsched.model.job import JobState

MISSING = frozenset(
    {"", "none", "nan", "nat", "null", "(null)", "n/a", "na", "unknown", "<na>", "\\n"}
)
"""What stands in traces, in lower case, where there is no value."""

MAX_TIME = 2**34
"""Seconds; the year 2514. What lies behind it is no time of a job."""

_MAX_COUNT = 2**27  # so that GPU-seconds up to MAX_TIME fit into 64 bits
_MAX_REMEMBERED = 100_000
_HALF_HOUR = 1800  # clocks are changed on full and on half hours
_SHOWN_CHARS = 60

_NUMBER = re.compile(r"[+-]?(?:\d{1,25}(?:\.\d{0,25})?|\.\d{1,25})(?:[eE][+-]?\d{1,3})?", re.ASCII)
_HOUR = re.compile(r"\d{4}-\d\d-\d\d[ T]\d\d(?:Z|[+-]\d\d:\d\d)?", re.ASCII)
_WITHIN = re.compile(r":([0-5]\d):([0-5]\d)", re.ASCII)

V = TypeVar("V")


class Remembered(dict[str, V], Generic[V]):
    """`parse` with its answers kept, a bounded number of them."""

    def __init__(self, parse: Callable[[str], V]) -> None:
        super().__init__()
        self._parse = parse

    def __missing__(self, cell: str) -> V:
        if len(self) >= _MAX_REMEMBERED:
            self.clear()
        value = self[cell] = self._parse(cell)
        return value

    def column(self, name: str, cells: Sequence[str]) -> list[V]:
        """The values of the column `name`."""
        try:
            return list(map(self.__getitem__, cells))
        except DataError as e:
            raise DataError(f"{name}: {e.message}") from None


def shown(cell: str) -> str:
    """A cell for a message."""
    return repr(cell if len(cell) <= _SHOWN_CHARS else f"{cell[:_SHOWN_CHARS]}…")


def is_missing(cell: str) -> bool:
    """Whether a cell holds no value."""
    return cell.strip().casefold() in MISSING


def text_of(cell: str) -> str | None:
    """A text without the blanks around it, None where there is none."""
    text = cell.strip()
    return None if text.casefold() in MISSING else text


def number_of(cell: str) -> float | None:
    """A finite number."""
    text = cell.strip()
    if text.casefold() in MISSING:
        return None
    if not _NUMBER.fullmatch(text):
        raise DataError(f"not a number: {shown(cell)}")
    value = float(text)
    if abs(value) >= 2**63:
        raise DataError(f"too large: {shown(cell)}")
    return value


def count_of(cell: str) -> int | None:
    """A whole number of things, also written as ``8.0``."""
    value = number_of(cell)
    if value is None:
        return None
    if value < 0 or value != int(value) or value > _MAX_COUNT:
        raise DataError(f"not a count: {shown(cell)}")
    return int(value)


def seconds_of(unit_s: float) -> Callable[[str], int | None]:
    """Parses times and durations counted in units of `unit_s` seconds; to the nearest second."""

    def parse(cell: str) -> int | None:
        digits = cell.removesuffix(".0")
        is_plain = len(digits) <= 12 and digits.isdecimal() and digits.isascii()
        value = int(digits) if is_plain else number_of(cell)  # plain: three times faster
        if value is None:
            return None
        if value < 0:
            raise DataError(f"negative: {shown(cell)}")
        seconds = int(value * unit_s + 0.5)
        if seconds >= MAX_TIME:
            raise DataError(f"too large: {shown(cell)}")
        return seconds

    return parse


class Clock:
    """Times of day → epoch seconds: ISO 8601, with an offset or in `zone`.

    A local time that occurs twice is the first one, see `settled`; fractions of a second are cut
    off.
    """

    def __init__(self, zone: tzinfo) -> None:
        self._zone = zone
        self._hours: Remembered[int] = Remembered(self._hour)
        self._within: Remembered[int] = Remembered(_seconds_within)
        self._later_by: dict[int, int] = {}  # half-hour that occurs twice → seconds to the second

    def column(self, name: str, cells: Sequence[str]) -> list[int | None]:
        """The values of the column `name`; None where a cell holds none."""
        hours, within = self._hours, self._within
        try:
            return [hours[cell[:13] + cell[19:]] + within[cell[13:19]] for cell in cells]
        except _IrregularError:
            pass
        try:
            return [self.time(cell) for cell in cells]
        except DataError as e:
            raise DataError(f"{name}: {e.message}") from None

    def time(self, cell: str) -> int | None:
        """One time."""
        try:
            return self._hours[cell[:13] + cell[19:]] + self._within[cell[13:19]]
        except _IrregularError:
            return None if is_missing(cell) else self._parsed(cell)

    @property
    def comes_twice(self) -> bool:
        """Whether a local time that occurs twice was met."""
        return bool(self._later_by)

    def other(self, moment: int | None) -> int | None:
        """What else a local time means that was taken for `moment`; None where it occurs once."""
        later_s = None if moment is None else self._later_by.get(moment // _HALF_HOUR)
        return None if moment is None or later_s is None else moment + later_s

    def _hour(self, text: str) -> int:
        """The beginning of an hour in which the clock was not changed."""
        if not _HOUR.fullmatch(text):
            raise _IrregularError(text)
        try:
            begin, end = (self._parsed(f"{text[:13]}{m}{text[13:]}") for m in (":00:00", ":59:59"))
        except DataError:
            raise _IrregularError(text) from None  # for `time` to name the whole cell
        if end - begin != 3599:
            raise _IrregularError(text)
        return begin

    def _parsed(self, cell: str) -> int:
        try:
            when = datetime.fromisoformat(cell.strip())
            is_local = when.tzinfo is None
            if is_local:
                when = when.replace(tzinfo=self._zone)
            seconds = int(when.timestamp() // 1)
            if is_local and (later_s := int(when.replace(fold=1).timestamp() // 1) - seconds) > 0:
                self._later_by[seconds // _HALF_HOUR] = later_s
        except (ValueError, OverflowError):
            raise DataError(f"not a time: {shown(cell)}") from None
        if not 0 <= seconds < MAX_TIME:
            raise DataError(f"before 1970 or after 2500: {shown(cell)}")
        return seconds


class _IrregularError(DataError):
    """A time that cannot be looked up in two halves."""


def _seconds_within(text: str) -> int:
    match = _WITHIN.fullmatch(text)
    if match is None:
        raise _IrregularError(text)
    return int(match[1]) * 60 + int(match[2])


def state_of(words: Mapping[str, JobState]) -> Callable[[str], JobState]:
    """Parses states: `words` (in lower case) of the format, then Slurm's own names."""

    def parse(cell: str) -> JobState:
        word = cell.strip().casefold()
        if word.startswith("cancelled"):
            return JobState.CANCELLED
        known = words.get(word)
        return known or JobState.__members__.get(word.upper(), JobState.UNKNOWN)

    return parse


# -- checks and what is made of columns -------------------------------------------------------


def given(name: str, values: Sequence[V | None]) -> Sequence[V]:
    """The values of a column in which none may be missing."""
    if None in values:
        raise DataError(f"{name}: missing")
    return values  # type: ignore[return-value]


def check_order(
    submits: Iterable[int], starts: Iterable[int | None], ends: Iterable[int | None]
) -> None:
    """Raises DataError where a job starts before it is submitted or ends before it starts."""
    for submit, start, end in zip(submits, starts, ends, strict=True):
        if start is not None and start < submit:
            raise DataError("it starts before it is submitted")
        if end is not None and end < (submit if start is None else start):
            raise DataError("it ends before it begins")


Moments = Sequence[int | None]


def settled(
    clock: Clock, submits: Sequence[int], starts: Moments, ends: Moments, runs_s: Moments
) -> tuple[Moments, Moments]:
    """Starts and ends, of which those that `clock` knows to occur twice are told apart.

    Those moments are taken that are in order behind the submission and as far apart as the job ran
    (`runs_s`, None where it is not told); where that does not decide, the first. The submit time is
    not doubted: it names the attempt.
    """
    if not clock.comes_twice:
        return starts, ends
    rows = zip(submits, starts, ends, runs_s, strict=True)
    both = [_settled(clock, *row) for row in rows]
    return [start for start, _ in both], [end for _, end in both]


def _settled(
    clock: Clock, submit: int, start: int | None, end: int | None, run_s: int | None
) -> tuple[int | None, int | None]:
    def misfit(moments: tuple[int | None, int | None]) -> tuple[int, int]:
        known = [submit, *(moment for moment in moments if moment is not None)]
        backwards = sum(later < earlier for earlier, later in pairwise(known))
        begin, finish = moments
        if run_s is None or begin is None or finish is None:
            return backwards, 0
        return backwards, abs(finish - begin - run_s)

    seconds = clock.other(start), clock.other(end)
    if seconds == (None, None):
        return start, end
    choices = [
        (first,) if second is None else (first, second)
        for first, second in zip((start, end), seconds, strict=True)
    ]
    return min(product(choices[0], choices[1]), key=misfit)


_to_json = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


def json_rows(columns: Mapping[str, Sequence[Any]], count: int) -> list[str | None]:
    """For each row a JSON object of its cells by column, sorted by name; empty cells are left out.

    None for a row in which all are empty.
    """
    if not columns:
        return [None] * count
    names = sorted(columns)
    rows = zip(*(columns[name] for name in names), strict=True)
    objects = ({n: c for n, c in zip(names, row, strict=True) if c not in _EMPTY} for row in rows)
    return [_to_json(cells) if cells else None for cells in objects]


_EMPTY = ("", None)
