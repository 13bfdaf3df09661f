from __future__ import annotations

import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gsched_cli import output

HOSTILE = [
    "a\nb",
    "\x1b]0;x\x07",
    "\x9b31m",
    "\u202eabc",
    "\u2066x\u2069",
    "\x00",
    "\ud800",
    "\u2028",
]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain", "plain"),
        ("wärme 模型 🚀", "wärme 模型 🚀"),
        ("a\nb\tc", "a\\nb\\tc"),
        ("\x1b[31mred", "\\x1b[31mred"),
        ("\u202eabc", "\\u202eabc"),
        ("\x9b31m", "\\x9b31m"),
        ("no\u00a0break", "no break"),
        ("\udcff", "\\udcff"),
    ],
)
def test_safe_text_shows_what_a_terminal_would_obey(text, shown):
    assert output.safe_text(text) == shown


@given(st.text(st.characters(exclude_categories=[]), max_size=60), st.integers(1, 30))
def test_safe_text_is_printable_and_within_its_width(text, width):
    assert output.safe_text(text).isprintable()
    cut = output.safe_text(text, width)
    assert output.display_width(cut) <= width
    assert len(cut) <= 2 * width


@pytest.mark.parametrize(
    ("text", "width", "shown"),
    [("abcdef", 6, "abcdef"), ("abcdefg", 6, "abcde…"), ("模型模型", 6, "模型…"), ("ab", 1, "…")],
)
def test_long_text_is_cut_at_columns_of_the_terminal(text, width, shown):
    assert output.safe_text(text, width) == shown


def test_width_counts_columns_of_the_terminal():
    assert [output.display_width(text) for text in ("abc", "模型", "e\u0301", "")] == [3, 4, 1, 0]


def test_a_tower_of_marks_is_cut():
    assert len(output.safe_text("e" + "\u0301" * 5000, 20)) <= 40


def test_a_table_is_aligned_whatever_the_cells_hold(capsys):
    rows = [["1", "模型", "x"], ["1000", "a\nb", "\x1b[2J"], ["12", "", ""]]
    output.emit_table(["JOB", "NAME", "WHY"], rows, right={0})
    assert capsys.readouterr().out == (
        " JOB  NAME  WHY\n   1  模型  x\n1000  a\\nb  \\x1b[2J\n  12\n"
    )


def test_a_table_cuts_the_last_column_later_than_the_others(capsys):
    output.emit_table(["A", "B"], [["x" * 1024, "y" * 1024]])
    header, row = capsys.readouterr().out.splitlines()
    assert row == "x" * 47 + "…" + "  " + "y" * 199 + "…"
    assert header == "A" + " " * 49 + "B"


def test_a_table_without_rows_is_its_header(capsys):
    output.emit_table(["A", "B"], [])
    assert capsys.readouterr().out == "A  B\n"


def test_a_row_of_another_length_is_a_mistake():
    with pytest.raises(ValueError, match="argument"):
        output.emit_table(["A", "B"], [["x"]])


def test_json_is_one_document_that_a_terminal_can_show(capsys):
    document = {"b": HOSTILE, "a": 1.5, "模": None}
    output.emit_json(document)
    text = capsys.readouterr().out
    assert json.loads(text) == document
    assert list(json.loads(text)) == ["b", "a", "模"]
    assert all(line.isprintable() for line in text.splitlines())
    assert '"模": null' in text


@given(st.text(st.characters(exclude_categories=[])))
def test_json_keeps_every_text(text):
    shown = output.json_text([text])
    assert json.loads(shown) == [text]
    assert shown.replace("\n", "").isprintable()


def test_json_refuses_what_it_does_not_know():
    with pytest.raises(ValueError, match="not JSON compliant"):
        output.emit_json({"x": float("nan")})


def test_words_go_to_stderr(capsys):
    output.say("done\x1b[0m")
    output.warn("odd\nname")
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err == "gsched: done\\x1b[0m\ngsched: warning: odd\\nname\n"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (None, "-"),
        (0, "0:00"),
        (42, "0:42"),
        (59.6, "1:00"),
        (3723, "1:02:03"),
        (2 * 86400 + 3 * 3600, "2-03:00:00"),
        (-90, "-1:30"),
        (-0.2, "0:00"),
        (2**31 - 1, "UNLIMITED"),
        (2**31, "24855-03:14:08"),  # a sum, no limit
    ],
)
def test_durations_look_as_in_squeue(seconds, text):
    assert output.duration(seconds) == text


def test_times_are_local_with_their_offset(monkeypatch):
    monkeypatch.setenv("TZ", "Europe/Berlin")
    time.tzset()
    try:
        assert output.local_time(1_790_000_000) == "2026-09-21T16:13:20+02:00"
        assert output.local_time(1_800_000_000) == "2027-01-15T09:00:00+01:00"
        assert output.local_time(None) == "-"
        assert output.local_time(10**15) == "@1000000000000000"
    finally:
        monkeypatch.undo()
        time.tzset()


def test_counts_have_separators():
    assert [output.count(1234567), output.count(0), output.count(None)] == ["1,234,567", "0", "-"]
