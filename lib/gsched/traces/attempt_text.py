"""How gsched's own files write a column of attempts, and read it again.

Numbers are decimal, states and TRES text. What is not known is an empty cell, so that an empty
text is written ``\\-``; control characters and other code points that files and tools trip over
are ``\\xHH`` or ``\\uHHHH``, and a backslash is two: a row is a line, whatever users write.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

from gsched.errors import DataError
from gsched.model.history import Tres
from gsched.model.job import JobState
from gsched.model.phases import PHASE_VALUES
from gsched.model.trace import INTEGER_FIELDS
from gsched.model.tres import tres_of, tres_text

_EMPTY = "\\-"
_UNSAFE = re.compile("[\\\\\x00-\x1f\x7f-\x9f\u2028\u2029\ufeff\ud800-\udfff]")
_WRITTEN = re.compile(r"\\(?:(\\)|x([0-9a-f]{2})|u([0-9a-f]{4}))")
_INTEGER = re.compile(r"\s*([+-]?[0-9]{1,19})(?:\.0*)?\s*", re.ASCII)
_LEAST, _MOST = -(2**63), 2**63 - 1


def texts_of(name: str, values: Sequence[Any]) -> list[str | None]:
    """A column of text as a file has it; None: not known."""
    if name == "state":
        return [state.value for state in values]
    if name in ("requested", "allocated"):
        return [_tres_cell(tres) for tres in values]
    return [None if text is None else written(text) for text in values]


def _tres_cell(tres: tuple[Tres, ...]) -> str | None:
    return written(tres_text((t.name, t.count) for t in tres)) if tres else None


def written(text: str) -> str:
    """A text as a cell holds it."""
    if not text:
        return _EMPTY
    return _UNSAFE.sub(lambda match: _escape(match[0]), text) if _UNSAFE.search(text) else text


def _escape(char: str) -> str:
    if char == "\\":
        return "\\\\"
    return f"\\x{ord(char):02x}" if ord(char) < 0x100 else f"\\u{ord(char):04x}"


def read_text(cell: str) -> str | None:
    """The reverse of `written`; None of an empty cell. Raises DataError for an unknown escape."""
    if "\\" not in cell:
        return cell or None
    if cell == _EMPTY:
        return ""
    if "\\" in _WRITTEN.sub("", cell):
        raise DataError(f"not an escape of gsched's files: {cell[:60]!r}")
    return _WRITTEN.sub(lambda m: "\\" if m[1] else chr(int(m[2] or m[3], 16)), cell)


def read_integers(cells: Sequence[str]) -> list[int | None]:
    """Whole numbers of 64 bits, also as ``5.0``; None of an empty cell. Raises DataError."""
    try:
        numbers = [int(cell) if cell else None for cell in cells]
        if "_" in "".join(cells):  # which Python takes within numbers
            raise ValueError
    except ValueError:
        numbers = [_integer(cell) if cell else None for cell in cells]
    for number in numbers:
        if number is not None and not _LEAST <= number <= _MOST:
            raise DataError(f"not a whole number of 64 bits: {str(number)[:30]}")
    return numbers


def _integer(cell: str) -> int:
    match = _INTEGER.fullmatch(cell)
    if match is None:
        raise DataError(f"not a whole number: {cell[:60]!r}")
    return int(match[1])


@lru_cache(maxsize=4096)
def read_tres(cell: str) -> tuple[Tres, ...]:
    """A list of resources, empty of an empty cell. Raises DataError."""
    return tuple(Tres(name, count) for name, count in tres_of(read_text(cell)))


def read_state(cell: str) -> JobState:
    """A base state; a word that is none is UNKNOWN. Raises DataError for an empty cell."""
    if not cell:
        raise DataError("no state")
    return _STATES.get(cell, JobState.UNKNOWN)


def read_extra(cell: str) -> str | None:
    """The JSON object of `extra`, None of an empty cell. Raises DataError for any other text."""
    text = read_text(cell)
    if text is None:
        return None
    try:
        is_object = isinstance(json.loads(text), dict)
    except (ValueError, RecursionError):
        is_object = False
    if not is_object:
        raise DataError(f"extra is no JSON object: {text[:60]!r}")
    return text


def read_phase(cell: str) -> str | None:
    """A phase, None of an empty cell. Raises DataError for any other word."""
    if cell and cell not in PHASE_VALUES:
        raise DataError(f"no phase: {cell[:60]!r}", f"phases are {', '.join(PHASE_VALUES)}")
    return cell or None


def read_cells(name: str, cells: Sequence[str]) -> Sequence[Any]:
    """The reverse of `texts_of`: the values of a field. Raises DataError."""
    if name in INTEGER_FIELDS:
        return read_integers(cells)
    if name not in _READERS and "\\" not in "".join(cells):
        return [cell or None for cell in cells]
    return list(map(_READERS.get(name, read_text), cells))


_STATES = {state.value: state for state in JobState}
_READERS: dict[str, Callable[[str], Any]] = {
    "state": read_state,
    "phase": read_phase,
    "requested": read_tres,
    "allocated": read_tres,
    "extra": read_extra,
}
