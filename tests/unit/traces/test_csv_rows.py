"""Cutting delimited text into rows: nothing is lost, nothing shifts."""

from __future__ import annotations

import csv
import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gsched.text_lines import MAX_LINE_BYTES, text_lines
from gsched.traces.csv_rows import CsvRows, RowBlock, row_text, split_line


def blocks_of(data: bytes, width: int = 3, max_rows: int = 4) -> list[RowBlock]:
    return list(CsvRows(io.BytesIO(data), "t").blocks(",", width, max_rows))


def rows_of(data: bytes, width: int = 3, max_rows: int = 4) -> list[tuple[int, list[str]]]:
    blocks = blocks_of(data, width, max_rows)
    return [pair for b in blocks for pair in zip(b.lines, b.rows, strict=True)]


def rejects_of(data: bytes, width: int = 3) -> list[tuple[int, str]]:
    return [(r.line, r.reason) for b in blocks_of(data, width) for r in b.rejects]


def test_line_numbers_go_on_over_blocks_blank_lines_and_line_ends() -> None:
    data = b"a,b,c\r\n\r\n1,2,3\n   \n4,5,6\r7,8,9"
    expected = [(1, ["a", "b", "c"]), (3, ["1", "2", "3"]), (5, ["4", "5", "6"])]
    assert rows_of(data) == [*expected, (6, ["7", "8", "9"])]


def test_byte_order_marks_of_utf8_and_utf16() -> None:
    text = "ä,b,c\n1,2,ü\n"
    expected = [(1, ["ä", "b", "c"]), (2, ["1", "2", "ü"])]
    assert rows_of(text.encode("utf-8-sig")) == expected
    assert rows_of(text.encode("utf-16")) == expected


def test_bytes_that_no_database_takes_stay_readable() -> None:
    assert rows_of(b"a\xff,b\0,c\n") == [(1, ["a\\xff", "b\\x00", "c"])]


def test_a_quoted_row_spans_lines_and_blocks() -> None:
    data = b'1,2,3\n1,2,3\n1,2,3\n"x\ny, ""z""",2,3\n7,8,9\n'
    got = rows_of(data)
    assert got[3:] == [(4, ['x\ny, "z"', "2", "3"]), (6, ["7", "8", "9"])]


def test_a_stray_quote_costs_its_own_line_only() -> None:
    data = b'1,2,3\n4,"5,6\n7,8,9\n' + b"1,2,3\n" * 100
    assert len(rows_of(data)) == 102
    assert rejects_of(data) == [(2, "a quote is not closed")]


def test_two_stray_quotes_do_not_swallow_the_rows_between() -> None:
    data = b'1,2,"3\n4,5,6\n7,8",9\n1,2,3\n'
    assert [row for _, row in rows_of(data)] == [["4", "5", "6"], ["7", '8"', "9"], ["1", "2", "3"]]
    assert rejects_of(data) == [(1, "a quote is not closed")]


def test_text_after_a_quote_is_no_field() -> None:
    ((line, reason),) = rejects_of(b'1,2,3\n"a"b,2,3\n')
    assert line == 2
    assert reason.startswith("cannot be cut into fields")


def test_a_field_over_the_limit_is_rejected_and_the_next_row_is_read() -> None:
    data = b"1,%s,3\n4,5,6\n" % (b"x" * (csv.field_size_limit() + 1))
    assert rows_of(data) == [(2, ["4", "5", "6"])]
    ((line, reason),) = rejects_of(data)
    assert line == 1
    assert "field larger than field limit" in reason
    raw = blocks_of(data)[0].rejects[0].raw
    assert len(raw) < 5000


class Endless(io.RawIOBase):
    """Delivers `size` bytes of one line, then the rest; counts what it holds at once."""

    def __init__(self, size: int, rest: bytes) -> None:
        self.left, self.rest = size, io.BytesIO(rest)

    def read(self, size: int = -1) -> bytes:
        assert 0 < size <= MAX_LINE_BYTES
        part = min(size, self.left)
        self.left -= part
        return b"x" * part if part else self.rest.read(size)


@pytest.mark.parametrize("end", [b"\n", b"\r"])
def test_an_endless_line_is_cut_and_what_follows_is_read(end: bytes) -> None:
    stream = Endless(40 * MAX_LINE_BYTES + 17, end + b"1,2,3" + end + b"4,5,6" + end)
    (block,) = CsvRows(stream, "t").blocks(",", 3, 10)  # type: ignore[arg-type]
    assert block.rows == [["1", "2", "3"], ["4", "5", "6"]]
    assert list(block.lines) == [2, 3]
    assert [(r.line, r.reason) for r in block.rejects] == [(1, "the line is too long")]


def test_no_line_is_held_beyond_its_bound() -> None:
    stream = Endless(5 * MAX_LINE_BYTES, b"\nend\n")
    assert [len(line) for line in text_lines(stream)] == [MAX_LINE_BYTES + 1, 4]  # type: ignore[arg-type]


def test_a_line_is_pushed_back_with_its_number() -> None:
    rows = CsvRows(io.BytesIO(b"\n1,2\n3,4\n"), "t")
    line = rows.first_line()
    rows.push_back(line)
    (block,) = rows.blocks(",", 2, 5)
    assert block.rows == [["1", "2"], ["3", "4"]]
    assert list(block.lines) == [2, 3]


def test_split_line_and_row_text_are_inverse() -> None:
    row = ["a,b", 'c"d', "e"]
    assert split_line(row_text(row, ","), ",") == row


fields = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\r\0"), max_size=8)


@given(st.lists(st.lists(fields, min_size=3, max_size=3), max_size=30), st.integers(1, 7))
def test_whatever_csv_writes_is_read_back(rows: list[list[str]], max_rows: int) -> None:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n", quoting=csv.QUOTE_ALL).writerows(rows)
    got = [row for _, row in rows_of(text.getvalue().encode(), 3, max_rows)]
    assert got == [row for row in rows if "\n" not in "".join(row) or _is_short(row)]


def _is_short(row: list[str]) -> bool:
    return "".join(row).count("\n") < 63


@given(st.binary(max_size=400), st.integers(1, 5))
def test_no_bytes_fail_and_every_line_is_accounted_for(data: bytes, max_rows: int) -> None:
    text = data.decode("utf-8-sig", "backslashreplace").replace("\r\n", "\n").replace("\r", "\n")
    blocks = blocks_of(data, 2, max_rows)
    lines = [n for b in blocks for n in [*b.lines, *(r.line for r in b.rejects)]]
    if data[:2] in {b"\xff\xfe", b"\xfe\xff"}:
        return
    assert len(set(lines)) == len(lines)
    if '"' not in text:
        filled = [i for i, line in enumerate(text.split("\n"), 1) if line.strip()]
        assert sorted(lines) == filled
