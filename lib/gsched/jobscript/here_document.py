"""Texts that stand unchanged in a script of the shell."""

from __future__ import annotations

import hashlib
import string

from gsched.errors import UsageError

_FIRST = "G" + string.ascii_letters + string.digits


def delimiter(text: str) -> str:
    """A line that ends the here-document of `text`: of its own hash, so that it has no such line.

    It shares its first bytes with no line that goes on with one beyond ASCII, which dash 0.5.12
    would lose. Bytes that are no UTF-8 are surrogates in `text`. Raises UsageError where lines
    stand in the way of each: not seen but in a text that is made for it.
    """
    wide = [line for line in text.split("\n") if not line.isascii()]
    digest = hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:16]
    for first in _FIRST:
        made = f"{first}SCHED-END-{digest}"
        if not any(_is_cut(line, made) for line in wide):
            return made
    raise UsageError("the script cannot stand in a here-document", "leave out bytes beyond ASCII")


def _is_cut(line: str, delimiter: str) -> bool:
    return any(
        line.startswith(delimiter[:count]) and not line[count : count + 1].isascii()
        for count in range(1, len(delimiter) + 1)
    )
