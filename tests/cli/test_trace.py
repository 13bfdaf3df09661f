"""`gsched trace convert` as a user runs it."""

from __future__ import annotations

import inspect
import json
import os
import shutil
import signal
import subprocess
from pathlib import Path

import pytest
from support.history import attempt, batch, running, url_of
from support.json_shape import block
from support.shared import SHARED, needs_shared

from gsched.testbed.wait import wait_for
from gsched_cli.commands.trace import convert
from gsched_sql import History
from gsched_sql.canonical import canonical_dump
from gsched_sql.engine import reading

from .conftest import PROGRAM

SWF = """\
; UnixStartTime: 1000000
; Computer: toy
1 10 5 100 8 -1 -1 8 600 -1 1 1 1 1 1 1 -1 -1
2 20 5 200 8 -1 -1 8 600 -1 0 2 1 1 1 1 -1 -1
"""
BAD = "3 x 5 200 8 -1 -1 8 600 -1 0 2 1 1 1 1 -1 -1\n"
MAP = '[fields]\njob_id = "id"\nsubmit_time = "sub"\n'


@pytest.fixture
def log(tmp_path):
    path = tmp_path / "toy.swf"
    path.write_text(SWF)
    return path


@pytest.fixture
def database(sqlite_template, tmp_path):
    state = tmp_path / "state"
    state.mkdir()
    return Path(shutil.copy(sqlite_template, state / "history.db"))


def dump(url):
    with History.open(url) as history, reading(history._engine) as conn:
        return list(canonical_dump(conn))


def test_a_log_becomes_a_file_that_can_be_imported(
    gsched, log, tmp_path, database, sqlite_template
):
    done = gsched("trace", "convert", "--format", "swf", log, "-o", "out.parquet")
    assert done.returncode == 0, done.stderr
    assert "CPU-SECONDS" in done.stdout
    assert "2,400" in done.stdout
    assert "header: UnixStartTime: 1000000; Computer: toy" in done.stderr
    assert gsched("db", "import", "-f", "gsched", "out.parquet").returncode == 0
    from_parquet = dump(url_of(database))
    shutil.copy(sqlite_template, database)
    assert gsched("db", "import", "-f", "swf", log).returncode == 0
    assert dump(url_of(database)) == from_parquet


def test_csv_on_standard_output_and_standard_input(gsched, environment):
    done = gsched("trace", "convert", "-f", "swf", "-", "-o", "-", stdin=SWF)
    assert done.returncode == 0
    head, names, *rows = done.stdout.splitlines()
    assert head == "# gsched attempts 1"
    assert names.startswith("cluster,job_id,")
    assert [row.split(",")[:2] for row in rows] == [["swf", "1"], ["swf", "2"]]
    again = gsched("trace", "convert", "-f", "gsched", "-", "-o", "-", stdin=done.stdout)
    assert again.stdout == done.stdout


def test_json_has_the_keys_that_the_help_promises(gsched, log):
    done = gsched("trace", "convert", "-f", "swf", log, "-o", "a.csv.zst", "--json")
    document = json.loads(done.stdout)
    assert block(document) in inspect.cleandoc(convert.help)
    assert (document["format"], document["output"]) == ("swf", "a.csv.zst")
    assert document["total"]["states"] == {"COMPLETED": 1, "FAILED": 1}
    assert document["files"][0]["clusters"] == ["swf-toy"]


def test_rejects_are_told_and_make_the_exit_code_65(gsched, log, tmp_path):
    log.write_text(SWF + BAD)
    done = gsched("trace", "convert", "-f", "swf", log, "-o", "a.csv")
    assert done.returncode == 65
    assert f"{log}, line 5: submit_time: not a number: 'x'" in done.stderr
    assert len((tmp_path / "a.csv").read_text().splitlines()) == 4
    done = gsched("trace", "convert", "-f", "swf", log, "-o", "a.csv", "--force", "--keep-going")
    assert done.returncode == 0
    assert "line 5" in done.stderr


def test_nothing_is_written_over_or_half(gsched, log, tmp_path):
    out = tmp_path / "a.csv"
    out.write_text("mine")
    done = gsched("trace", "convert", "-f", "swf", log, "-o", "a.csv")
    assert (done.returncode, out.read_text()) == (2, "mine")
    assert "a.csv exists" in done.stderr
    cut = tmp_path / "cut.gz"
    cut.write_bytes(gzipped(SWF * 2000)[:-20])
    done = gsched("trace", "convert", "-f", "swf", cut, "-o", "a.csv", "--force")
    assert (done.returncode, out.read_text()) == (65, "mine")
    assert "the gzip data are cut off, after" in done.stderr
    assert sorted(path.name for path in tmp_path.glob("*a.csv*")) == ["a.csv"]


def gzipped(text):
    import gzip

    return gzip.compress(text.encode())


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["-o", "a.csv"], 2, "name files and their --format, or --from-history"),
        (["-f", "swf", "-o", "a.csv"], 2, "name files and their --format, or --from-history"),
        (["-f", "swf", "LOG", "-o", "a.txt"], 2, "what shall be written into a.txt?"),
        (["-f", "swf", "LOG", "-o", "-", "--json"], 2, "both print on standard output"),
        (["-f", "swf", "LOG", "--from-history", "-o", "a.csv"], 2, "takes neither"),
        (["-f", "swf", "-", "-", "-o", "a.csv"], 2, "can be read once only"),
        (["-f", "swf", "none.swf", "-o", "a.csv"], 2, "cannot read none.swf: No such file"),
        (["-f", "csv", "LOG", "-o", "a.csv"], 2, "format csv needs --columns MAP.toml"),
        (["-f", "swf", "LOG", "-o", "a.csv", "--columns", "LOG"], 2, "--columns is for format csv"),
        (["-f", "swf", "LOG", "-o", "a.csv", "--timezone", "Mars"], 2, "no such time zone: 'Mars'"),
        (["-f", "csv", "LOG", "-o", "a.csv", "--columns", "LOG"], 65, "not TOML"),
        (["-f", "philly", "LOG", "-o", "a.csv"], 65, "no column"),
        (["-f", "swf", "LOG", "-o", "no/a.csv"], 69, "cannot write no/a.csv"),
        (["-f", "nope", "LOG", "-o", "a.csv"], 2, "'nope' is not one of"),
    ],
)
def test_mistakes(gsched, log, tmp_path, words, code, message):
    done = gsched("trace", "convert", *(log if word == "LOG" else word for word in words))
    assert (done.returncode, done.stdout) == (code, "")
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "a.csv").exists()


def test_a_map_of_columns(gsched, tmp_path):
    (tmp_path / "m.toml").write_text(MAP)
    data = "id,sub\n7,2026-01-02 03:04:05\n"
    words = ("-f", "csv", "--columns", "m.toml", "--timezone", "Europe/Berlin", "--cluster", "x")
    done = gsched("trace", "convert", *words, "-", "-o", "-", stdin=data)
    assert done.stdout.splitlines()[2].startswith("x,7,,,1767319445,UNKNOWN,")
    (tmp_path / "m.toml").write_text(f"{MAP}gpus = 'g'\n")
    done = gsched("trace", "convert", *words, "-", "-o", "-", stdin=data)
    assert (done.returncode, done.stdout) == (65, "")
    assert "m.toml: unknown key fields.gpus" in done.stderr
    assert "hint: known here: job_id, state" in done.stderr


def test_an_export_imported_elsewhere_is_the_same_history(
    gsched, database, tmp_path, sqlite_template
):
    with History.open(url_of(database)) as history:
        history.ingest(batch(running(name="from squeue")), source_key=None)
        history.ingest(batch(attempt(name=None), attempt(name=None, num_cpus=9)), source_key=None)
        history.ingest(batch(attempt(8, cluster="beta", user="a\nb")), source_key=None)
    before = dump(url_of(database))
    num_attempts = sum('"kind": "attempt"' in line for line in before)
    done = gsched("trace", "convert", "--from-history", "-o", "h.csv.gz", "--json")
    document = json.loads(done.stdout)
    assert document["format"] == "history"
    # of two attempts one is told in two ways: that is no third attempt, and no time ran twice
    assert document["total"]["attempts"] == num_attempts
    other = {"GSCHED_DATABASE_URL": f"sqlite:///{tmp_path / 'other.db'}"}
    shutil.copy(sqlite_template, tmp_path / "other.db")
    assert gsched("db", "import", "-f", "gsched", "h.csv.gz", environ=other).returncode == 0
    assert dump(other["GSCHED_DATABASE_URL"]) == before
    done = gsched("trace", "convert", "--from-history", "--cluster", "beta", "-o", "-")
    assert done.returncode == 0, done.stderr
    assert [row.split(",")[0] for row in done.stdout.splitlines()[2:]] == ["beta"]
    done = gsched("trace", "convert", "--from-history", "--cluster", "nope", "-o", "x.csv")
    assert done.returncode == 65
    assert "hint: it has alpha, beta" in done.stderr


def test_an_interrupted_conversion_leaves_nothing(environment, tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    process = subprocess.Popen(
        [PROGRAM, "trace", "convert", "-f", "swf", "pipe", "-o", "a.csv"],
        env=environment,
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with pipe.open("w") as rest:  # more than the reader has, and no end of it
        rest.write(SWF * 2000)
        rest.flush()
        wait_for(lambda: list(tmp_path.glob(".a.csv*")), "the output to be begun")
        process.send_signal(signal.SIGINT)
        stdout, stderr = process.communicate()
    assert process.returncode == 130
    assert stdout == ""
    assert "interrupted: a.csv is not written" in stderr
    assert list(tmp_path.glob("*a.csv*")) == []


@needs_shared
def test_a_public_log_goes_through(gsched, tmp_path):
    path = SHARED / "traces" / "named" / "kth-sp2-1996" / "KTH-SP2.swf.gz"
    done = gsched("trace", "convert", "-f", "swf", path, "-o", "kth.parquet", "--json")
    assert json.loads(done.stdout)["total"]["cpu_time_s"] == 2_024_618_666
