"""Saved text of ``sacct -p`` or ``-P``, cut into rows though names hold delimiters and line ends.

Rows are lines, and fields stand between delimiters, but for what users write: a job's name may
hold both. So a line with too few fields is joined with the next ones, and one with too many gives
its surplus to the one field that may hold anything. Where several may, or where a row would have
to be guessed, it is a reject. Text without a delimiter of one's own cannot be trusted against
hostile users: a name that holds a whole row is that row, and nothing in the file tells. Live
reading draws its separator anew each time; sites that save text can use ``sacct --delimiter``.
Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import BinaryIO

from gsched.errors import DataError
from gsched.slurm.sacct_fields import FREE_TEXT, spelt
from gsched.slurm.sacct_rows import NEEDED
from gsched.text_lines import MAX_LINE_CHARS, TOO_LONG, text_lines

_DEFAULT_DELIMITER = "|"
_LONGEST_DELIMITER = 64
_MOST_JOINED = 65_536  # characters: no row of Slurm that is told in several lines is longer
_MOST_LINES = 10_000  # of one row
_BLOCK_CHARS = 2**24  # of lines that are held at once
_SHOWN = 300
_WORD = re.compile(r"[A-Za-z]\w*(?:%-?\d+)?", re.ASCII)
_ID = re.compile(r"\d{1,10}(?:[_+.]\S*)?", re.ASCII)


@dataclass(frozen=True, slots=True)
class Form:
    """How the rows of a file are written.

    `names` are the fields in order, `header` the line that names them ("" for none), `is_closed`
    whether a delimiter follows the last field too (``-p``).
    """

    names: tuple[str, ...]
    delimiter: str
    is_closed: bool
    header: str = ""

    @property
    def num_delimiters(self) -> int:
        """In one row."""
        return len(self.names) - (not self.is_closed)

    def cut(self, line: str) -> list[str]:
        """The fields of a line, as many as there are."""
        fields = line.split(self.delimiter)
        if self.is_closed and fields[-1] == "":
            fields.pop()
        return fields


@dataclass(frozen=True, slots=True)
class Rows:
    """Some rows: `lines` are the numbers of the lines where they begin.

    `broken` are (line, why, text) of what is no row.
    """

    rows: Sequence[Sequence[str]]
    lines: Sequence[int]
    broken: Sequence[tuple[int, str, str]]


def form_of(lines: Sequence[str], names: Sequence[str] | None, where: str) -> Form:
    """The form of a file that begins with `lines`; `names` are its fields if it has no header.

    Raises DataError when it has neither a header nor `names`, or lacks a field without which a row
    is no attempt.
    """
    form = _header(lines[0])
    if form is None and names:
        spelt_names = tuple(map(spelt, names))
        closed = [line.count(_DEFAULT_DELIMITER) == len(names) for line in lines]
        form = Form(spelt_names, _DEFAULT_DELIMITER, sum(closed) * 2 > len(closed))
    if form is None:
        raise DataError(
            f"{where} does not begin with a line that names sacct's fields: {lines[0][:_SHOWN]!r}",
            "save it with `sacct -P`, or name the fields of a file without header by --fields",
        )
    missing = [" or ".join(some) for some in NEEDED if not set(some) & set(form.names)]
    if missing:
        raise DataError(
            f"{where} has no field {', no '.join(missing)}; its fields are {', '.join(form.names)}",
            "save it with `sacct -P -o JobID,Submit,State,…`",
        )
    doubled = sorted({name for name in form.names if form.names.count(name) > 1})
    if doubled:
        raise DataError(f"{where} has the field {doubled[0]} twice")
    return form


def _header(line: str) -> Form | None:
    """The form that a header shows: words of which one is JobID, and what stands between them."""
    first = _WORD.match(line)
    if first is None:
        return None
    for length in range(1, min(_LONGEST_DELIMITER, len(line) - first.end()) + 1):
        delimiter = line[first.end() : first.end() + length]
        words = line.split(delimiter)
        is_closed = words[-1] == ""
        names = tuple(map(spelt, words[:-1] if is_closed else words))
        is_header = len(names) > 1 and all(map(_WORD.fullmatch, words[: len(names)]))
        if is_header and {"JobID", "JobIDRaw"} & set(names):
            return Form(names, delimiter, is_closed, line)
    return None


def header_words(text: str) -> str:
    """What a row's first line says where it looks like a header, though not like the file's; ""."""
    line = text.partition("\n")[0]
    form = _header(line) if "jobid" in line[:_SHOWN].lower() else None
    return "" if form is None else ", ".join(form.names)[:_SHOWN]


def read_rows(stream: BinaryIO, form: Form, most: int) -> Iterator[Rows]:
    """The rows of a file, about `most` at a time; its header, wherever it stands, is left out."""
    lines = decoded(stream)
    number, held = 1, next(lines, None)
    while held is not None:
        begin = number
        block, size = [held], len(held)
        for held in lines:
            is_long = len(block) >= most or size >= _BLOCK_CHARS
            if is_long and (_begins_row(held, form) or len(block) >= most + _MOST_LINES):
                break
            if size >= 2 * _BLOCK_CHARS:
                break
            block.append(held)
            size += len(held)
        else:
            held = None
        number += len(block)
        yield _cut(block, begin, form)


def decoded(stream: BinaryIO) -> Iterator[str]:
    """Lines without their ends, each of bounded length; bytes that are no text become U+FFFD."""
    for line in text_lines(stream, only_lf=True, errors="replace"):
        yield line.removesuffix("\n").removesuffix("\r")


def first_lines(stream: BinaryIO, most: int) -> list[str]:
    """The first lines of a file that hold something."""
    found: list[str] = []
    size = 0
    for line in decoded(stream):
        if line.strip():
            found.append(line)
            size += len(line)
        if len(found) == most or size >= _BLOCK_CHARS:
            break
    return found


def _begins_row(line: str, form: Form) -> bool:
    """Whether a line looks like a row's first: an id stands where it has to."""
    if line == form.header:
        return True
    place = form.names.index("JobID" if "JobID" in form.names else "JobIDRaw")
    fields = line.split(form.delimiter, place + 1)
    return len(fields) > place and _ID.fullmatch(fields[place]) is not None


def _cut(block: Sequence[str], begin: int, form: Form) -> Rows:
    rows = [form.cut(line) for line in block if line]
    is_bounded = max(map(len, block)) < MAX_LINE_CHARS
    if is_bounded and len(rows) == len(block) and set(map(len, rows)) == {len(form.names)}:
        if form.header in block:
            places = [n for n, line in enumerate(block) if line != form.header]
            return Rows([rows[n] for n in places], [begin + n for n in places], ())
        return Rows(rows, range(begin, begin + len(block)), ())
    return _Joiner(form, begin).join(block)


class _Joiner:
    """Puts rows together of lines of which some are no rows by themselves."""

    def __init__(self, form: Form, begin: int) -> None:
        self._form, self._begin = form, begin
        self._last_is_open = not form.is_closed and form.names[-1] in FREE_TEXT
        self._texts: list[tuple[int, str]] = []

    def join(self, block: Sequence[str]) -> Rows:
        """The rows of the lines."""
        blank = ""  # empty lines count only in the middle of a row
        for number, line in enumerate(block, self._begin):
            if not line:
                blank += "\n"
            elif line != self._form.header:
                if self._belongs_to_last(line):
                    begin, text = self._texts[-1]
                    self._texts[-1] = (begin, f"{text}{blank}\n{line}")
                else:
                    self._texts.append((number, line))
                blank = ""
        return self._rows()

    def _belongs_to_last(self, line: str) -> bool:
        """Whether the row before is not complete without `line`."""
        if not self._texts or len(line) >= MAX_LINE_CHARS:
            return False
        text = self._texts[-1][1]
        wanted = self._form.num_delimiters
        if len(text) > _MOST_JOINED:
            return False
        begins = _begins_row(line, self._form)
        if begins and line.count(self._form.delimiter) >= wanted:
            return False  # a whole row: what stands before it is what it is
        if text.count(self._form.delimiter) < wanted:
            return True
        if self._form.is_closed:
            return not text.endswith(self._form.delimiter)
        return self._last_is_open and not begins

    def _rows(self) -> Rows:
        rows, lines, broken = [], [], []
        for number, text in self._texts:
            if len(text) >= MAX_LINE_CHARS:
                broken.append((number, TOO_LONG, text))
                continue
            fields = self._fitted(self._form.cut(text))
            if fields is None:
                width, got = len(self._form.names), len(self._form.cut(text))
                broken.append((number, f"row has {got} fields instead of {width}", text))
            else:
                rows.append(fields)
                lines.append(number)
        return Rows(rows, lines, broken)

    def _fitted(self, fields: list[str]) -> list[str] | None:
        """Fields in their number; a surplus is part of the only text that may hold a delimiter."""
        names = self._form.names
        surplus = len(fields) - len(names)
        free = [place for place, name in enumerate(names) if name in FREE_TEXT]
        if surplus == 0:
            return fields
        if surplus < 0 or len(free) != 1:
            return None
        begin, end = free[0], free[0] + surplus + 1
        return [*fields[:begin], self._form.delimiter.join(fields[begin:end]), *fields[end:]]
