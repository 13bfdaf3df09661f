"""How gsched prints: data on stdout, words on stderr, hostile text made harmless.

Names, comments and paths come from strangers. Whatever could move a terminal's cursor, change its
colours or reverse the reading order is shown as an escape (``\\x1b``, ``\\n``, ``\\u202e``).
Colours come from ``tables`` alone.

Where the locale has no Unicode (``LC_ALL=C``), gsched's own signs have stand-ins (``->`` for an
arrow) and letters of users are shown as escapes.
"""

from __future__ import annotations

import codecs
import json
import os
import re
import sys
import unicodedata
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from datetime import datetime
from functools import lru_cache
from pathlib import Path
from typing import TextIO

from gsched.model.job import UNLIMITED_S

MAX_CELL = 48
"""Columns that a cell may take; the last column of a table may take MAX_LAST_CELL."""
MAX_LAST_CELL = 200

_BEYOND_ASCII = re.compile(r"[^\n -~]")
_ODD_WIDTH = re.compile("[\u0300-\U0010ffff]")  # before these, all take one column
_STAND_INS = {"…": "...", "–": "-", "—": "-", "−": "-", "×": "x", "→": "->", "±": "+-", "≥": ">="}
_ENCODING_ERRORS = "gsched"


def open_closed_streams() -> None:
    """Give this process somewhere to print where the caller has closed stdout or stderr (`>&-`).

    Else the next file that is opened takes the stream's number, and what is printed on stderr
    comes out on stdout. Commands that gsched runs or becomes see the streams as they were.
    """
    for number, name in ((1, "stdout"), (2, "stderr")):
        if getattr(sys, name) is None:
            nowhere = os.open(os.devnull, os.O_WRONLY)
            if nowhere != number:
                os.dup2(nowhere, number, inheritable=False)
                os.close(nowhere)
            setattr(sys, name, open(number, "w", closefd=False))  # noqa: SIM115


def speak_locale(stream: TextIO) -> None:
    """Let `stream` print whatever there is, with stand-ins for what its encoding lacks.

    Python speaks UTF-8 even in the C locale (PEP 538, 540), which most often is nobody's choice;
    who asks for it by LC_ALL gets ASCII.
    """
    if not hasattr(stream, "reconfigure"):
        return
    is_plain = os.environ.get("LC_ALL") in ("C", "POSIX")
    stream.reconfigure(encoding="ascii" if is_plain else None, errors=_ENCODING_ERRORS)


def _stand_in(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    chars = error.object[error.start : error.end]
    return "".join(_STAND_INS.get(char) or _escape(char) for char in chars), error.end


codecs.register_error(_ENCODING_ERRORS, _stand_in)


def _encoding() -> str:
    """The encoding of stdout: what it lacks must be replaced before widths are counted."""
    return getattr(sys.stdout, "encoding", None) or "utf-8"


def speaks_unicode() -> bool:
    """Whether stdout can show signs beyond a locale's own letters."""
    return _is_unicode(_encoding())


def _is_unicode(encoding: str) -> bool:
    return encoding.lower().replace("-", "").startswith("utf")


def emit_json(document: object) -> None:
    """Print one JSON document on stdout, keys in the order given.

    What is not printable though JSON allows it raw is written as ``\\uXXXX``: the document stays
    the same. Raises ValueError for NaN and infinities, which JSON does not know.
    """
    print(json_text(document))


def json_text(document: object) -> str:
    """`document` as `emit_json` prints it, without the last line's end.

    A key of an object has a line, and so has an item of a list: ``grep`` and ``diff`` work.
    """
    plain = not _is_unicode(_encoding())
    encode = json.JSONEncoder(ensure_ascii=plain, allow_nan=False).encode
    return _BEYOND_ASCII.sub(
        lambda match: match[0] if match[0].isprintable() else json.dumps(match[0])[1:-1],
        _json_block(document, encode, "\n"),
    )


def _json_block(value: object, encode: Callable[[object], str], line_end: str) -> str:
    """JSON with a line for each key and item; `line_end` ends a line and indents the next one."""
    inner = line_end + "  "
    if isinstance(value, dict) and value:
        items = [f"{encode(str(k))}: {_json_block(v, encode, inner)}" for k, v in value.items()]
        return "{" + inner + f",{inner}".join(items) + line_end + "}"
    if isinstance(value, list) and value and isinstance(value[0], dict | list):
        return "[" + inner + f",{inner}".join(map(encode, value)) + line_end + "]"
    return encode(value)


def emit_path(path: Path) -> None:
    """Print a path on stdout, byte for byte as it is; at a terminal made harmless."""
    if sys.stdout.isatty():
        print(safe_text(str(path)))
        return
    sys.stdout.flush()
    sys.stdout.buffer.write(os.fsencode(path) + b"\n")


def emit_table(
    columns: Sequence[str], rows: Iterable[Sequence[str]], right: Collection[int] = ()
) -> None:
    """Print aligned text on stdout; columns whose index is in `right` are right-aligned."""
    last = len(columns) - 1
    lines = [list(columns)]
    for row in rows:
        limits = (MAX_LAST_CELL if index == last else MAX_CELL for index in range(len(columns)))
        lines.append([safe_text(cell, limit) for cell, limit in zip(row, limits, strict=True)])
    widths = [max(map(display_width, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        print("  ".join(padded(line, widths, right)).rstrip())


def padded(
    cells: Sequence[str], widths: Sequence[int], right: Collection[int] = ()
) -> Iterator[str]:
    """The cells of one line of a table, filled up with spaces; a wider one stays as it is."""
    for index, (cell, width) in enumerate(zip(cells, widths, strict=True)):
        if not cell.isascii():
            width += len(cell) - display_width(cell)
        yield cell.rjust(width) if index in right else cell.ljust(width)


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
    if not text.isprintable():
        text = "".join(char if char.isprintable() else _escape(char) for char in text)
    if not text.isascii():
        encoding = _encoding()
        if not _is_unicode(encoding):
            text = text.encode(encoding, _ENCODING_ERRORS).decode(encoding)
    return text if width is None else cut(text, width)


def cut(text: str, width: int) -> str:
    """At most `width` columns of printable text; ``…`` (``+`` without Unicode) marks a cut."""
    if display_width(text) <= width and len(text) <= 2 * width:
        return text
    kept, used = [], 0
    for char in text[: 2 * width - 1]:  # also bounds marks that take no column
        used += _char_width(char)
        if used > width - 1:
            break
        kept.append(char)
    return "".join(kept) + ("…" if _is_unicode(_encoding()) else "+")


def escaped(text: str) -> str:
    """`text` with each backslash and unprintable character as Python's escape: nothing is lost."""
    text = text.replace("\\", "\\\\")
    if text.isprintable():
        return text
    return "".join(
        char if char.isprintable() else char.encode("unicode_escape").decode("ascii")
        for char in text
    )


def display_width(text: str) -> int:
    """Columns that `text` takes on a terminal: 2 for wide East Asian characters, 0 for marks."""
    if text.isascii():
        return len(text)
    return len(text) + sum(_char_width(char) - 1 for char in _ODD_WIDTH.findall(text))


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
    if seconds == UNLIMITED_S:
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


def hours(seconds: float | None) -> str:
    """Seconds as hours: ``1,234.5``, small ones with three digits; ``-`` for None."""
    if seconds is None:
        return "-"
    number = seconds / 3600
    return f"{number:,.1f}" if number >= 100 or not number else f"{number:.3g}"


def memory(num_bytes: int) -> str:
    """Bytes in the largest unit that leaves at least one: ``1.5G``, ``512M``, ``0``."""
    size, unit = float(num_bytes), ""
    for larger in "KMGTP":
        if size < 1024:
            break
        size, unit = size / 1024, larger
    return f"{size:.1f}".removesuffix(".0") + unit


def _escape(char: str) -> str:
    if unicodedata.category(char) == "Zs":
        return " "
    return char.encode("unicode_escape").decode("ascii")


@lru_cache(maxsize=4096)
def _char_width(char: str) -> int:
    if unicodedata.combining(char):
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1
