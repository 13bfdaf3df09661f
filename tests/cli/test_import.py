"""`gsched db import` as a user runs it: words, exit codes, signals, kill -9, full disks."""

from __future__ import annotations

import inspect
import json
import resource
import shutil
import signal
import sqlite3
import subprocess
from pathlib import Path

import pytest
from support.json_shape import block
from support.servers import PostgresServer, started, url
from support.synthetic import write_philly
from support.terminal import Terminal

from gsched.testbed.wait import wait_for
from gsched_cli.commands.db.import_ import import_
from gsched_sql import History
from gsched_sql.canonical import canonical_dump
from gsched_sql.engine import reading

from .conftest import PROGRAM

ROWS = 45_000
IMPORT = ("db", "import", "--format", "philly")


@pytest.fixture(scope="module")
def trace(tmp_path_factory):
    """Rows for three chunks."""
    path = tmp_path_factory.mktemp("trace") / "trace.csv"
    write_philly(path, ROWS)
    return path


@pytest.fixture(scope="module")
def undisturbed(trace, sqlite_template, tmp_path_factory):
    """What the database holds when nothing has happened."""
    path = shutil.copy(sqlite_template, tmp_path_factory.mktemp("undisturbed") / "history.db")
    env = {"PATH": "/usr/bin:/bin", "GSCHED_DATABASE_URL": f"sqlite:///{path}"}
    subprocess.run([PROGRAM, *IMPORT, trace], env=env, check=True, capture_output=True)
    return dump(f"sqlite:///{path}")


@pytest.fixture
def database(sqlite_template, environment, tmp_path):
    """The SQLite file of this test."""
    state = tmp_path / "state"
    state.mkdir()
    return Path(shutil.copy(sqlite_template, state / "history.db"))


@pytest.fixture
def start(environment):
    """Start ``gsched ARGS``; killed at the end if it still runs."""
    processes = []

    def begin(*args, **options):
        pipe = subprocess.PIPE
        process = subprocess.Popen(
            [PROGRAM, *args], env=environment, text=True, stdout=pipe, stderr=pipe, **options
        )
        processes.append(process)
        return process

    yield begin
    for process in processes:
        process.kill()
        process.communicate()


def dump(database):
    with History.open(database) as history, reading(history._engine) as conn:
        return list(canonical_dump(conn))


def attempts(database):
    """Rows that are kept; readers do not wait for the writer."""
    with sqlite3.connect(f"file:{database}?mode=ro", uri=True) as conn:
        (found,) = conn.execute("SELECT count(*) FROM attempts").fetchone()
    conn.close()
    return found


def small(tmp_path, *rows, name="small.csv"):
    path = tmp_path / name
    lines = ["timestamp,duration,num_gpus,gpu_time,cluster", *rows, ""]
    path.write_text("\n".join(lines))
    return path


GOOD = ("2017-10-09 07:01:55,66.0,1,66.0,11cb48", "2017-10-09 07:01:55,10.0,4,40.0,6214e9")


def test_the_summary_counts_rows_and_gpu_time(gsched, database, tmp_path):
    done = gsched(*IMPORT, small(tmp_path, *GOOD))
    assert done.returncode == 0, done.stderr
    lines = [line.split() for line in done.stdout.splitlines()]
    assert lines[0][-2:] == ["GPU-SECONDS", "CPU-SECONDS"]
    assert lines[1][1:] == ["2", "0", "0", "2", "0", "0", "106", "-"]
    assert lines[-1] == ["COMPLETED", "2"]
    assert "UNCHANGED" in done.stdout


def test_the_json_document_has_the_documented_keys(gsched, database, tmp_path):
    done = gsched(*IMPORT, small(tmp_path, *GOOD, "not,a,row"), "--json")
    assert done.returncode == 65
    document = json.loads(done.stdout)
    assert block(document) in inspect.cleandoc(import_.help)
    (found,) = document["files"]
    assert found["rows"] == 3
    assert [reject["line"] for reject in found["rejects"]] == [4]
    assert document["total"].items() <= found.items()


def test_rejected_rows_make_the_exit_code_each_time(gsched, database, tmp_path):
    path = small(tmp_path, *GOOD, "not,a,row")
    for _ in range(2):
        done = gsched(*IMPORT, path)
        assert done.returncode == 65
        assert "small.csv, line 4: " in done.stderr
    assert gsched(*IMPORT, "--keep-going", path).returncode == 0
    assert "not,a,row" in gsched("db", "stats", "--rejects").stdout


def test_standard_input_is_read(gsched, database, tmp_path):
    for turn in ("new", "unchanged"):
        done = gsched(*IMPORT, "-", "--json", stdin=small(tmp_path, *GOOD).read_text())
        total = json.loads(done.stdout)["total"]
        assert (total["attempts_new"], total["unchanged"]) == ((2, 0) if turn == "new" else (0, 2))


def test_steps_are_kept_where_they_are_asked_for(gsched, database, tmp_path):
    rows = [
        "JobID|User|State|Submit|Start|End|NCPUS",
        "7|alice|COMPLETED|2026-01-01T00:00:00|2026-01-01T00:00:10|2026-01-01T00:01:10|4",
        "7.0||COMPLETED|2026-01-01T00:00:00|2026-01-01T00:00:10|2026-01-01T00:01:10|4",
    ]
    (tmp_path / "saved.txt").write_text("\n".join([*rows, ""]))
    for words, steps in (((), 0), (("--steps",), 1)):
        done = gsched("db", "import", "--format", "sacct", "--json", *words, "saved.txt")
        total = json.loads(done.stdout)["total"]
        assert (total["attempts"], total["skipped"], total["steps"]) == (1, 1, steps)
    assert json.loads(gsched("db", "stats", "--json").stdout)["rows"]["steps"] == 1


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        ((*IMPORT, "missing.csv"), 2, "missing.csv"),
        ((*IMPORT, "."), 2, "directory"),
        (("db", "import", "--format", "philli", "x"), 2, "philli"),
        (IMPORT, 2, "missing argument"),
        ((*IMPORT, "--timezone", "Mars", "small.csv"), 2, "Mars"),
        (("db", "import", "--format", "swf", "small.csv"), 65, "--format philly"),
    ],
)
def test_what_cannot_be_read_is_named(gsched, database, tmp_path, words, code, said):
    small(tmp_path, *GOOD)
    done = gsched(*words)
    assert done.returncode == code, done.stderr
    assert said in done.stderr
    assert attempts(database) == 0


def test_without_a_database_it_says_what_to_do_and_a_dry_run_works(gsched, tmp_path):
    path = small(tmp_path, *GOOD)
    done = gsched(*IMPORT, path)
    assert done.returncode == 78
    assert "gsched db init" in done.stderr
    done = gsched(*IMPORT, "--dry-run", path, "--json")
    assert done.returncode == 0
    assert json.loads(done.stdout)["total"]["gpu_time_s"] == 106
    assert not (tmp_path / "state").exists()


def ended_by(number, start, database, trace):
    """Send a signal to an import that has kept something; how many rows it says are kept."""
    process = start(*IMPORT, str(trace))
    wait_for(lambda: attempts(database) > 0, "the first chunk")
    process.send_signal(number)
    stdout, stderr = process.communicate()
    assert process.returncode == 130
    assert (stdout, stderr.count("\n")) == ("", 1)
    kept = attempts(database)
    assert f"{kept:,} rows of {trace} are kept; the same command goes on from there" in stderr
    return kept


def test_ctrl_c_ends_it_with_one_line(start, database, trace):
    assert ended_by(signal.SIGINT, start, database, trace)


def test_a_signal_ends_it_likewise_and_the_same_command_goes_on(
    start, gsched, database, trace, undisturbed
):
    kept = ended_by(signal.SIGTERM, start, database, trace)
    total = json.loads(gsched(*IMPORT, trace, "--json").stdout)["total"]
    assert (total["earlier"], total["attempts_new"]) == (kept, ROWS - kept)
    assert dump(f"sqlite:///{database}") == undisturbed


def test_killed_at_any_moment_it_goes_on(start, gsched, database, trace, undisturbed):
    for least in (0, 20_001):
        process = start(*IMPORT, str(trace))
        wait_for(
            lambda p=process, n=least: attempts(database) >= n or p.poll() is not None,
            "some rows",
        )
        process.kill()
        assert process.wait() == -signal.SIGKILL
    total = json.loads(gsched(*IMPORT, trace, "--json").stdout)["total"]
    assert total["earlier"] + total["attempts_new"] == ROWS
    assert total["earlier"] >= 40_000
    assert dump(f"sqlite:///{database}") == undisturbed


def test_two_imports_at_once_both_finish(start, database, trace, undisturbed):
    processes = [start(*IMPORT, str(trace), "--json") for _ in range(2)]
    documents = [json.loads(process.communicate()[0]) for process in processes]
    assert [process.returncode for process in processes] == [0, 0]
    assert sum(document["total"]["attempts_new"] for document in documents) == ROWS
    assert dump(f"sqlite:///{database}") == undisturbed


def test_a_full_disk_loses_nothing(start, gsched, database, trace, undisturbed):
    def little_room():
        resource.setrlimit(resource.RLIMIT_FSIZE, (6 << 20, 6 << 20))

    process = start(*IMPORT, str(trace), preexec_fn=little_room)
    _, stderr = process.communicate()
    assert process.returncode == 69
    assert "the same command goes on" in stderr
    assert "Traceback" not in stderr
    assert 0 <= attempts(database) < ROWS
    assert gsched(*IMPORT, trace).returncode == 0
    assert dump(f"sqlite:///{database}") == undisturbed


def test_a_server_that_dies_is_told_and_nothing_is_lost(
    start, gsched, environment, trace, undisturbed
):
    with started(PostgresServer) as server:
        where = url(server, server.create_database(with_tables=True))
        environment["GSCHED_DATABASE_URL"] = where
        name = where.rpartition("/")[2]

        def kept():
            return server.execute("SELECT count(*) FROM attempts", database=name)[0][0]

        process = start(*IMPORT, str(trace))
        wait_for(lambda: kept() > 0, "the first chunk")
        server.kill()
        _, stderr = process.communicate()
        assert process.returncode == 69, stderr
        assert server.password not in stderr
        assert "the same command goes on from there" in stderr
        server.start()
        before = kept()
        total = json.loads(gsched(*IMPORT, trace, "--json").stdout)["total"]
        assert total["earlier"] + total["attempts_new"] == ROWS
        assert total["earlier"] == before > 0
        assert dump(where) == undisturbed


def test_progress_is_shown_at_a_terminal_alone(environment, database, trace, gsched, tmp_path):
    with Terminal([str(PROGRAM), *IMPORT, str(trace)], environment, columns=120) as terminal:
        terminal.wait(lambda t: "rows/s" in t.text and "%" in t.text, "a pace and a share")
        assert terminal.end() == 0
    assert "rows/s" not in terminal.text
    assert gsched(*IMPORT, small(tmp_path, *GOOD)).stderr.count("rows/s") == 0
