"""Records that a command prints again and again, parsed once.

Most jobs do not change between two rounds. Their records are recognised by their content, whatever
the separator of the call was, and the values made of them are handed out again: the very same
objects, so that whoever builds on them can tell by identity what has not changed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from gsched.slurm.fields import split_records

_Value = TypeVar("_Value")
_INNER = "\0"


class LineCache(Generic[_Value]):
    """The values of the last output's records, by their content.

    `parse` makes a value of a record's fields; what it raises passes through, and the values of
    the output before stay known then.
    """

    def __init__(self, parse: Callable[[Sequence[str]], _Value]) -> None:
        self._parse = parse
        self._known: dict[str, _Value] = {}

    def values(self, text: str, separator: str, width: int) -> list[_Value]:
        """A value a record of `width` fields, in order. Raises what `split_records` raises."""
        if _INNER in text:  # Slurm prints none: what holds one is not remembered
            return [self._parse(record) for record in split_records(text, separator, width)]
        before, known = self._known, {}
        values = []
        for line in _lines(text, separator, width):
            value = before.get(line)
            if value is None:
                value = self._parse(line.split(_INNER))
            known[line] = value
            values.append(value)
        self._known = known
        return values


def _lines(text: str, separator: str, width: int) -> list[str]:
    """The records, each as one text of its fields joined by a character that no field holds.

    A record ends where a separator and a line end meet. A field that begins with a line end (a
    hostile text) looks the same; the pieces have other than `width` fields then, and the output
    is cut field by field. So two different records never give the same text; none holds _INNER.
    """
    lines = text.replace(separator, _INNER).split(_INNER + "\n")
    rest = lines.pop()
    if not rest and all(line.count(_INNER) == width - 1 for line in lines):
        return lines
    return [_INNER.join(record) for record in split_records(text, separator, width)]
