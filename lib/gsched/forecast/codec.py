"""Frozen dataclasses as compact JSON, read strictly: what comes from another process is checked.

A dataclass is the list of its fields in their order, a tuple a list; field names would be most of
a document with thousands of jobs. Numbers are finite, an int may stand where a float is expected,
a bool never where a number is.
"""

from __future__ import annotations

import dataclasses
import json
import math
import types
import typing
from collections.abc import Callable
from typing import Any, TypeVar

from gsched.errors import DataError

T = TypeVar("T")

_MOST = 2.0**53
"""Larger whole numbers are not told apart by floats; no time or count is larger."""


def to_json(value: object) -> bytes:
    """A dataclass of dataclasses, tuples, numbers, texts and None as JSON.

    Raises ValueError for a number that is not finite.
    """
    return json.dumps(_bare(value), allow_nan=False, separators=(",", ":")).encode()


def from_json(kind: type[T], document: bytes) -> T:
    """The `kind` that `to_json` has written. Raises DataError for anything else, saying where."""
    try:
        loaded = json.loads(document)
    except (ValueError, RecursionError) as error:
        raise DataError(f"no {kind.__name__}: {error}") from error
    read: T = _reader(kind)(loaded, kind.__name__)
    return read


def _bare(value: object) -> object:
    if dataclasses.is_dataclass(value):
        return [_bare(getattr(value, field.name)) for field in dataclasses.fields(value)]
    if isinstance(value, tuple):
        return [_bare(each) for each in value]
    return value


_Reader = Callable[[Any, str], Any]


def _reader(kind: Any) -> _Reader:
    """What turns a loaded value into a `kind`; its second argument says where it stands."""
    if dataclasses.is_dataclass(kind):
        return _dataclass_reader(typing.cast(type[Any], kind))
    origin, inner = typing.get_origin(kind), typing.get_args(kind)
    if origin is tuple:
        return _tuple_reader(inner)
    if origin in (types.UnionType, typing.Union):
        (some,) = (each for each in inner if each is not type(None))
        return _optional_reader(_reader(some))
    return {int: _whole, float: _number, str: _text, bool: _truth}[kind]


def _dataclass_reader(kind: type[Any]) -> _Reader:
    hints = typing.get_type_hints(kind)
    names = [field.name for field in dataclasses.fields(kind)]
    readers = [_reader(hints[name]) for name in names]

    def read(value: Any, where: str) -> Any:
        if type(value) is not list or len(value) != len(readers):
            raise DataError(f"{where} is no list of {len(readers)} values")
        return kind(
            *(
                one(each, f"{where}.{name}")
                for one, each, name in zip(readers, value, names, strict=True)
            )
        )

    return read


def _tuple_reader(inner: tuple[Any, ...]) -> _Reader:
    if len(inner) == 2 and inner[1] is Ellipsis:
        one = _reader(inner[0])

        def read_many(value: Any, where: str) -> Any:
            if type(value) is not list:
                raise DataError(f"{where} is no list")
            return tuple([one(each, where) for each in value])

        return read_many
    readers = [_reader(each) for each in inner]

    def read(value: Any, where: str) -> Any:
        if type(value) is not list or len(value) != len(readers):
            raise DataError(f"{where} is no list of {len(readers)} values")
        return tuple([one(each, where) for one, each in zip(readers, value, strict=True)])

    return read


def _optional_reader(some: _Reader) -> _Reader:
    return lambda value, where: None if value is None else some(value, where)


def _whole(value: Any, where: str) -> int:
    if type(value) is not int or abs(value) > _MOST:
        raise DataError(f"{where} is no whole number")
    return value


def _number(value: Any, where: str) -> float:
    if type(value) not in (int, float) or not math.isfinite(value) or abs(value) > _MOST:
        raise DataError(f"{where} is no number")
    return float(value)


def _text(value: Any, where: str) -> str:
    if type(value) is not str:
        raise DataError(f"{where} is no text")
    return value


def _truth(value: Any, where: str) -> bool:
    if type(value) is not bool:
        raise DataError(f"{where} is neither true nor false")
    return value
