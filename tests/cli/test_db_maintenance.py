"""`gsched db upgrade|backup|restore|check|prune|stats` as an administrator and cron meet them."""

from __future__ import annotations

import inspect
import json
import os
import pty
import shutil
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
from support.history import url_of
from support.json_shape import block
from support.whole_history import fill

from gsched.testbed.wait import wait_for
from gsched_cli.main import cli
from gsched_cli.output import local_time
from gsched_sql.schema import REVISION


@pytest.fixture(scope="module")
def filled(tmp_path_factory, sqlite_template):
    """A history with rows in every table, to copy."""
    path = shutil.copy(sqlite_template, tmp_path_factory.mktemp("filled") / "history.db")
    fill(path)
    return path


@pytest.fixture
def database(filled, environment):
    """The history of this test's own gsched."""
    state = Path(environment["GSCHED_STATE_DIR"])
    state.mkdir()
    return shutil.copy(filled, state / "history.db")


def lines(answer):
    return answer.stderr.splitlines()


def test_a_backup_moves_a_history_and_every_step_says_what_it_did(gsched, database, tmp_path):
    made = gsched("db", "backup", "b.gsb")
    assert (made.returncode, made.stdout) == (0, "")
    assert lines(made) == [
        f"gsched: backed up {rows(made)} rows of {database} (schema {REVISION}) to b.gsb, "
        f"{size(tmp_path / 'b.gsb')}"
    ]
    again = gsched("db", "backup", "b.gsb")
    assert again.returncode == 2
    assert lines(again) == [
        "gsched: error: b.gsb exists",
        "hint: choose another name, or --force to replace it",
    ]
    assert gsched("db", "backup", "--force", "b.gsb").returncode == 0
    elsewhere = {"GSCHED_DATABASE_URL": url_of(tmp_path / "other.db")}
    done = gsched("db", "restore", "b.gsb", environ=elsewhere)
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr.startswith(f"gsched: restored and verified {rows(made)} rows of ")
    full = gsched("db", "restore", "b.gsb", environ=elsewhere)
    assert full.returncode == 78
    assert "is not empty" in full.stderr
    assert gsched("db", "check", environ=elsewhere).returncode == 0


def rows(answer):
    return answer.stderr.split(" rows ")[0].split()[-1]


def size(path):
    from gsched_cli.output import memory

    return memory(path.stat().st_size)


def test_a_cut_off_backup_is_one_clear_line(gsched, database, tmp_path):
    gsched("db", "backup", "b.gsb")
    cut = tmp_path / "cut.gsb"
    cut.write_bytes((tmp_path / "b.gsb").read_bytes()[:3000])
    environ = {"GSCHED_DATABASE_URL": url_of(tmp_path / "n.db")}
    answer = gsched("db", "restore", "cut.gsb", environ=environ)
    assert answer.returncode == 65
    error, hint = lines(answer)
    assert error.startswith("gsched: error: cut.gsb is no backup")
    assert hint == "hint: it is damaged or cut off: use another backup"
    assert gsched("db", "restore", "no.gsb").returncode == 2


def test_a_sound_database_and_a_damaged_one(gsched, database):
    sound = gsched("db", "check")
    assert sound.returncode == 0
    assert "is sound" in lines(sound)[-1]
    assert "note" in sound.stdout
    conn = sqlite3.connect(database)
    conn.execute("UPDATE jobs SET gpu_time_s = 1 WHERE job_id = 100")
    conn.commit()
    conn.close()
    bad = gsched("db", "check")
    assert bad.returncode == 65
    assert "DAMAGE" in bad.stdout
    assert "gsched: job: cluster 1 job 100 of epoch 11000: gpu_time_s" in lines(bad)
    assert "is DAMAGED" in lines(bad)[-1]
    document = json.loads(gsched("db", "check", "--json").stdout)
    assert document["is_damaged"]
    assert [f["kind"] for f in document["findings"] if f["is_error"]] == ["job"]


def test_pruning_shows_first_and_does_when_told(gsched, database):
    shown = gsched("db", "prune", "--before", "1970-01-01T03:20:00Z")
    assert shown.returncode == 0
    assert shown.stdout.splitlines()[1].split()[:3] == ["alpha", "10", "11"]
    assert "nothing is yet" in shown.stderr
    assert json.loads(gsched("db", "stats", "--json").stdout)["rows"]["jobs"] == 32
    done = gsched("db", "prune", "--before", "1970-01-01T03:20:00Z", "--yes")
    assert done.returncode == 0
    assert "deleted: jobs 10, attempts 11, " in done.stderr
    assert "given back" in lines(done)[-1]
    told = json.loads(gsched("db", "stats", "--json").stdout)
    assert told["rows"]["jobs"] == 22
    assert told["prune_marks"] == {"alpha": 12_000}
    assert f"what ended before {local_time(12_000)}" in gsched("db", "stats").stdout


def test_what_cannot_be_pruned_is_said(gsched, database):
    for words, says in (
        ((), "say how old"),
        (("--older-than", "9d", "--before", "2020-01-01"), "say how old"),
        (("--older-than", "soon"), "not an age: soon"),
        (("--older-than", "9d"), "the predictor learns from the last 180 days"),
        (("--before", "now+1day", "--force"), "still to come"),
    ):
        answer = gsched("db", "prune", *words, "--yes")
        assert answer.returncode == 2
        assert says in lines(answer)[0]
        assert len(lines(answer)) == 2
    assert json.loads(gsched("db", "stats", "--json").stdout)["rows"]["jobs"] == 32


def test_an_age_may_be_of_years(gsched, database):
    two = json.loads(gsched("db", "prune", "--older-than", "2y", "--json").stdout)
    same = json.loads(gsched("db", "prune", "--older-than", "730d", "--json").stdout)
    assert 0 <= same["before"] - two["before"] < 60
    assert len(two["clusters"]) == 1


def test_force_prunes_what_the_predictor_still_learns_from(gsched, database):
    answer = gsched("db", "prune", "--older-than", "1d", "--force", "--json")
    assert json.loads(answer.stdout)["clusters"][0]["jobs"] == 31


def test_an_upgrade_backs_up_first_and_follows_the_rules(gsched, environment, database, tmp_path):
    config = tmp_path / "gsched.toml"
    config.write_text('[[phases.rules]]\nphase = "debug"\nname = "run-10[0-4]"\n')
    environ = {"GSCHED_CONFIG": str(config)}
    assert "derived" in gsched("db", "check", environ=environ).stdout
    done = gsched("db", "upgrade", "--backup", "before.gsb", environ=environ)
    assert done.returncode == 0
    assert lines(done)[0].endswith("rows to before.gsb")
    assert lines(done)[1:] == [
        f"gsched: {database} is up to date (schema {REVISION})",
        "gsched: derived phase again: 5 rows have changed",
    ]
    assert "jobs of phase debug" in gsched("db", "stats").stdout
    nowhere = gsched("db", "upgrade", environ={"GSCHED_DATABASE_URL": url_of(tmp_path / "n.db")})
    assert nowhere.returncode == 78
    assert not (tmp_path / "n.db").exists()


def test_rejects_come_by_page_and_source(gsched, database):
    every = json.loads(gsched("db", "stats", "--rejects", "--json").stdout)
    assert [(r["source"], r["line"], r["reason"]) for r in every] == [("x", 3, "why")]
    shown = gsched("db", "stats", "--rejects")
    assert "\x00" not in shown.stdout
    assert json.loads(gsched("db", "stats", "--rejects", "--source", "y", "--json").stdout) == []
    assert json.loads(gsched("db", "stats", "--rejects", "--page", "2", "--json").stdout) == []


COMMANDS = (
    ("stats",),
    ("check",),
    ("backup", "json.gsb"),
    ("prune", "--older-than", "20000d"),
    ("upgrade",),
)


@pytest.mark.parametrize("words", COMMANDS, ids=lambda words: words[0])
def test_the_documented_keys_are_the_keys(gsched, database, words):
    document = json.loads(gsched("db", *words, "--json").stdout)
    command = cli.get_command(None, "db").get_command(None, words[0])
    assert block(document) in inspect.cleandoc(command.help)


def test_the_documented_keys_of_a_restore(gsched, database, tmp_path):
    gsched("db", "backup", "b.gsb")
    environ = {"GSCHED_DATABASE_URL": url_of(tmp_path / "n.db")}
    answer = gsched("db", "restore", "b.gsb", "--json", environ=environ)
    command = cli.get_command(None, "db").get_command(None, "restore")
    assert block(json.loads(answer.stdout)) in inspect.cleandoc(command.help)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_backup_broken_off_leaves_nothing(gsched, environment, database, tmp_path, number):
    """The last block of the file is kept from being written: nobody reads the pipe's other end."""
    target = tmp_path / "out" / "b.gsb"
    target.parent.mkdir()
    program = subprocess.Popen(
        [sys.executable, "-c", BLOCKED, str(target)],
        env=environment | {"PATH": os.environ["PATH"], "URL": url_of(database)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    wait_for(lambda: list(target.parent.iterdir()), "the backup to begin")
    assert program.stdout.readline() == "begun\n"
    program.send_signal(number)
    _, words = program.communicate()
    assert program.returncode == 130, words
    assert "Traceback" not in words
    assert list(target.parent.iterdir()) == []


BLOCKED = """
import os, signal, sys
from pathlib import Path
from gsched_cli.errors import guarded
from gsched_cli.long_work import long_work
from gsched_sql import maintenance

def wait(what, rows):
    print("begun", flush=True)
    signal.pause()

def body():
    with long_work():
        maintenance.backup(os.environ["URL"], Path(sys.argv[1]), on_progress=wait)
    return 0

sys.exit(guarded(body))
"""


def test_somebody_at_a_terminal_sees_how_far_it_is(environment, database, tmp_path):
    own, other = pty.openpty()
    program = Path(os.sys.executable).with_name("gsched")
    done = subprocess.run(
        [program, "db", "backup", tmp_path / "b.gsb"], env=environment, stderr=other, check=True
    )
    os.close(other)
    assert done.returncode == 0
    told = os.read(own, 65536).decode()
    os.close(own)
    assert "\r\x1b[K" in told
    assert "backed up" in told
