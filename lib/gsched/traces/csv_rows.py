"""Rows of a delimited text file in blocks, each row with the line on which it begins.

Files come from anywhere: with a byte-order mark, CRLF, quotes, line ends inside quotes, NUL bytes,
bytes that are no UTF-8, or one line of ten gigabytes. No row is lost and none shifts another's
columns; what cannot be cut into fields is a reject with its line.
"""

from __future__ import annotations

import csv
import io
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import BinaryIO

from gsched.model.history import Reject
from gsched.text_lines import MAX_LINE_BYTES, MAX_LINE_CHARS, TOO_LONG, shortened, text_lines

DELIMITERS = ",;\t|"

_PLAIN_CHARS = 100_000  # shorter lines hold no field over the csv module's limit
_MAX_ROW_LINES = 64  # lines that one row may span; a quote open for longer is a stray one


@dataclass(frozen=True, slots=True)
class RowBlock:
    """Some rows, as lists of fields, and the line (from 1) on which each begins."""

    rows: list[list[str]]
    lines: Sequence[int]
    rejects: tuple[Reject, ...] = ()


class CsvRows:
    """One delimited file. `source` names it in rejects.

    Text is that of `text_lines`; NUL becomes ``\\x00`` as well, so that every database can store
    it. A blank line is no row.
    """

    def __init__(self, stream: BinaryIO, source: str) -> None:
        self._text = text_lines(stream)
        self._source = source
        self._held: list[str] = []
        self._lines_taken = 0

    def first_line(self) -> str:
        """The first line that is not blank, "" in an empty file. It is no row of `blocks`."""
        for line in self._text:
            self._lines_taken += 1
            if line.strip():
                return line.replace("\0", "\\x00")
        return ""

    def push_back(self, line: str) -> None:
        """Makes what `first_line` gave a row all the same: the file has no header."""
        self._held.append(line)
        self._lines_taken -= 1

    def blocks(self, delimiter: str, width: int, max_rows: int) -> Iterator[RowBlock]:
        """All further rows. `width` is the number of fields that a row should have."""
        while lines := [*self._held, *islice(self._text, max_rows - len(self._held))]:
            self._held.clear()
            first = self._lines_taken + 1
            text = "".join(lines)
            if "\0" in text:
                lines = [line.replace("\0", "\\x00") for line in lines]
            if '"' in text or max(map(len, lines)) > _PLAIN_CHARS:
                yield self._careful(lines, delimiter, width)
            else:
                self._lines_taken += len(lines)
                yield _plain(lines, first, delimiter)

    def _careful(self, lines: list[str], delimiter: str, width: int) -> RowBlock:
        """Row by row, where quotes may join lines. A stray quote costs its own line only."""
        queue = deque(lines)
        rows, numbers, rejects = [], [], []
        while queue:
            number = self._lines_taken + 1
            taken = self._quoted_lines(queue)
            row, problem = _cut(taken, delimiter)
            if len(taken) > 1 and (problem or len(row) != width):
                queue.extendleft(reversed(taken[1:]))
                taken = taken[:1]
                row, problem = _cut(taken, delimiter)
            self._lines_taken += len(taken)
            if problem:
                raw = shortened("".join(taken).rstrip("\n"))
                rejects.append(Reject(self._source, number, problem, raw))
            elif not _is_blank(row):
                rows.append(row)
                numbers.append(number)
        return RowBlock(rows, numbers, tuple(rejects))

    def _quoted_lines(self, queue: deque[str]) -> list[str]:
        """The lines of the next row: as many as it takes to close every quote, or one."""
        taken = [queue.popleft()]
        num_quotes, size = taken[0].count('"'), len(taken[0])
        while num_quotes % 2 and size < MAX_LINE_BYTES and len(taken) < _MAX_ROW_LINES:
            if not queue:
                queue.extend(line.replace("\0", "\\x00") for line in islice(self._text, 1))
            if not queue:
                break
            taken.append(queue.popleft())
            num_quotes += taken[-1].count('"')
            size += len(taken[-1])
        if num_quotes % 2:
            queue.extendleft(reversed(taken[1:]))
            del taken[1:]
        return taken


def split_line(line: str, delimiter: str) -> list[str]:
    """The fields of one line; none where it cannot be cut."""
    return _cut([line], delimiter)[0]


def row_text(row: Iterable[str], delimiter: str) -> str:
    """A row as the text of a line, for a reject."""
    line = io.StringIO()
    csv.writer(line, delimiter=delimiter, lineterminator="").writerow(row)
    return shortened(line.getvalue())


def _plain(lines: list[str], first: int, delimiter: str) -> RowBlock:
    rows = list(csv.reader(lines, delimiter=delimiter))
    numbers: Sequence[int] = range(first, first + len(lines))
    if min(map(len, rows)) <= 1 and any(map(_is_blank, rows)):
        numbers = [n for n, row in zip(numbers, rows, strict=True) if not _is_blank(row)]
        rows = [row for row in rows if not _is_blank(row)]
    return RowBlock(rows, numbers)


def _cut(lines: list[str], delimiter: str) -> tuple[list[str], str]:
    """The fields of one row, or what is wrong with it."""
    if len(lines) == 1 and len(lines[0]) >= MAX_LINE_CHARS:
        return [], TOO_LONG
    try:
        rows = list(csv.reader(lines, delimiter=delimiter, strict=True))
    except csv.Error as e:
        is_open = "unexpected end" in str(e)
        return [], "a quote is not closed" if is_open else f"cannot be cut into fields: {e}"
    if len(rows) == 1:
        return rows[0], ""
    return [], "not one row"


def _is_blank(row: list[str]) -> bool:
    return not row or (len(row) == 1 and not row[0].strip())
