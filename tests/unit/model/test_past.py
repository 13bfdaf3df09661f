"""Logical jobs made without a database are those that the database makes."""

from __future__ import annotations

from tempfile import TemporaryDirectory

from hypothesis import given, settings
from hypothesis import strategies as st
from support.history import attempt, batch, pending, running

from gsched.model.job import JobState
from gsched.model.past import HistoryFilter, history_document, logical_jobs
from gsched_sql import History

RECORDS = st.builds(
    lambda make, job_id, task, submit, state, user, restarts: make(
        job_id,
        submit,
        array_task=task,
        user=user,
        restarts=restarts,
        **({"state": state} if make is attempt else {}),
    ),
    make=st.sampled_from([attempt, attempt, pending, running]),
    job_id=st.sampled_from([7, 8]),
    task=st.sampled_from([None, 0, 3]),
    submit=st.sampled_from([1000, 1115, 1300, 90_000]),
    state=st.sampled_from([JobState.COMPLETED, JobState.REQUEUED, JobState.FAILED]),
    user=st.sampled_from(["alice", "bob", None]),
    restarts=st.sampled_from([None, 0, 1]),
)


@settings(max_examples=15, deadline=None)
@given(st.lists(RECORDS, max_size=8))
def test_the_same_documents_as_from_the_database(records):
    with TemporaryDirectory() as folder:
        url = f"sqlite:///{folder}/history.db"
        History.create(url)
        with History.open(url) as history:
            history.ingest(batch(*records), source_key=None)
            stored = [history_document(job) for job in history.jobs(HistoryFilter())]
    assert [history_document(job) for job in logical_jobs(records)] == stored


def test_a_requeued_job_is_one():
    first = attempt(7, 1000, state=JobState.REQUEUED)
    (job,) = logical_jobs([attempt(7, 1115), first])
    assert (job.key.epoch, [a.submit_time for a in job.attempts]) == (1000, [1000, 1115])
    assert (job.state, job.gpu_time_s) == (JobState.COMPLETED, 400)
