"""Where figures of jobs come from: stored steps, sacct, or nobody; and many jobs, worst first."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from support.history import CLUSTER, attempt, batch, pending, running

from gsched.app import measured
from gsched.app.efficiency import efficiency
from gsched.app.measured import usage_of, usage_of_many
from gsched.app.past import PastQuery
from gsched.app.waste import findings, wasted
from gsched.config.settings import Settings
from gsched.errors import NoAccountingError, TryAgainError
from gsched.model.history import StepRecord
from gsched.model.job import JobState
from gsched.slurm.fields import parse_time, split_records
from gsched.slurm.parse_usage import USAGE_FIELDS, UsageRecord, parse_usage
from gsched.slurm.sacct_rows import RowReader
from gsched_sql import History

T = 1_700_000_000


def step(job_id, name="batch", **facts):
    defaults = {
        "state": JobState.COMPLETED, "start_time": T, "end_time": T + 1000, "num_tasks": 2,
        "cpu_time_s": 6000.0, "max_rss_bytes": 2**34, "rss_bytes": 2**34 + 2**33,
        "gpu_utilization_pct": 20.0,
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
    """sacct that knows some records, or one that fails: by default, as there is no slurmdbd."""

    def __init__(self, records=None):
        self.records = records
        self.error = NoAccountingError("this cluster has no slurmdbd")
        self.asked = []

    def usage(self, job_ids):
        self.asked.append(list(job_ids))
        if self.records is None:
            raise self.error
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


@pytest.fixture
def usage_rows():
    """What sacct was recorded to say of jobs and steps, and its separator."""
    folder = Path(__file__).parents[2] / "data" / "slurm" / "22.05" / "views"
    return "\x1frecorded-separator\x1e", (folder / "sacct-usage.txt").read_text()


def test_stored_steps_are_enough(site):
    settings, slurm = site([job(7)], [step(7), step(7, "0", cpu_time_s=None)])
    report = usage_of(settings, "7")
    (found,) = report.jobs
    assert (report.source, report.is_measured, slurm.asked) == ("database", True, [])
    assert (found.cpu_time_s, found.cpu_efficiency) == (6000.0, 0.75)
    # the sum that Slurm tells, not the largest task times the tasks
    assert (found.mem_used_bytes, found.mem_largest_task_bytes) == (2**34 + 2**33, 2**34)
    assert found.mem_efficiency == 0.375
    assert found.gpu_util_percent == 20.0
    assert [w.code for w in findings(found)] == ["gpu"]


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
    assert [(e.last.job_id, wasted(findings(e))[0]) for e in report.jobs] == [
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


def test_stored_steps_say_what_sacct_says(site, usage_rows):
    """Memory and CPU time of every job that sacct has measured, also of several tasks a step."""
    separator, text = usage_rows
    rows = list(split_records(text, separator, len(USAGE_FIELDS)))
    read = RowReader(USAGE_FIELDS, parse_time, True, cluster=CLUSTER, keeps_steps=True).read(rows)
    records, _ = parse_usage(text, separator, counts_gpus=True)
    settings, _ = site(read.attempts.records(), read.steps, sacct=records)
    compared = 0
    for job_id in {record.job_id for record in records if record.end_time and record.steps}:
        report = usage_of(settings, str(job_id))
        for mine in report.jobs if report.source == "database" else ():
            (told,) = [r for r in records if (r.slurm_id, r.submit_time) == (
                mine.last.slurm_id, mine.last.submit_time)]  # fmt: skip
            theirs = efficiency([told], None)
            if told.steps:
                compared += 1
                assert mine.mem_used_bytes == theirs.mem_used_bytes
                assert mine.mem_largest_task_bytes == theirs.mem_largest_task_bytes
                assert mine.cpu_time_s == pytest.approx(theirs.cpu_time_s, abs=0.01)
    assert compared > 5


def test_a_job_that_sacct_no_longer_has_is_told_as_the_history_knows_it(site):
    settings, _ = site([job(7), job(8)], [step(8)], sacct=[])
    (found,) = usage_of(settings, "7").jobs
    assert (found.last.user, found.cpu_time_s, found.mem_used_bytes) == ("alice", None, None)
    assert usage_of(settings, "7").source == "database"
    assert not usage_of(settings, "7").is_measured
    settings, _ = site([job(9, array_task=1), job(9, array_task=2)], sacct=[
        of_sacct(job(9, array_task=1), array_task=1)
    ])  # fmt: skip
    report = usage_of(settings, "9")
    assert [(e.last.slurm_id, e.cpu_time_s) for e in report.jobs] == [("9_1", 77.0), ("9_2", None)]
    assert (report.source, report.is_measured) == ("sacct", True)


def test_a_slurmdbd_that_hangs_is_as_good_as_none(site):
    settings, slurm = site([job(7)])
    slurm.error = TryAgainError("sacct gave no answer within 60 s")
    assert [e.last.job_id for e in usage_of(settings, "7").jobs] == [7]
    assert [e.last.job_id for e in usage_of_many(settings, PastQuery(limit=9)).jobs] == [7]


def test_of_an_id_used_again_the_newest_job_is_shown(site):
    later = T + 10**7
    again = attempt(7, later, start_time=later, end_time=later + 50)
    steps = [step(7), replace(step(7), submit_time=later, end_time=later + 50)]
    settings, slurm = site([job(7), again], steps)
    report = usage_of(settings, "7")
    assert [found.last.submit_time for found in report.jobs] == [later]
    assert slurm.asked == []


def test_only_what_runs_has_run_until_now(site, monkeypatch):
    monkeypatch.setattr(measured, "now", lambda: T + 500)
    settings, _ = site([running(1, T, start_time=T), job(2, state=JobState.UNKNOWN, end_time=None)])
    elapsed = {n: usage_of(settings, str(n)).jobs[0].last.elapsed_s for n in (1, 2)}
    assert elapsed == {1: 500, 2: 0}
