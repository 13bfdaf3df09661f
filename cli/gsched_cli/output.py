"""How gsched prints: data on stdout, words on stderr, hostile text made harmless.

Names, comments and paths come from strangers. Whatever could move a terminal's cursor, change its
colours or reverse the reading order is shown as an escape (``\\x1b``, ``\\n``, ``\\u202e``).
Nothing is ever coloured.
"""

from __future__ import annotations

import json
import re
import sys
import unicodedata
from collections.abc import Collection, Iterable, Sequence
from datetime import datetime

from gsched.model.job import UNLIMITED_S

MAX_CELL = 48
"""Columns that a cell may take; the last column of a table may take MAX_LAST_CELL."""
MAX_LAST_CELL = 200

_BEYOND_ASCII = re.compile(r"[^\n -~]")


def emit_json(document: object) -> None:
    """Print one JSON document on stdout, keys in the order given.

    What is not printable though JSON allows it raw is written as ``\\uXXXX``: the document stays
    the same. Raises ValueError for NaN and infinities, which JSON does not know.
    """
    print(json_text(document))


def json_text(document: object) -> str:
    """`document` as `emit_json` prints it, without the last line's end."""
    text = json.dumps(document, ensure_ascii=False, allow_nan=False, indent=2)
    return _BEYOND_ASCII.sub(
        lambda match: match[0] if match[0].isprintable() else json.dumps(match[0])[1:-1], text
    )


def emit_table(
    columns: Sequence[str], rows: Iterable[Sequence[str]], right: Collection[int] = ()
) -> None:
    """Print aligned text on stdout; columns whose index is in `right` are right-aligned."""
    last = len(columns) - 1
    lines = [list(columns)]
    for row in rows:
        limits = (MAX_LAST_CELL if index == last else MAX_CELL for index in range(len(columns)))
        lines.append([safe_text(cell, limit) for cell, limit in zip(row, limits, strict=True)])
    widths = [max(display_width(line[index]) for line in lines) for index in range(len(columns))]
    for line in lines:
        cells = []
        for index, cell in enumerate(line):
            padding = " " * (widths[index] - display_width(cell))
            cells.append(padding + cell if index in right else cell + padding)
        print("  ".join(cells).rstrip())


def say(message: str) -> None:
    """Tell the user something on stderr that is no data."""
    print(f"gsched: {safe_text(message)}", file=sys.stderr)


def warn(message: str) -> None:
    """Tell the user on stderr of something that may not be as intended."""
    say(f"warning: {message}")


def safe_text(text: str, width: int | None = None) -> str:
    """`text` on one line without control, format or direction characters.

    With `width` it takes at most so many columns of a terminal, cut with ``…``.
    """
    if not (text.isascii() and text.isprintable()):
        text = "".join(char if char.isprintable() else _escape(char) for char in text)
    if width is None or (display_width(text) <= width and len(text) <= 2 * width):
        return text
    kept, used = [], 0
    for char in text[: 2 * width - 1]:  # also bounds marks that take no column
        used += _char_width(char)
        if used > width - 1:
            break
        kept.append(char)
    return "".join(kept) + "…"


def display_width(text: str) -> int:
    """Columns that `text` takes on a terminal: 2 for wide East Asian characters, 0 for marks."""
    return len(text) if text.isascii() else sum(_char_width(char) for char in text)


def local_time(epoch: float | None) -> str:
    """Epoch seconds as local ISO 8601 with offset; ``-`` for None, ``@…`` beyond year 9999."""
    if epoch is None:
        return "-"
    try:
        return datetime.fromtimestamp(epoch).astimezone().isoformat(timespec="seconds")
    except (OverflowError, ValueError, OSError):
        return f"@{epoch:.0f}"


def duration(seconds: float | None) -> str:
    """Seconds as Slurm prints them: ``0:42``, ``1:02:03``, ``2-03:00:00``; ``-`` for None."""
    if seconds is None:
        return "-"
    if seconds >= UNLIMITED_S:
        return "UNLIMITED"
    sign = "-" if seconds <= -0.5 else ""
    minutes, secs = divmod(round(abs(seconds)), 60)
    hours, mins = divmod(minutes, 60)
    days, hrs = divmod(hours, 24)
    if days:
        return f"{sign}{days}-{hrs:02}:{mins:02}:{secs:02}"
    return f"{sign}{hrs}:{mins:02}:{secs:02}" if hrs else f"{sign}{mins}:{secs:02}"


def count(number: int | None) -> str:
    """A whole number with thousands separators; ``-`` for None."""
    return "-" if number is None else f"{number:,}"


def _escape(char: str) -> str:
    if unicodedata.category(char) == "Zs":
        return " "
    return char.encode("unicode_escape").decode("ascii")


def _char_width(char: str) -> int:
    if unicodedata.combining(char):
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1
