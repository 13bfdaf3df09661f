"""Which job sbatch has named, and whether what Slurm shows under that id is still the same one."""

from __future__ import annotations

import pytest
from support.queue import row

from gsched.app import submitted
from gsched.app.submitted import CLOCKS_S, Fate, Submitted
from gsched.model.job import JobState
from gsched.slurm.records import QueueListing
from gsched.slurm.run import Completed

BEGAN, ENDED = 10_000.5, 10_002.5


@pytest.mark.parametrize(
    ("stdout", "job"),
    [
        ("Submitted batch job 7\n", ("7", None)),
        ("Submitted batch job 7 on cluster b\n", ("7", "b")),
        ("7\n", ("7", None)),
        ("7;b\n", ("7", "b")),
        ("Welcome\n2026\nSubmitted batch job 7\n", ("7", None)),
        ("Submitted batch job 7", ("7", None)),
        ("Welcome, 12 jobs\n", None),
        ("x Submitted batch job 7\n", None),
        ("Submitted batch job seven\n", None),
        ("", None),
    ],
)
def test_the_job_is_the_one_that_sbatch_names_last(stdout, job):
    found = Submitted.said(stdout, "alice", BEGAN, ENDED)
    assert (found and (found.job_id, found.cluster)) == job


@pytest.fixture
def fate(monkeypatch):
    """What is made of these rows of squeue."""

    def made(*rows, stderr="", status=0, cluster=None):
        calls = []

        def run(argv, *, timeout_s):
            calls.append((argv, timeout_s))
            return Completed(tuple(argv), status, "", stderr)

        monkeypatch.setattr(submitted, "run", run)
        monkeypatch.setattr(submitted, "parse_queue", lambda *_: QueueListing(rows, ()))
        found = Submitted("7", cluster, "alice", BEGAN, ENDED).fate(3.0)
        ((argv, timeout_s),) = calls
        assert timeout_s == 3.0
        assert ("--local" if cluster is None else f"--clusters={cluster}") in argv
        return found

    return made


def ours(state=JobState.PENDING, **facts):
    return row(7, state=state, **{"submit_time": 10_001, **facts})


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        (JobState.PENDING, Fate.WAITS),
        (JobState.RUNNING, Fate.RUNS),
        (JobState.COMPLETING, Fate.RUNS),
        (JobState.CANCELLED, Fate.ENDED),
        (JobState.COMPLETED, Fate.ENDED),
    ],
)
def test_what_has_become_of_it(fate, state, expected):
    assert fate(ours(state)) is expected
    assert fate(ours(state), cluster="b") is expected


def test_of_an_array_what_still_waits_counts(fate):
    assert fate(ours(JobState.COMPLETED), ours()) is Fate.WAITS
    assert fate(ours(JobState.COMPLETED), ours(JobState.RUNNING)) is Fate.RUNS


def test_what_slurm_no_longer_knows(fate):
    assert fate() is Fate.GONE
    assert fate(stderr="slurm_load_jobs error: Invalid job id specified", status=1) is Fate.GONE


@pytest.mark.parametrize(
    "facts",
    [
        {"user": "bob"},
        {"submit_time": int(BEGAN) - CLOCKS_S},
        {"submit_time": int(ENDED) + CLOCKS_S + 1},
    ],
)
def test_another_job_of_the_same_id(fate, facts):
    assert fate(ours(**facts)) is Fate.ANOTHER
    assert fate(ours(), ours(**facts)) is Fate.ANOTHER


def test_clocks_may_differ_a_little(fate):
    for submit_time in (int(BEGAN) - CLOCKS_S + 1, int(ENDED) + CLOCKS_S):
        assert fate(ours(submit_time=submit_time)) is Fate.WAITS
