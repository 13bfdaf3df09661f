"""Steps of jobs and events of nodes: kept once, whatever the order and the parts they come in."""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import pairwise

import pytest
from support.history import CLUSTER, attempt, batch

from gsched.model.history import NodeEvent, StepRecord
from gsched.model.job import JobState
from gsched.model.past import HistoryFilter
from gsched_sql import History

ENDED = StepRecord(
    CLUSTER, 7, None, None, 1000, "0", JobState.COMPLETED, "srun", 1010, 1110, 0, 0, 1, 8, 2,
    12.345, 2**30, 2**31 - 5, 87.5, 2**34,
)  # fmt: skip
RUNNING = replace(
    ENDED,
    state=JobState.RUNNING,
    end_time=None,
    exit_code=None,
    cpu_time_s=None,
    max_rss_bytes=None,
)
TELLINGS = (
    RUNNING,
    replace(RUNNING, num_tasks=None),
    ENDED,
    replace(ENDED, gpu_utilization_pct=None),
    replace(ENDED, name="über\x00", gpu_mem_bytes=2**40),
    replace(ENDED, step="batch", num_tasks=1),
    replace(ENDED, step="0+1", cpu_time_s=0.1),
    replace(ENDED, array_task=3, start_time=None),
    replace(ENDED, submit_time=5000),
)
ATTEMPTS = (attempt(), attempt(array_task=3), attempt(submit_time=5000))
EVENTS = (
    NodeEvent(CLUSTER, "gn01", 100, "DOWN"),
    NodeEvent(CLUSTER, "gn01", 100, "DOWN", 200, "fan | broke\nsecond", "root"),
    NodeEvent(CLUSTER, "gn01", 100, "DOWN", 200, "fan", "root"),
    NodeEvent(CLUSTER, "gn01", 100, "DRAIN", 300),
    NodeEvent(CLUSTER, "gn02", 100, "DOWN", 150, None, "ops"),
    NodeEvent("beta", "gn01", 100, "DOWN"),
)


@pytest.fixture
def database(database_url):
    return database_url


@pytest.fixture
def open_database(database_url):
    with History.open(database_url) as opened:
        yield opened


def take_in(history, steps):
    return history.ingest(replace(batch(*ATTEMPTS), steps=tuple(steps)), source_key=None)


def stored(history):
    jobs = history.jobs(HistoryFilter())
    return {(job.key.slurm_id, job.key.epoch): history.steps_of(job) for job in jobs}


def test_steps_come_back_as_they_were_told_and_are_kept_once(open_database):
    history = open_database
    assert take_in(history, [ENDED, TELLINGS[5]]).steps == 2
    assert take_in(history, [TELLINGS[5], ENDED, RUNNING]).steps == 0
    steps = stored(history)["7", 1000]
    assert steps == {1000: (ENDED, TELLINGS[5])}
    assert take_in(history, [replace(ENDED, end_time=1120)]).steps == 1
    assert stored(history)["7", 1000][1000][0].end_time == 1120


def test_steps_may_come_in_any_order_and_any_parts(open_database):
    history = open_database
    take_in(history, TELLINGS)
    wanted = stored(history)
    assert sum(len(steps) for of_job in wanted.values() for steps in of_job.values()) == 5
    assert wanted["7", 1000][1000][0].name == "über\x00"
    chance = random.Random(7)
    for _ in range(20):
        told = [*TELLINGS, *chance.sample(TELLINGS, 3)]
        chance.shuffle(told)
        assert take_in(history, told).steps == 0
    assert stored(history) == wanted


def test_the_order_of_tellings_does_not_matter_to_an_empty_database(history):
    """Each pair of tellings of one step, both ways round."""
    one = [step for step in TELLINGS if step.step == "0" and step.submit_time == 1000]
    for first, second in pairwise([*one[:5], one[0]]):
        if first.array_task != second.array_task:
            continue
        results = []
        for told in ((first, second), (second, first)):
            job = len(results) + 100 + 10 * one.index(first)
            history.ingest(batch(attempt(job)), source_key=None)
            for step in told:
                history.ingest(
                    replace(batch(attempt(job)), steps=(replace(step, job_id=job),)),
                    source_key=None,
                )
            (found,) = (j for j in history.jobs(HistoryFilter()) if j.key.job_id == job)
            results.append([replace(step, job_id=7) for step in history.steps_of(found)[1000]])
        assert results[0] == results[1]


def test_steps_without_their_attempt_are_left_out_and_go_with_it(history):
    history.ingest(
        replace(batch(attempt(8)), steps=(ENDED, replace(ENDED, cluster="gamma"))), source_key=None
    )
    assert stored(history) == {("8", 1000): {}}


def test_a_cursor_and_its_steps_are_one_transaction(history, monkeypatch):
    def fail(*_):
        raise RuntimeError("killed")

    monkeypatch.setattr("gsched_sql.step_rows.insert_rows", fail)
    with pytest.raises(RuntimeError):
        history.ingest(
            replace(batch(attempt()), steps=(ENDED,), cursor="5"), source_key="sacct:alpha"
        )
    assert history.cursor("sacct:alpha") == ""
    assert history.jobs(HistoryFilter()) == []


def test_events_are_kept_once_and_the_later_end_counts(open_database):
    history = open_database

    def keep(*events):
        return history.keep_node_events(events, source_key="events", cursor="9")

    assert keep(*EVENTS[:1]) == (1, 0)
    assert keep(*EVENTS) == (3, 1)
    wanted = history.node_events(CLUSTER, 0, 1000)
    assert wanted == [EVENTS[1], EVENTS[3], EVENTS[4]]
    for told in (reversed(EVENTS), EVENTS[2:3], EVENTS[:1]):
        assert keep(*told) == (0, 0)
    assert history.node_events(CLUSTER, 0, 1000) == wanted
    assert history.cursor("events") == "9"
    assert [e.state for e in history.node_events(CLUSTER, 200, 1000)] == ["DRAIN"]
    assert history.node_events(CLUSTER, 0, 100) == []
    assert history.node_events("beta", 5000, 6000) == [EVENTS[5]]
    assert history.node_events("nowhere", 0, 1000) == []


@pytest.mark.parametrize(
    ("better", "worse"),
    [
        (ENDED, replace(ENDED, state=JobState.RUNNING, end_time=9999, name="z")),
        (replace(ENDED, end_time=1120, name=None), replace(ENDED, gpu_mem_bytes=2**40)),
        (replace(ENDED, name="a"), replace(ENDED, name="z", cpu_time_s=None)),
        (replace(ENDED, name="b"), replace(ENDED, name="a")),
    ],
    ids=["final", "later end", "says more", "greater"],
)
@pytest.mark.parametrize("is_last", [False, True])
def test_of_two_tellings_the_better_is_kept_whole(history, better, worse, is_last):
    for step in (worse, better) if is_last else (better, worse):
        take_in(history, [step])
    assert stored(history)["7", 1000][1000] == (better,)
