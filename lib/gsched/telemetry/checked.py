"""Values of a JSON object that a stranger wrote: each question has one answer, or is DataError."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any

from gsched.errors import DataError

MAX_NUMBER = 2**53
"""Largest count: beyond it JSON readers round."""
_MAX_TIME = 2.0**40


class Checked:
    """The values of one object."""

    def __init__(self, fields: dict[Any, Any]) -> None:
        self._fields = fields

    @classmethod
    def parse(cls, text: bytes) -> Checked:
        """A JSON object."""
        try:
            fields = json.loads(text)
        except (ValueError, RecursionError):
            raise DataError("it is not JSON") from None
        if not isinstance(fields, dict):
            raise DataError("it is no JSON object")
        return cls(fields)

    def maybe(self, ask: Callable[[Any], Any], key: Any) -> Any:
        """What `ask` says of a value; None where there is none."""
        return None if self._fields.get(key) is None else ask(key)

    def number(self, key: Any) -> int:
        """A whole number from 0."""
        value = self._fields.get(key)
        if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= MAX_NUMBER:
            raise DataError(f"its {key} is no whole number of 0 to {MAX_NUMBER}")
        return value

    def real(self, key: Any) -> float:
        """A finite number."""
        value = self._fields.get(key)
        if not isinstance(value, int | float) or isinstance(value, bool):
            raise DataError(f"its {key} is no number")
        if not abs(value) <= sys.float_info.max:  # also what JSON does not know: NaN
            raise DataError(f"its {key} is not finite")
        return float(value)

    def time(self, key: Any) -> float:
        """A time, a duration or a rate: a number from 0."""
        value = self.real(key)
        if not 0 <= value <= _MAX_TIME:
            raise DataError(f"its {key} is no number of 0 to {_MAX_TIME:.0f}")
        return value

    def share(self, key: Any) -> float:
        """A number of 0 to 1."""
        value = self.real(key)
        if not 0 <= value <= 1:
            raise DataError(f"its {key} is no number of 0 to 1")
        return value

    def text(self, key: str, most: int) -> str:
        """A printable text."""
        value = self._fields.get(key)
        if not isinstance(value, str) or len(value) > most or not value.isprintable():
            raise DataError(f"its {key} is no printable text of at most {most} characters")
        return value

    def path(self, key: str) -> str | None:
        """An absolute path, which may hold any character but NUL; None where there is none."""
        value = self._fields.get(key)
        if value is None:
            return None
        if not isinstance(value, str) or not value.startswith("/") or "\0" in value:
            raise DataError(f"its {key} is no absolute path")
        return value

    def rows(self, key: str, most: int) -> list[Any]:
        """A list of whatever."""
        values = self._fields.get(key)
        if not isinstance(values, list) or len(values) > most:
            raise DataError(f"its {key} are not a list of at most {most}")
        return values

    def object(self, key: str) -> Checked:
        """An object within."""
        value = self._fields.get(key)
        if not isinstance(value, dict):
            raise DataError(f"its {key} is no object")
        return Checked(value)

    def objects(self, key: str, most: int) -> list[Checked]:
        """A list of objects."""
        values = self.rows(key, most)
        if not all(isinstance(value, dict) for value in values):
            raise DataError(f"its {key} are not all objects")
        return [Checked(value) for value in values]

    @staticmethod
    def row(values: Any, kinds: str) -> list[Any]:
        """A list by the kinds of its values: n whole numbers, r real ones, t times."""
        if not isinstance(values, list) or len(values) != len(kinds):
            raise DataError("a row of it has another length")
        its = Checked(dict(enumerate(values)))
        ask = {"n": its.number, "r": its.real, "t": its.time}
        return [ask[kind](index) for index, kind in enumerate(kinds)]
