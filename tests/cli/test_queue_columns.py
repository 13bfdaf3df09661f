"""The columns of ``gsched queue``: every cell of every kind of job, and times in every zone."""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime

import pytest
from support.queue import row

from gsched.app.queued_job import QueuedJob
from gsched.model.job import UNLIMITED_S, GpuOption, JobState
from gsched.slurm.records import FreeText
from gsched_cli.queue_columns import COLUMNS, DEFAULT, state_style
from gsched_cli.tables import choose_columns, ordered

NAMED = {column.name: column for column in COLUMNS}


def job(raw_id=7, answer=None, at=5000, name="train", comment="", **facts):
    return QueuedJob(row(raw_id, **facts), FreeText(name, comment), answer or {}, at)


def cells(*names, **facts):
    return [NAMED[name].cell(job(**facts)) for name in names]


def values(*names, **facts):
    return [NAMED[name].raw(job(**facts)) for name in names]


RANKED = {
    "rank": {"queue": "gpu", "position": 3, "of": 44},
    "reason": {"code": "qssf.no-prediction", "params": {}},
    "duration_s": {"mean": 42.4, "quantiles": []},
}


def test_the_usual_columns_exist():
    assert len(choose_columns(COLUMNS, DEFAULT, DEFAULT)) == 11
    assert len(NAMED) == len(COLUMNS)


def test_a_waiting_job():
    facts = {"answer": RANKED, "start_time": 9000, "mem_bytes": 3 * 2**29, "time_limit_s": 3600}
    assert cells("rank", "predicted", "why", "reason", "mem", "limit", **facts) == [
        "3/44", "0:42", "no prediction: keeps the median place", "Priority", "1.5G", "1:00:00",
    ]  # fmt: skip
    assert cells("waited", "running", "time", "left", "start", "end", "nodelist", **facts) == [
        "1:06:40", "-", "1:06:40", "-", "-", "-", "-",
    ]  # fmt: skip
    assert values("rank", "predicted", "waited", "running", "mem", "slurm_start", **facts) == [
        3, 42.4, 4000, None, 3 * 2**29, 9000,
    ]  # fmt: skip


def test_an_expected_start_is_short_for_people_and_three_numbers_for_programs(zone):
    zone("Europe/Berlin")
    at = epoch("2026-12-02T12:00:00")  # Wednesday, 13:00
    start = {"as_of": at, "median": at + 3900, "low": at + 20, "high": at + 86400, "coverage": 0.8,
             "calibrated_on": 0}  # fmt: skip
    names = ("expected", "expected_low", "expected_high")
    facts = {"answer": {"start": start}, "at": at}
    assert cells(*names, **facts) == [
        "14:05 (now–Thu 13:00)", "2026-12-02T13:00:20+01:00", "2026-12-03T13:00:00+01:00",
    ]  # fmt: skip
    assert values(*names, **facts) == [at + 3900, at + 20, at + 86400]
    assert (cells(*names), values(*names)) == (["-"] * 3, [None] * 3)
    over = {"start": start | {"median": at - 90, "low": at - 100, "high": at - 61}}
    assert cells("expected", answer=over, at=at) == ["overdue"]
    later = job(2, {"start": start | {"median": at + 9000}}, at)
    jobs = [job(3), later, job(1, {"start": start}, at)]
    assert [j.raw_id for j in ordered(jobs, ((NAMED["expected"], False),))] == [1, 2, 3]


def test_the_predicted_run_is_the_median_with_its_interval_beside_it():
    duration = {"mean": 50.0, "quantiles": [[0.1, 15.0], [0.5, 40.0], [0.9, 90.0]]}
    facts = {"answer": {"duration_s": duration}}
    names = ("predicted", "predicted_low", "predicted_high")
    assert cells(*names, **facts) == ["0:40", "0:15", "1:30"]
    assert values(*names, **facts) == [40.0, 15.0, 90.0]
    duration["quantiles"][1][1] = 60 / 13
    assert values(*names, **facts) == [4.6, 15.0, 90.0]


def test_a_running_job():
    facts = {
        "state": JobState.RUNNING, "state_text": "RUNNING", "start_time": 4000, "end_time": 7600,
        "time_limit_s": 3600, "node_list": "gn[01-02]", "comment": "x",
        "gpu_options": (GpuOption("a100", 2), GpuOption("h100", 1)), "num_gpus": 3,
    }  # fmt: skip
    assert cells("waited", "running", "time", "left", "why", "nodelist", "comment", **facts) == [
        "50:00", "16:40", "16:40", "43:20", "gn[01-02]", "gn[01-02]", "x",
    ]  # fmt: skip
    assert cells("gpus", "gputype", "slurm_start", "rank", **facts) == ["3", "a100,h100", "-", "-"]
    assert values("start", "end", "slurm_start", "reservation", **facts) == [4000, 7600, None, None]


def test_every_column_has_a_cell_and_a_plain_value_for_every_state():
    for state in JobState:
        for column in COLUMNS:
            one = job(state=state, state_text=state.value)
            assert isinstance(column.cell(one), str)
            json.dumps(column.raw(one))


def test_ids_and_ranks_are_sorted_as_numbers():
    jobs = [job(10), job(9), job(12, job_id=7, array_task=10), job(11, job_id=7, array_task=9)]
    order = ((NAMED["jobid"], False),)
    assert [j.slurm_id for j in ordered(jobs, order)] == ["7_9", "7_10", "9", "10"]
    ranks = [job(n, {"rank": {"queue": "q", "position": n, "of": 99}}) for n in (10, 9)] + [job(1)]
    order = ((NAMED["rank"], False),)
    assert [j.rank_text for j in ordered(ranks, order)] == ["9/99", "10/99", "-"]


def test_colours_say_again_what_the_state_says():
    styles = {state: state_style(job(state=state)) for state in JobState}
    assert styles[JobState.RUNNING] == "green"
    assert styles[JobState.FAILED] == styles[JobState.OUT_OF_MEMORY] == "red"
    assert styles[JobState.PENDING] is styles[JobState.UNKNOWN] is None
    assert NAMED["why"].style(job(reason="DependencyNeverSatisfied")) == "red"
    assert NAMED["why"].style(job(reason="Priority")) is None


@pytest.fixture
def zone(monkeypatch):
    def switch(name):
        monkeypatch.setenv("TZ", name)
        time.tzset()

    yield switch
    monkeypatch.undo()
    time.tzset()


def epoch(text):
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp())


@pytest.mark.parametrize(
    ("name", "utc", "shown"),
    [
        ("Asia/Kolkata", "2026-11-29T16:00:00", "2026-11-29T21:30:00+05:30"),
        ("Europe/Berlin", "2026-10-25T00:30:00", "2026-10-25T02:30:00+02:00"),
        ("Europe/Berlin", "2026-10-25T01:30:00", "2026-10-25T02:30:00+01:00"),
        ("Europe/Berlin", "2026-03-29T00:59:59", "2026-03-29T01:59:59+01:00"),
        ("Europe/Berlin", "2026-03-29T01:00:00", "2026-03-29T03:00:00+02:00"),
        ("UTC", "2026-11-29T16:00:00", "2026-11-29T16:00:00+00:00"),
    ],
)
def test_times_are_local_with_their_offset(zone, name, utc, shown):
    zone(name)
    at = epoch(utc)
    assert cells("submit", submit_time=at) == [shown]
    assert values("submit", submit_time=at) == [at]


def test_a_wait_over_the_end_of_summer_time_is_counted_in_real_seconds(zone):
    zone("Europe/Berlin")
    submitted = epoch("2026-10-25T00:30:00")
    assert cells("waited", submit_time=submitted, at=submitted + 3600) == ["1:00:00"]


def test_no_limit_is_a_word_for_people_and_nothing_for_programs():
    facts = {"time_limit_s": UNLIMITED_S}
    assert (cells("limit", **facts), values("limit", **facts)) == (["UNLIMITED"], [None])
    jobs = [job(1, **facts), job(2, time_limit_s=60)]
    assert [j.raw_id for j in ordered(jobs, ((NAMED["limit"], False),))] == [2, 1]
