"""Where figures of jobs come from: stored steps, sacct, or nobody; and many jobs, worst first."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from support.history import CLUSTER, attempt, batch, pending, running

from gsched.app import measured
from gsched.app.measured import usage_of, usage_of_many
from gsched.app.past import PastQuery
from gsched.config.settings import Settings
from gsched.errors import NoAccountingError
from gsched.model.history import StepRecord
from gsched.model.job import JobState
from gsched.slurm.parse_usage import UsageRecord
from gsched_sql import History

T = 1_700_000_000


def step(job_id, name="batch", **facts):
    defaults = {
        "state": JobState.COMPLETED, "start_time": T, "end_time": T + 1000, "num_tasks": 2,
        "cpu_time_s": 6000.0, "max_rss_bytes": 2**34, "gpu_utilization_pct": 20.0,
    }  # fmt: skip
    return StepRecord(CLUSTER, job_id, None, None, T, name, **(defaults | facts))


def job(job_id, **facts):
    times = {"start_time": T, "end_time": T + 1000}
    return attempt(job_id, T, **(times | facts))


def of_sacct(record, **facts):
    """What sacct says of a stored attempt."""
    defaults = {
        "raw_id": record.job_id, "job_id": record.job_id, "array_task": None, "het_offset": None,
        "user": record.user, "account": "", "partition": "", "qos": "", "name": "",
        "state": record.state, "state_text": record.state_text, "exit_code": 0, "exit_signal": 0,
        "submit_time": record.submit_time, "eligible_time": None, "start_time": T,
        "end_time": T + 1000, "elapsed_s": 1000, "time_limit_s": None, "num_nodes": 1,
        "num_cpus": 8, "num_gpus": 2, "gpu_types": (), "mem_bytes": 2**36, "cpu_s": 77.0,
        "node_list": "n1",
    }  # fmt: skip
    return UsageRecord(**(defaults | facts))


class Slurm:
    """sacct that knows some records, or a cluster without slurmdbd."""

    def __init__(self, records=None):
        self.records = records
        self.asked = []

    def usage(self, job_ids):
        self.asked.append(list(job_ids))
        if self.records is None:
            raise NoAccountingError("this cluster has no slurmdbd")
        return tuple(r for r in self.records if str(r.job_id) in job_ids), ()


@pytest.fixture
def site(tmp_path, monkeypatch):
    """A database of some attempts and steps, and what sacct says."""

    def make(records, steps=(), sacct=None):
        settings = Settings(state_dir=tmp_path)
        History.create(settings.database_url)
        with History.open(settings.database_url) as history:
            history.ingest(replace(batch(*records), steps=tuple(steps)), source_key=None)
        slurm = Slurm(sacct)
        monkeypatch.setattr(measured, "slurm_client", lambda _: slurm)
        return settings, slurm

    return make


def test_stored_steps_are_enough(site):
    settings, slurm = site([job(7)], [step(7), step(7, "0", cpu_time_s=None)])
    report = usage_of(settings, "7")
    (found,) = report.jobs
    assert (report.source, report.is_measured, slurm.asked) == ("database", True, [])
    assert (found.cpu_time_s, found.cpu_efficiency) == (6000.0, 0.75)
    assert (found.mem_used_bytes, found.mem_largest_task_bytes) == (2**35, 2**34)
    assert found.mem_efficiency == 0.5
    assert found.gpu_util_percent == 20.0
    assert [w.code for w in found.waste] == ["gpu"]


def test_a_job_that_runs_is_asked_of_sacct(site):
    records = [running(7, T, start_time=T)]
    settings, slurm = site(records, [step(7)], sacct=[of_sacct(records[0])])
    report = usage_of(settings, "7")
    assert (report.source, report.jobs[0].cpu_time_s) == ("sacct", 77.0)
    assert slurm.asked == [["7"]]


def test_an_array_of_which_one_task_has_no_steps_is_asked_of_sacct(site):
    settings, slurm = site([job(7, array_task=1), job(7, array_task=2)])
    assert usage_of(settings, "7").is_measured is False
    assert slurm.asked == [["7"]]


def test_many_jobs_the_worst_first(site):
    records = [
        job(1),
        job(2, num_gpus=8),
        job(3, state=JobState.FAILED),
        pending(4, T),
        job(5, user="bob", num_gpus=99),
    ]
    steps = [step(1), step(2)]
    settings, slurm = site(records, steps, sacct=[of_sacct(records[2])])
    report = usage_of_many(settings, PastQuery(users=("alice",), limit=10))
    assert [(e.last.job_id, e.wasted[0]) for e in report.jobs] == [
        (2, 8000 * 0.8),
        (3, 2000),
        (1, 2000 * 0.8),
    ]
    assert slurm.asked == [["3"]]
    assert [e.cpu_time_s for e in report.jobs] == [6000.0, 77.0, 6000.0]
    document = report.document()
    json.dumps(document, allow_nan=False)
    assert (document["job"], document["more"], document["total"]["num_jobs"]) == (None, False, 3)


def test_many_jobs_without_slurmdbd_are_told_as_far_as_they_are_known(site):
    settings, _ = site([job(1, state=JobState.NODE_FAIL), job(2)])
    report = usage_of_many(settings, PastQuery(limit=1))
    assert (report.is_measured, report.more, len(report.jobs)) == (False, True, 1)
    report = usage_of_many(settings, PastQuery(limit=2))
    assert [(e.last.job_id, e.cpu_time_s) for e in report.jobs] == [(1, None), (2, None)]


def test_another_job_of_the_same_id_is_not_taken_for_it(site):
    stranger = of_sacct(replace(job(1), submit_time=T - 10**7))
    settings, _ = site([job(1)], sacct=[stranger])
    (found,) = usage_of_many(settings, PastQuery(limit=9)).jobs
    assert found.cpu_time_s is None
