"""`gsched db` and `gsched history` as a user meets them."""

from __future__ import annotations

import json

import pytest
from support.history import attempt, batch

from gsched.model.history import Reject
from gsched.model.job import UNLIMITED_S, JobState
from gsched_sql import History


@pytest.fixture(scope="module")
def state_dir(tmp_path_factory):
    """A state folder whose history has three jobs and one rejected row."""
    folder = tmp_path_factory.mktemp("state")
    url = f"sqlite:///{folder / 'history.db'}"
    History.create(url)
    with History.open(url) as history:
        history.ingest(
            batch(
                attempt(1, 1000, name="two\nlines \x1b[31m"),
                attempt(2, 2000, user="bob", state=JobState.FAILED),
                attempt(3, 3000, array_task=4, num_gpus=None, allocated=()),
                rejects=[Reject("sacct", 1, "why", "raw")],
            ),
            source_key="s",
        )
    return folder


@pytest.fixture
def filled(gsched, environment, state_dir):
    environment["GSCHED_STATE_DIR"] = str(state_dir)
    return gsched


def test_init_says_what_it_did_and_is_content_the_second_time(gsched):
    first = gsched("db", "init")
    assert (first.returncode, first.stdout) == (0, "")
    assert first.stderr.startswith("gsched: made ")
    assert "is up to date (schema " in gsched("db", "init").stderr
    document = json.loads(gsched("db", "init", "--json").stdout)
    assert document["schema_before"] == document["schema"]


def test_without_a_database_every_command_says_how_to_make_one(gsched):
    for words in (["db", "stats"], ["db", "ingest"]):
        answer = gsched(*words)
        assert (answer.returncode, answer.stdout) == (78, ""), words
        assert answer.stderr.endswith("hint: run `gsched db init`\n")


def test_history_without_a_database_asks_slurm(gsched, stand_in):
    stand_in("scontrol").answers("ClusterName = alpha\nAccountingStorageType = (null)\n")
    stand_in("squeue").answers("")
    stand_in("sacct").answers(stderr="Slurm accounting storage is disabled\n", code=1)
    answer = gsched("history")
    assert (answer.returncode, answer.stdout) == (69, "")
    assert "no history database on this host, no slurmdbd on this cluster" in answer.stderr
    assert answer.stderr.endswith("`gsched db init` begins one\n")


def test_history_shows_hostile_names_harmlessly(filled):
    answer = filled("history")
    assert answer.returncode == 0
    lines = answer.stdout.splitlines()
    assert lines[0].split() == [
        "JOBID", "USER", "ACCOUNT", "PARTITION", "NAME", "STATE", "GPUS", "SUBMIT", "QUEUED",
        "RUN", "ATTEMPTS",
    ]  # fmt: skip
    assert [line.split()[0] for line in lines[1:]] == ["3_4", "2", "1"]
    assert "two\\nlines \\x1b[31m" in lines[3]


@pytest.mark.parametrize(
    ("words", "ids"),
    [
        (["-u", "bob,nobody"], ["2"]),
        (["-s", "f"], ["2"]),
        (["-s", "FAILED,CD"], ["3_4", "2", "1"]),
        (["-j", "3"], ["3_4"]),
        (["-j", "3_4"], ["3_4"]),
        (["-j", "3_5"], []),
        (["-E", "1970-01-01T00:40+00:00"], ["2", "1"]),
        (["-n", "train", "-A", "lab1", "-p", "gpu"], ["3_4", "2"]),
        (["--limit", "1"], ["3_4"]),
    ],
)
def test_history_can_be_narrowed(filled, words, ids):
    document = json.loads(filled("history", "--json", *words).stdout)
    assert [job["job"] for job in document["jobs"]] == ids
    assert document["more"] == ("--limit" in words)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["-s", "SLEEPING"], "no such state: 'SLEEPING'"),
        (["-S", "yesterweek"], "not a time: 'yesterweek'"),
        (["-j", "7_[1-3]"], "one job or one array task at a time"),
    ],
)
def test_a_wrong_option_is_a_usage_error(filled, words, told):
    answer = filled("history", *words)
    assert (answer.returncode, answer.stdout) == (2, "")
    assert told in answer.stderr


def test_stats_tell_over_what_a_sum_is(filled):
    lines = filled("db", "stats").stdout.splitlines()
    assert "GPU time" in (line := next(x for x in lines if x.startswith("GPU time")))
    assert line.split(None, 2)[2] == "0.1 GPU-hours over 2 of 3 finished jobs"
    document = json.loads(filled("db", "stats", "--json").stdout)
    assert (document["gpu_time_s"], document["gpu_time_jobs"]) == (400, 2)
    assert document["rows"]["rejects"] == 1


def test_a_rejected_row_makes_ingest_fail_once(gsched, stand_in, tmp_path):
    assert gsched("db", "init").returncode == 0
    stand_in("scontrol").answers("ClusterName = alpha\nJobCompType = jobcomp/none\n")
    file = tmp_path / "jobcomp.txt"
    file.write_text("one line that is no record\n")
    words = ["db", "ingest", "--source", "jobcomp", "--jobcomp", str(file)]
    answer = gsched(*words, "--json")
    assert answer.returncode == 65
    document = json.loads(answer.stdout)
    assert document["cluster"] == "alpha"
    assert document["sources"]["jobcomp"]["rejected"] == document["rejected_new"] == 1
    assert "rows not understood: 1; `gsched db stats --rejects` shows them" in answer.stderr
    again = gsched(*words, "--since", "1d")
    assert again.returncode == 0
    assert again.stdout.splitlines()[1].split() == ["jobcomp", "1", "0", "0", "0", "1", "0", "0"]
    with file.open("a") as more:
        more.write("another such line\n")
    assert gsched(*words, "--keep-going").returncode == 0
    rejects = json.loads(gsched("db", "stats", "--rejects", "--json").stdout)
    assert [r["raw"] for r in rejects] == [
        "another such line\n",
        "one line that is no record\n",
    ]
    assert "another such line\\n" in gsched("db", "stats", "--rejects").stdout.splitlines()[1]


def test_no_limit_is_a_word_for_people_and_nothing_for_programs(gsched, environment):
    assert gsched("db", "init").returncode == 0
    with History.open(f"sqlite:///{environment['GSCHED_STATE_DIR']}/history.db") as history:
        history.ingest(batch(attempt(1, 1000, time_limit_s=UNLIMITED_S)), source_key=None)
    assert gsched("history", "-P", "-o", "jobid,limit").stdout == "jobid|limit\n1|\n"
    assert gsched("history", "-o", "limit").stdout.split() == ["LIMIT", "UNLIMITED"]
    (job,) = json.loads(gsched("history", "--json").stdout)["jobs"]
    assert job["time_limit_s"] is None
