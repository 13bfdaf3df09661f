"""Lists for people, past jobs for the predictor, statistics."""

from __future__ import annotations

import pytest
from support.history import CLUSTER, attempt, batch, pending, running
from support.servers import each_engine

from gsched.model.history import PastJob, Reject
from gsched.model.job import JobState
from gsched.model.past import HistoryFilter, history_document


@pytest.fixture
def filled(history):
    history.ingest(
        batch(
            attempt(1, 1000),
            attempt(2, 2000, user="bob", tenant="lab2", state=JobState.FAILED),
            attempt(3, 3000, partition="cpu", num_gpus=0, allocated=(), name="prep"),
            running(4, 4000),
            pending(5, 5000, partition="cpu,gpu"),
            attempt(6, 6000, array_task=0),
            attempt(6, 6000, array_task=1, state=JobState.TIMEOUT),
        ),
        source_key="s",
    )
    return history


FILTERS = [
    (HistoryFilter(), ["6_1", "6_0", "5", "4", "3", "2", "1"]),
    (HistoryFilter(limit=2), ["6_1", "6_0"]),
    (HistoryFilter(users=("bob",)), ["2"]),
    (HistoryFilter(users=("bob", "nobody")), ["2"]),
    (HistoryFilter(users=("nobody",)), []),
    (HistoryFilter(tenants=("lab2",)), ["2"]),
    (HistoryFilter(partitions=("cpu",)), ["5", "3"]),
    (HistoryFilter(partitions=("c%",)), []),
    (HistoryFilter(names=("prep",)), ["3"]),
    (HistoryFilter(names=("pre",)), []),
    (HistoryFilter(states=(JobState.FAILED, JobState.TIMEOUT)), ["6_1", "2"]),
    (HistoryFilter(job_id=6), ["6_1", "6_0"]),
    (HistoryFilter(job_id=6, array_task=0), ["6_0"]),
    (HistoryFilter(since=3110), ["6_1", "6_0", "5", "4", "3"]),
    (HistoryFilter(since=3111), ["6_1", "6_0", "5", "4"]),
    (HistoryFilter(until=2000), ["1"]),
    (HistoryFilter(until=2001, users=("alice", "bob")), ["2", "1"]),
]


@each_engine
def test_a_filter_lists_what_it_says_newest_first(filled):
    for wanted, ids in FILTERS:
        assert [job.key.slurm_id for job in filled.jobs(wanted)] == ids, wanted


@each_engine
def test_a_job_as_json(filled):
    (job,) = filled.jobs(HistoryFilter(job_id=1))
    document = history_document(job)
    attempts = document.pop("attempts")
    assert document == {
        "job": "1",
        "cluster": CLUSTER,
        "user": "alice",
        "account": "lab1",
        "partition": "gpu",
        "qos": "normal",
        "name": "train",
        "state": "COMPLETED",
        "state_text": "COMPLETED",
        "num_gpus": 2,
        "num_cpus": 8,
        "num_nodes": 1,
        "time_limit_s": 3600,
        "submit_time": 1000,
        "start_time": 1010,
        "end_time": 1110,
        "queueing_s": 10,
        "duration_s": 100,
        "gpu_time_s": 200,
        "cpu_time_s": 800,
        "phase": None,
    }
    assert [(a["duration_s"], a["state"], a["allocated"]["cpu"]) for a in attempts] == [
        (100, "COMPLETED", 8)
    ]


@each_engine
def test_past_jobs_are_those_that_ran_and_ended_in_the_window(filled):
    found = filled.past_jobs(CLUSTER, 1110, 6110)
    assert [job.job_id for job in found.jobs] == [1, 2, 3]
    assert found.left_out == 0
    assert found.jobs[2] == PastJob(
        cluster=CLUSTER,
        job_id=3,
        submit_time=3000,
        start_time=3010,
        end_time=3110,
        user="alice",
        tenant="lab1",
        partition="cpu",
        name="prep",
        num_gpus=0,
        num_cpus=8,
        num_nodes=1,
        time_limit_s=3600,
        state=JobState.COMPLETED,
    )
    assert [j.job_id for j in filled.past_jobs(CLUSTER, 1111, 6111).jobs] == [2, 3, 6, 6]
    assert filled.past_jobs("elsewhere", 0, 10**10).jobs == ()


def test_what_nobody_has_told_is_left_out_and_counted_not_invented(history):
    history.ingest(
        batch(
            attempt(1, num_gpus=None, allocated=()),
            attempt(2, num_cpus=None, num_nodes=None),
            attempt(3, user=None),
            attempt(4, state=JobState.UNKNOWN, state_text="NEW_STATE"),
            attempt(5, start_time=1200),  # a clock that went back
            attempt(6, state=JobState.CANCELLED, num_nodes=0),  # never started
            attempt(7, state=JobState.CANCELLED),
            attempt(8, state=JobState.REVOKED),
            attempt(9, tenant=None, name=None),
        ),
        source_key="s",
    )
    found = history.past_jobs(CLUSTER, 0, 10**10)
    assert [job.job_id for job in found.jobs] == [2, 7, 9]
    assert found.left_out == 4
    assert (found.jobs[0].num_gpus, found.jobs[0].num_cpus, found.jobs[0].num_nodes) == (
        2,
        None,
        None,
    )
    assert (found.jobs[2].tenant, found.jobs[2].name) == ("", "")


def test_past_jobs_of_one_id_are_told_apart(history):
    history.ingest(
        batch(attempt(1, array_task=3), attempt(1, array_task=4), attempt(2, het_offset=1)),
        source_key="s",
    )
    found = history.past_jobs(CLUSTER, 0, 10**10).jobs
    assert [(j.job_id, j.array_task, j.het_offset) for j in found] == [
        (1, 3, None),
        (1, 4, None),
        (2, None, 1),
    ]


def test_a_sighting_of_squeue_gives_jobcomp_rows_their_gpus(history):
    history.ingest(batch(attempt(source="jobcomp", num_gpus=None, allocated=())), source_key="a")
    assert history.past_jobs(CLUSTER, 0, 10**10).left_out == 1
    history.ingest(batch(running(num_gpus=4)), source_key=None)
    assert [job.num_gpus for job in history.past_jobs(CLUSTER, 0, 10**10).jobs] == [4]


@each_engine
def test_statistics_say_over_what_they_are(filled):
    reject = Reject("sacct", 1, "why", "raw")
    filled.ingest(
        batch(
            attempt(8, 100, num_gpus=None, allocated=()),
            attempt(9, 9000, state=JobState.UNKNOWN, state_text="NEW\x00STATE", end_time=None),
            rejects=[reject],
        ),
        source_key="t",
    )
    stats = filled.stats()
    assert stats.rows["jobs"] == 9
    assert stats.rows["rejects"] == 1
    assert stats.states == {
        "COMPLETED": 4,
        "FAILED": 1,
        "PENDING": 1,
        "RUNNING": 1,
        "TIMEOUT": 1,
        "UNKNOWN": 1,
    }
    assert stats.unknown_states == {"NEW\x00STATE": 1}
    assert (stats.first_submit, stats.last_end) == (100, 6110)
    assert (stats.finished_jobs, stats.gpu_time_jobs) == (6, 5)
    assert stats.gpu_time_s == 4 * 200  # job 3 has no GPUs, of job 8 nobody has told
    assert stats.size_bytes > 0


@each_engine
def test_phases_of_as_many_jobs_are_in_one_order_on_every_engine(history):
    told = [attempt(n, phase=phase) for n, phase in enumerate(("sft", "debug", None), 1)]
    history.ingest(batch(*told), source_key=None)
    assert [found.phase for found in history.stats().phases] == [None, "debug", "sft"]


def test_statistics_of_an_empty_database(history):
    stats = history.stats()
    assert (stats.finished_jobs, stats.gpu_time_jobs, stats.gpu_time_s) == (0, 0, 0)
    assert (stats.first_submit, stats.last_end, stats.states) == (None, None, {})
