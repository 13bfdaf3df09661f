"""`gsched trace synth` as a user runs it."""

from __future__ import annotations

import inspect
import json
import shutil
from pathlib import Path

import pytest
from support.history import attempt, batch, url_of
from support.json_shape import block

from gsched.model.job import JobState
from gsched.synth.shipped import SHIPPED, shipped
from gsched_cli.commands.trace import synth
from gsched_sql import History

WEEK = ("trace", "synth", "--like", "philly", "--days", "2")


def rows(text: str) -> list[list[str]]:
    head, _names, *lines = text.splitlines()
    assert head == "# gsched attempts 1"
    return [line.split(",") for line in lines]


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    """Saved accounting of a small site: two users who run the same scripts on weekdays."""
    lines = ["JobID|User|Account|Partition|JobName|State|Submit|Start|End|Timelimit|AllocTRES"]
    for number in range(400):
        day, at = divmod(number, 20)
        hour, minute = f"2025-01-{6 + day:02}T{9 + at // 3:02}", at % 3 * 17
        begin = f"{hour}:{minute:02}:00"
        end = f"{hour}:{minute + 5 + number % 9:02}:{number % 60:02}"
        lines.append(
            f"{number + 1}|user{number % 2}|lab|gpu|train_{number}|COMPLETED|{begin}|{begin}|{end}"
            f"|01:00:00|billing=8,cpu=8,gres/gpu={1 + number % 2 * 3}"
        )
    path = tmp_path / "site.txt"
    path.write_text("\n".join([*lines, ""]))
    return path


def test_a_newcomer_draws_without_a_download(gsched, tmp_path):
    done = gsched(*WEEK, "--seed", "1", "-o", "two-days.csv.gz")
    assert done.returncode == 0, done.stderr
    assert "duration_p50_s" in done.stdout
    assert (
        "source: arrivals, sizes, run times and virtual clusters: Microsoft Philly" in done.stderr
    )
    again = gsched("trace", "convert", "-f", "gsched", "two-days.csv.gz", "-o", "-")
    drawn = rows(again.stdout)
    assert len(drawn) == round(2 * shipped("philly").arrivals.jobs_a_day)
    assert {row[0] for row in drawn} == {"synth-philly-1"}
    first = (tmp_path / "two-days.csv.gz").read_bytes()
    assert gsched(*WEEK, "--seed", "1", "-o", "two-days.csv.gz").returncode == 2  # it exists
    assert gsched(*WEEK, "--seed", "1", "-o", "two-days.csv.gz", "--force").returncode == 0
    assert (tmp_path / "two-days.csv.gz").read_bytes() == first
    assert gsched(*WEEK, "--seed", "2", "-o", "two-days.csv.gz", "--force").returncode == 0
    assert (tmp_path / "two-days.csv.gz").read_bytes() != first


@pytest.mark.parametrize("name", SHIPPED)
def test_every_shipped_fit_can_be_drawn_onto_standard_output(gsched, name):
    done = gsched(
        "trace", "synth", "--like", name, "--jobs", "40", "--start", "2025-01-06", "-o", "-"
    )
    assert done.returncode == 0, done.stderr
    assert len(rows(done.stdout)) == 40
    assert min(int(row[4]) for row in rows(done.stdout)) >= 1_736_035_200


def test_a_sites_own_accounting_is_fitted_and_the_fit_can_be_handed_on(gsched, saved):
    done = gsched(
        *("trace", "synth", "-f", "sacct", saved, "--save-fit", "site.json", "-o", "like.csv"),
    )
    assert done.returncode == 0, done.stderr
    assert "DISTANCE" in done.stdout
    fit = json.loads((saved.parent / "site.json").read_text())
    assert "train" not in json.dumps(fit)
    from_files = (saved.parent / "like.csv").read_text()
    done = gsched("trace", "synth", "--fit", "site.json", "--cluster", "synth-sacct-0", "-o", "-")
    assert done.stdout == from_files
    drawn = rows(from_files)
    assert len(drawn) == pytest.approx(400, abs=2)
    assert {row[20 - 1] for row in drawn} == {"1", "4"}
    assert {row[10] for row in drawn} == {"gpu"}


def test_the_own_history_is_fitted(gsched, sqlite_template, tmp_path):
    state = tmp_path / "state"
    state.mkdir()
    database = Path(shutil.copy(sqlite_template, state / "history.db"))
    records = [
        attempt(
            number,
            1_000_000 + 600 * number,
            start_time=1_000_000 + 600 * number,
            end_time=1_000_100 + 600 * number + number % 7,
            num_gpus=2,
            state=JobState.COMPLETED,
        )
        for number in range(1, 200)
    ]
    with History.open(url_of(database)) as history:
        history.ingest(batch(*records), source_key=None)
    done = gsched("trace", "synth", "--from-history", "--jobs", "30", "-o", "-")
    assert done.returncode == 0, done.stderr
    drawn = rows(done.stdout)
    assert len(drawn) == 30
    assert all(100 <= int(row[15]) - int(row[14]) <= 107 for row in drawn)


def test_json_has_the_keys_that_the_help_promises(gsched, saved):
    done = gsched("trace", "synth", "-f", "sacct", saved, "-o", "a.csv", "--json")
    document = json.loads(done.stdout)
    assert block(document) in inspect.cleandoc(synth.help)
    assert {frozenset(pair) for pair in document["facts"].values()} == {
        frozenset({"source", "drawn"})
    }
    assert all(0 <= value <= 1 for value in document["distances"].values())
    assert document["jobs"] == pytest.approx(400, abs=2)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--like", "philly"), "name what to write"),
        (("-o", "a.csv"), "name one source"),
        (("--like", "philly", "--from-history", "-o", "a.csv"), "name one source"),
        (("--like", "philly", "-o", "a.csv", "some.csv"), "name one source"),
        (("--like", "philly", "-o", "-", "--json"), "both print on standard output"),
        (("--like", "philly", "--days", "0", "-o", "a.csv"), "--days"),
        (("--like", "philly", "--jobs", "0", "-o", "a.csv"), "--jobs"),
        (("--like", "philly", "--days", "1e9", "-o", "a.csv"), "days like philly would have"),
        (("--like", "philly", "--start", "someday", "-o", "a.csv"), "someday"),
        (("--like", "philly", "-o", "a.txt"), "what shall be written into"),
        (("--like", "helios", "-o", "a.csv"), "philly"),
    ],
)
def test_what_is_asked_wrongly_is_said_and_writes_nothing(gsched, tmp_path, words, message):
    done = gsched("trace", "synth", *words)
    assert done.returncode == 2
    assert message in done.stderr
    assert not list(tmp_path.glob("a.*"))


@pytest.mark.parametrize("content", ["", "{}", '{"version": 1, "name": []}', "\udcff" * 3])
def test_a_file_that_is_no_fit_is_refused(gsched, tmp_path, content):
    (tmp_path / "fit.json").write_bytes(content.encode("utf-8", "surrogateescape"))
    done = gsched("trace", "synth", "--fit", "fit.json", "-o", "a.csv")
    assert done.returncode == 65
    assert "fit.json is no fit" in done.stderr
    assert not (tmp_path / "a.csv").exists()


def test_a_trace_without_jobs_that_ran_is_refused(gsched, saved):
    saved.write_text("\n".join(saved.read_text().splitlines()[:1]) + "\n")
    done = gsched("trace", "synth", "-f", "sacct", saved, "-o", "a.csv")
    assert done.returncode == 65
    assert "fewer than two jobs ran" in done.stderr
