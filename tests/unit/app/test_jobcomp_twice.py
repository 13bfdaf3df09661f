"""jobcomp's file can be forged: what contradicts what was told of an attempt is refused."""

from __future__ import annotations

from dataclasses import replace

import pytest
from support.history import CLUSTER, attempt, batch

from gsched.app.jobcomp_twice import OTHER_USER, TWICE, keys_of, without_contradictions
from gsched.model.job import JobState
from gsched.model.past import HistoryFilter
from gsched_sql import History

TRUE = attempt(7, source="jobcomp", num_gpus=None, name="we|ird\n\x00")
FORGED = [
    replace(TRUE, state=JobState.FAILED, state_text="FAILED"),
    replace(TRUE, end_time=TRUE.end_time + 9000),
    replace(TRUE, name="other"),
    replace(TRUE, exit_code=1),
    replace(TRUE, partition=None),
    replace(TRUE, source_id="x"),
]


@pytest.fixture
def history(tmp_path):
    url = f"sqlite:///{tmp_path / 'history.db'}"
    History.create(url)
    with History.open(url) as opened:
        yield opened


def told(history, *records):
    found = batch(*records)
    found = without_contradictions(found, history.told_of(CLUSTER, keys_of(found)))
    return history.ingest(found, source_key=None), [reject.reason for reject in found.rejects]


@pytest.mark.parametrize("forged", FORGED)
def test_a_second_record_of_an_attempt_is_refused(history, forged):
    before = told(history, TRUE)[0]
    assert (before.attempts_new, before.rejected) == (1, 0)
    jobs = history.jobs(HistoryFilter())
    after, reasons = told(history, forged)
    assert (after.rows_in, after.rejected, after.rejected_new, reasons) == (1, 1, 1, [TWICE])
    assert history.jobs(HistoryFilter()) == jobs


@pytest.mark.parametrize("forged", FORGED)
def test_of_two_in_one_read_the_first_stays(history, forged):
    summary, reasons = told(history, TRUE, forged, attempt(8, source="jobcomp"))
    assert (summary.rows_in, summary.attempts_new, reasons) == (3, 2, [TWICE])
    job = history.jobs(HistoryFilter(job_id=7))[0]
    assert (job.state, job.name, job.end_time) == (TRUE.state, TRUE.name, TRUE.end_time)


def test_the_same_again_is_no_contradiction(history):
    assert told(history, TRUE, TRUE)[1] == []
    assert told(history, TRUE)[1] == []
    requeued = replace(TRUE, submit_time=TRUE.submit_time + 500)
    assert told(history, requeued)[1] == []
    assert len(history.jobs(HistoryFilter())) == 2


def test_what_others_told_only_decides_on_the_user(history):
    running = replace(
        TRUE, source="squeue", state=JobState.RUNNING, state_text="RUNNING", end_time=None,
        exit_code=None, num_gpus=2, name="older",
    )  # fmt: skip
    history.ingest(batch(running), source_key=None)
    assert told(history, replace(TRUE, user="mallory"))[1] == [OTHER_USER]
    summary, reasons = told(history, TRUE)
    assert (summary.attempts_updated, reasons) == (1, [])
    (job,) = history.jobs(HistoryFilter())
    assert (job.state, job.num_gpus, job.name) == (JobState.COMPLETED, 2, TRUE.name)
    history.ingest(batch(replace(TRUE, source="sacct", name="x")), source_key=None)
    assert told(history, replace(TRUE, user="mallory"))[1] == [OTHER_USER]
    assert told(history, TRUE)[1] == []
