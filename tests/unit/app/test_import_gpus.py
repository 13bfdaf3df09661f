"""Whether a cluster's accounting tells GPUs is decided for all files of an import together."""

from __future__ import annotations

import json
import os
import shutil

import pytest

from gsched.app.convert_trace import convert_files
from gsched.app.import_files import ImportOrder, import_files
from gsched.app.trace_formats import TraceOptions
from gsched.errors import UsageError
from gsched_sql import History
from gsched_sql.canonical import canonical_dump
from gsched_sql.engine import reading

HEADER = "JobID|State|Submit|Start|End|AllocTRES|NodeList"
ROWS = [
    f"{number}|COMPLETED|{1000 * number}|{1000 * number + 9}|{1000 * number + 99}|{tres}|n1"
    for number, tres in ((1, "cpu=4"), (2, "cpu=1,gres/gpu=2"), (3, "cpu=8"))
]


def text(rows):
    return "\n".join([HEADER, *rows, ""])


def document(rows):
    jobs = []
    for row in rows:
        number, _, submit, start, end, tres, nodes = row.split("|")
        listed = [item.partition("=") for item in tres.split(",")]
        allocated = [
            {"type": name.partition("/")[0], "name": name.partition("/")[2], "count": int(count)}
            for name, _, count in listed
        ]
        times = {"submission": int(submit), "start": int(start), "end": int(end)}
        jobs.append(
            {"job_id": int(number), "state": {"current": ["COMPLETED"]}, "nodes": nodes}
            | {"time": times, "tres": {"allocated": allocated}}
        )
    return json.dumps({"jobs": jobs})


FORMS = {"sacct": text, "sacct-json": document}


@pytest.fixture
def dumps(sqlite_template, tmp_path):
    """What a new database holds after some imports."""
    path = tmp_path / "history.db"

    def after(*orders):
        shutil.copy(sqlite_template, path)
        with History.open(f"sqlite:///{path}") as history:
            for order in orders:
                import_files(order, history)
            with reading(history._engine) as conn:
                return list(canonical_dump(conn))

    return after


@pytest.fixture
def put(tmp_path):
    """Files of a form: all rows in one, and a row in each."""

    def write(form):
        files = []
        for name, rows in (("all", ROWS), *((f"part{n}", [row]) for n, row in enumerate(ROWS))):
            files.append(tmp_path / name)
            files[-1].write_text(FORMS[form](rows))
        return list(map(str, files))

    return write


@pytest.mark.parametrize("form", FORMS)
def test_split_or_whole_the_history_is_the_same(dumps, put, form):
    whole, *parts = put(form)
    expected = dumps(ImportOrder((whole,), TraceOptions(form)))
    assert '"num_gpus": 0' in "".join(expected)
    assert dumps(ImportOrder(tuple(parts), TraceOptions(form))) == expected
    told = TraceOptions(form, gpus="counted")
    assert dumps(*(ImportOrder((part,), told) for part in reversed(parts))) == expected
    apart = TraceOptions(form)
    assert dumps(*(ImportOrder((part,), apart) for part in parts)) != expected


@pytest.mark.parametrize("form", FORMS)
def test_a_conversion_decides_it_likewise(put, form, tmp_path):
    whole, *parts = put(form)
    written = []
    for name, files in (("a.csv", [whole]), ("b.csv", parts)):
        output = tmp_path / name
        convert_files(files, TraceOptions(form), str(output), force=False, told=lambda *_: None)
        written.append(output.read_text())
    assert written[0] == written[1]


def test_a_pipe_beside_other_files_cannot_be_looked_at_first(put, tmp_path):
    _, first, second, _ = put("sacct")
    pipe = str(tmp_path / "pipe")
    os.mkfifo(pipe)
    options = TraceOptions("sacct")
    with pytest.raises(UsageError, match="can be read only once") as error:
        options.counts_gpus([first, pipe])
    assert "--gpus counted" in error.value.hint
    assert options.counts_gpus([second, pipe]) is True
    assert options.counts_gpus([pipe]) is None  # its reader looks
    assert TraceOptions("sacct", gpus="uncounted").counts_gpus([first, pipe]) is False
    with pytest.raises(UsageError, match="--gpus is for formats sacct, sacct-json"):
        TraceOptions("swf", gpus="counted")
