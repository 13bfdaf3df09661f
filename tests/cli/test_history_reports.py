"""`gsched history --by`, pages, and `gsched eff` over many jobs, as a user meets them."""

from __future__ import annotations

import json
import re

import pytest
from support.history import attempt, batch, pending

from gsched.model.job import JobState
from gsched_sql import History


@pytest.fixture(scope="module")
def state_dir(tmp_path_factory):
    folder = tmp_path_factory.mktemp("state")
    url = f"sqlite:///{folder / 'history.db'}"
    History.create(url)
    with History.open(url) as history:
        history.ingest(
            batch(
                attempt(1, 1000, name="run\n|1"),
                attempt(2, 2000, user="bob", state=JobState.FAILED, phase="eval"),
                attempt(3, 3000, num_gpus=None, allocated=()),
                pending(4, 4000),
            ),
            source_key=None,
        )
    return folder


@pytest.fixture
def filled(gsched, environment, state_dir):
    environment["GSCHED_STATE_DIR"] = str(state_dir)
    return gsched


def test_groups_for_people_and_for_programs(filled):
    answer = filled("history", "--by", "user")
    assert answer.returncode == 0
    lines = [line.split() for line in answer.stdout.splitlines()]
    assert lines[0][:4] == ["GROUP", "JOBS", "COMPLETED", "FAILED"]
    assert [line[0] for line in lines[1:]] == ["alice", "bob"]
    assert "GPU-time is known of 2 of 4 jobs" in answer.stderr
    rows = filled("history", "--by", "user", "-P", "-o", "group,jobs,gpuhours,gpujobs,failedshare")
    assert rows.stdout.splitlines() == [
        "group|jobs|gpuhours|gpujobs|failedshare",
        "alice|3|200|1|0.0",
        "bob|1|200|1|1.0",
    ]


def test_columns_are_those_of_the_table_that_is_asked_for(filled):
    added = filled("history", "-o", "+examples", "--by", "name", "-P", "-h")
    assert added.returncode == 0
    assert "run\\n\\x7c1" in added.stdout  # hostile names move no column
    for words in (["-o", "+examples"], ["--by", "user", "-o", "jobid"]):
        assert filled("history", *words).returncode == 2
    assert "no such column" not in filled("history", "-o", "+phase,sourceid").stderr


def test_the_unclassified_share_is_said(filled):
    answer = filled("history", "--by", "phase")
    assert "3 of 4 jobs (75%, 50% of the GPU-time) are unclassified" in answer.stderr
    assert "no --gs-phase" in answer.stderr
    assert "unclassified" not in filled("history", "--by", "phase", "--phase", "eval").stderr


def test_of_no_failed_jobs_the_hours_are_0(filled):
    rows = filled("history", "--by", "user", "-P", "-h", "-o", "group,failedgpuhours,failedgpujobs")
    assert rows.stdout.splitlines() == ["alice|0|0", "bob|200|1"]


def test_an_empty_answer_is_said_to_be_one(filled):
    for words in (["history"], ["history", "--by", "user"], ["eff"]):
        answer = filled(*words, "-u", "nosuch")
        assert (answer.returncode, "no such jobs" in answer.stderr) == (0, True)
        assert "no such jobs" not in filled(*words).stderr


def test_a_limit_of_groups_is_said(filled):
    answer = filled("history", "--by", "gpus", "--limit", "1")
    assert len(answer.stdout.splitlines()) == 2
    assert "1 more groups; --limit 2 shows all" in answer.stderr


def test_pages(filled):
    ids, words = [], []
    for _ in range(2):
        answer = filled("history", "--limit", "2", "-P", "-h", "-o", "jobid", *words)
        ids += answer.stdout.split()
        told = re.search(r"--after (\S+) goes on", answer.stderr)
        words = ["--after", told[1]] if told else []
    assert ids == ["4", "3", "2", "1"]
    assert words == []
    document = json.loads(filled("history", "--limit", "2", "--json").stdout)
    assert (document["more"], document["after"]) == (True, "3000.3@alpha")
    wrong = filled("history", "--after", "yesterday")
    assert (wrong.returncode, wrong.stdout) == (2, "")
    assert filled("history", "--by", "day", "--after", "1.2@c").returncode == 2


def test_groups_as_json(filled):
    document = json.loads(filled("history", "--by", "state", "-s", "F", "--json").stdout)
    assert (document["by"], document["num_groups"], document["more"]) == ("state", 1, False)
    (group,) = document["groups"]
    assert (group["key"], group["jobs"], group["failed"]["gpu_time_s"]) == ("FAILED", 1, 200)
    assert document["total"]["states"]["FAILED"]["jobs"] == 1


def test_eff_of_many_jobs(filled, stand_in):
    stand_in("sacct").answers(stderr="Slurm accounting storage is disabled\n", code=1)
    stand_in("scontrol").answers("ClusterName = alpha\nAccountingStorageType = (null)\n")
    answer = filled("eff", "-S", "1970-01-01", "-P", "-o", "jobid,wastedgpu,reason")
    assert answer.returncode == 0
    lines = answer.stdout.splitlines()
    assert lines[1].startswith("2|200|it ended in FAILED after 1:40")
    assert [line.split("|")[0] for line in lines[1:]] == ["2", "3", "1"]
    both = filled("eff", "3", "-u", "bob")
    assert both.returncode == 2
    assert "either JOB or filters" in both.stderr
