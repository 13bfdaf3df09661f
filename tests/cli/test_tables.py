"""Named columns: choosing, sorting, what programs get, what a terminal gets."""

from __future__ import annotations

import io
import json
import os
import re
import subprocess
import sys

import click
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from gsched_cli import tables
from gsched_cli.output import display_width, emit_json, speak_locale
from gsched_cli.tables import Column, Layout, ordered, print_rows, sort_option, table_options

COLUMNS = (
    Column("id", "ID", lambda row: str(row["id"]), lambda row: row["id"], right=True),
    Column("name", "NAME", lambda row: row["name"]),
    Column("size", "SIZE", lambda row: f"{row['size']}G", lambda row: row["size"], right=True),
    Column(
        "state", "STATE", lambda row: row["state"],
        style=lambda row: "red" if row["state"] == "FAILED" else None,
    ),
)  # fmt: skip
ROWS = [
    {"id": 2, "name": "b", "size": 10, "state": "FAILED"},
    {"id": 10, "name": "a|c", "size": None, "state": "RUNNING"},
]


@click.command()
@sort_option(COLUMNS)
@table_options(COLUMNS, "id,name")
def show(order, layout):
    """A table."""
    print_rows(layout, ordered(ROWS, order))


def shown(*args):
    done = CliRunner().invoke(show, args)
    assert done.exit_code == 0, done.output
    return done.output


def test_the_usual_columns_and_others():
    assert shown() == "ID  NAME\n 2  b\n10  a|c\n"
    assert shown("-o", "name,ID") == "NAME  ID\nb      2\na|c   10\n"
    assert shown("-o", "+state,id", "-h") == " 2  b    FAILED\n10  a|c  RUNNING\n"


def test_a_column_that_does_not_exist_names_the_near_one_and_all():
    done = CliRunner().invoke(show, ["-o", "id,nmae"])
    assert done.exit_code == 2
    assert "no column 'nmae'. Did you mean 'name'? There are: id, name, size, state" in done.output
    assert CliRunner().invoke(show, ["-S", "-zzz"]).exit_code == 2
    assert CliRunner().invoke(show, ["-o", ""]).exit_code == 2


def test_help_lists_the_columns():
    assert "There are: id, name, size, state." in " ".join(shown("--help").split())


def test_programs_get_raw_values_between_bars():
    assert shown("-P", "-o", "id,name,size") == "id|name|size\n2|b|10\n10|a\\x7cc|\n"
    assert shown("-P", "-h", "-o", "id") == "2\n10\n"


@given(st.lists(st.text(st.characters(exclude_categories=[])), min_size=1, max_size=5))
def test_no_text_can_move_a_field_or_a_line(names):
    lines = list(
        tables._parsable(Layout(COLUMNS[:2], parsable=True), [{"id": 1, "name": n} for n in names])
    )
    assert [line.count("|") for line in lines] == [1] * (len(names) + 1)
    for line, name in zip(lines[1:], names, strict=True):
        assert line.isprintable()
        assert _unescaped(line.partition("|")[2]) == name


def _unescaped(text):
    escape = r"\\(\\|n|r|t|x[0-9a-f]{2}|u[0-9a-f]{4}|U[0-9a-f]{8})"
    plain = {"\\": "\\", "n": "\n", "r": "\r", "t": "\t"}
    return re.sub(escape, lambda m: plain.get(m[1]) or chr(int(m[1][1:], 16)), text)


def test_rows_are_sorted_by_value_those_without_one_last():
    assert shown("-S", "-id", "-h", "-o", "id") == "10\n 2\n"
    assert shown("-S", "size", "-h", "-o", "id") == " 2\n10\n"
    assert shown("-S", "-size", "-h", "-o", "id") == " 2\n10\n"
    assert shown("-S", "name", "-h", "-o", "id") == "10\n 2\n"


def test_equal_rows_keep_their_order_under_the_second_key():
    rows = [{"id": i, "name": n, "size": 1} for i, n in ((1, "x"), (2, "y"), (3, "x"))]
    order = tables._choose_order(COLUMNS, "name,-id")
    assert [row["id"] for row in ordered(rows, order)] == [3, 1, 2]


class Tty(io.StringIO):
    encoding = "utf-8"

    def isatty(self):
        return True


def on_terminal(monkeypatch, rows, columns=COLUMNS, width=30, **layout):
    terminal = Tty()
    monkeypatch.setattr(sys, "stdout", terminal)
    monkeypatch.setenv("COLUMNS", str(width))
    print_rows(Layout(columns, **layout), rows)
    return terminal.getvalue().splitlines()


LONG = [{"id": 1, "name": "x" * 60, "size": 7, "state": "RUNNING模" + "y" * 9}]


def test_a_terminal_is_never_overrun_and_the_longest_text_gives_way(monkeypatch):
    lines = on_terminal(monkeypatch, LONG, width=40)
    assert max(display_width(line) for line in lines) == 40
    cut_name, cut_state = "x" * 13 + "…", "RUNNING模yyyy…"
    assert lines[1] == f" 1  {cut_name}    7G  {cut_state}"


def test_a_very_narrow_terminal_gets_headings_that_can_be_read(monkeypatch):
    lines = on_terminal(monkeypatch, LONG, width=10)
    assert lines == ["ID  NAME      SIZE  STATE", " 1  xxxxxxx…    7G  RUNNING…"]


def test_a_pipe_gets_everything(capsys):
    print_rows(Layout(COLUMNS[:3]), LONG)
    out = capsys.readouterr().out.splitlines()
    assert out[1] == " 1  " + "x" * 60 + "    7G"


@pytest.mark.parametrize(
    ("environ", "is_terminal", "wanted"),
    [
        ({"TERM": "xterm"}, True, True),
        ({"TERM": "xterm"}, False, False),
        ({"TERM": "dumb"}, True, False),
        ({"TERM": "xterm", "NO_COLOR": "1"}, True, False),
        ({"TERM": "xterm", "NO_COLOR": ""}, True, True),
    ],
)
def test_when_there_are_colours(monkeypatch, environ, is_terminal, wanted):
    for name in ("TERM", "NO_COLOR"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(sys, "stdout", Tty() if is_terminal else io.StringIO())
    assert tables.wants_color() is wanted


def test_colours_can_be_asked_for_and_take_no_room(monkeypatch):
    monkeypatch.setenv("NO_COLOR", "1")
    forced = shown("--color", "-o", "id,state,name")
    assert forced == "ID  STATE    NAME\n 2  \x1b[31mFAILED \x1b[0m  b\n10  RUNNING  a|c\n"
    assert re.sub(r"\x1b\[\d+m", "", forced) == shown("-o", "id,state,name")
    assert "\x1b" not in shown("--color", "-P", "-o", "id,state")
    assert "\x1b" not in shown("--no-color", "-o", "state")


def ascii_stream(monkeypatch, **environ):
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    stream = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
    speak_locale(stream)
    monkeypatch.setattr(sys, "stdout", stream)
    return stream


def test_the_c_locale_gets_ascii_that_is_still_aligned(monkeypatch):
    stream = ascii_stream(monkeypatch, LC_ALL="C")
    rows = [{"id": 1, "name": "模a"}, {"id": 2, "name": "→ x…"}]
    print_rows(Layout(COLUMNS[1::-1]), rows)
    stream.flush()
    assert stream.buffer.getvalue().decode("ascii") == ("NAME     ID\n\\u6a21a   1\n-> x...   2\n")


def test_a_utf8_locale_gets_what_there_is(monkeypatch):
    stream = ascii_stream(monkeypatch, LC_ALL="C.UTF-8")
    print_rows(Layout(COLUMNS[1:2], header=False), [{"name": "模→"}])
    stream.flush()
    assert stream.buffer.getvalue() == "模→\n".encode()


def test_json_stays_json_in_an_ascii_locale(monkeypatch):
    stream = ascii_stream(monkeypatch, LC_ALL="POSIX")
    document = {"names": [{"name": "ä模🚀\u202e"}]}
    emit_json(document)
    stream.flush()
    written = stream.buffer.getvalue().decode("ascii")
    assert json.loads(written) == document


def test_a_reader_that_leaves_is_no_error(environment):
    """`gsched queue | head` must not complain; the table is what is longest."""
    program = (
        "import sys; from gsched_cli.errors import guarded; from gsched_cli import tables as t;"
        "c = t.Column('a', 'A', lambda row: 'x' * 99);"
        "sys.exit(guarded(lambda: t.print_rows(t.Layout((c,)), range(9999)) or 0))"
    )
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(
        [sys.executable, "-c", program],
        stdout=writing,
        stderr=subprocess.PIPE,
        env=environment,
        check=False,
    )
    os.close(writing)
    assert (done.returncode, done.stderr) == (141, b"")
