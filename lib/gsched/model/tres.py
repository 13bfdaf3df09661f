"""A list of trackable resources as one text: the form in which tables and files keep it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache

from gsched.errors import DataError

_COUNT = re.compile(r"-?[0-9]{1,19}")


def tres_text(tres: Iterable[tuple[str, int]]) -> str:
    """``cpu=8,gres/gpu:a100=2,mem=34359738368``; "" for an empty list. Memory counts in bytes.

    In names ``%``, ``,`` and ``=`` are written ``%25``, ``%2C`` and ``%3D``.
    """
    return ",".join(f"{_quoted(name)}={count}" for name, count in tres)


@lru_cache(maxsize=65_536)
def tres_of(text: str | None) -> tuple[tuple[str, int], ...]:
    """The reverse of `tres_text`; None: no list. Raises DataError for what is no such list."""
    if not text:
        return ()
    return tuple(_pair(item) for item in text.split(","))


def _pair(item: str) -> tuple[str, int]:
    name, equals, count = item.partition("=")
    if not equals or not _COUNT.fullmatch(count):
        raise DataError(f"not a resource: {item[:60]!r}", "write NAME=COUNT, memory in bytes")
    return _unquoted(name), int(count)


def _quoted(name: str) -> str:
    return name.replace("%", "%25").replace(",", "%2C").replace("=", "%3D")


def _unquoted(name: str) -> str:
    return name.replace("%3D", "=").replace("%2C", ",").replace("%25", "%")
