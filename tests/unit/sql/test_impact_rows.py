"""What the report of gsched's effect reads: jobs with their waits, and sums over the journal."""

from __future__ import annotations

import pytest
from support.history import CLUSTER, attempt, batch, pending
from support.journal import change, round_info
from support.servers import each_engine

from gsched.model.decision import Reason
from gsched.model.impact import JobWait, JournalSums, MovedJob
from gsched.model.job import JobKey, Wants
from gsched.model.journal import ChangeState
from gsched.model.user_request import UserRequest

pytestmark = each_engine

SEVEN, EIGHT = JobKey(CLUSTER, 7, epoch=1000), JobKey(CLUSTER, 8, epoch=2000)
OBSERVED, INTENT, CONFIRMED = ChangeState.OBSERVED, ChangeState.INTENT, ChangeState.CONFIRMED


@pytest.fixture
def known(history):
    """A history of two jobs, one of which waits."""
    history.ingest(batch(attempt(7, 1000), pending(8, 2000, user="bob")), source_key=None)
    return history


def test_jobs_of_a_time_by_their_first_submit(known):
    ran = JobWait(1000, 1010, 1110, 10, 100, 2, 200, "gpu")
    waits = JobWait(2000, None, None, None, None, 2, None, "gpu")
    assert known.job_waits(CLUSTER) == [ran, waits]
    assert known.job_waits(CLUSTER, 1000, 2000) == [ran]
    assert known.job_waits(CLUSTER, 1001) == [waits]
    assert known.job_waits("another") == []


def test_a_job_that_may_not_start_is_told_from_one_that_waits(known):
    known.ingest(batch(pending(9, 3000, eligible_time=None)), source_key=None)
    assert [job.is_eligible for job in known.job_waits(CLUSTER)] == [True, True, False]


def test_a_requeued_job_is_one_job(known):
    known.ingest(batch(attempt(7, 5000, restarts=1)), source_key=None)
    (job, _) = known.job_waits(CLUSTER)
    assert (job.first_submit, job.start_time) == (1000, 5010)
    assert job.queueing_s == 5010 - 1000 - 100


def test_sums_of_a_journal_without_rounds(history):
    assert history.journal_sums(CLUSTER) == JournalSums()
    history.ingest(batch(attempt()), source_key=None)
    assert history.journal_sums(CLUSTER) == JournalSums()


def test_of_each_job_the_last_word_counts(known):
    journal = known.journal()
    journal.begin_round(round_info("r1"))
    changes = [
        change("a", 0, 40, key=SEVEN),
        change("b", 40, -7, key=SEVEN),
        change("c", -7, 0, key=SEVEN, takes_back=True),
        change("d", 0, 90, key=EIGHT, reason=Reason("starving", {})),
        change("e", 0, 50, key=JobKey(CLUSTER, 9, epoch=3000)),  # the history has no such job
    ]
    journal.record("r1", changes, INTENT, 2001)
    journal.settle([(name, CONFIRMED, "") for name in "abce"], 2002)
    journal.settle([("d", ChangeState.REJECTED, "no")], 2002)
    journal.record("r1", [change("o", 0, 11, key=EIGHT)], OBSERVED, 2003)
    sums = known.journal_sums(CLUSTER)
    assert sums.changes == {"confirmed": 4, "rejected": 1, "observed": 1}
    assert sums.taken_back == 1
    assert sums.written == (MovedJob("alice", "lab1", -7), MovedJob("?", "?", 50))
    assert sums.observed == (MovedJob("bob", "lab1", 11),)
    assert sums.jobs_by_reason == {"qssf.predicted-gpu-time": 3, "starving": 1}
    assert known.journal_sums(CLUSTER, 2003).changes == {"observed": 1}
    assert known.journal_sums(CLUSTER, None, 2001) == JournalSums()


def test_inversions_are_those_that_rounds_have_told(known):
    journal = known.journal()
    first, last = ({"qos": 1, "fairshare": 2, "pairs": pairs} for pairs in (9, 4))
    told = ({"inversions": first}, {"jobs": 3}, {"inversions": None}, {"inversions": last})
    for number, summary in enumerate(told):
        journal.begin_round(round_info(f"r{number}", started_at=2000 + number))
        journal.end_round(f"r{number}", 2000 + number, summary, {})
    sums = known.journal_sums(CLUSTER)
    assert [one["pairs"] for one in sums.inversions] == [9, 4]
    assert [one["pairs"] for one in known.journal_sums(CLUSTER, 2001).inversions] == [4]


def test_requests_and_the_jobs_that_made_them(known):
    store = known.request_store()
    for number, (key, token) in enumerate(
        [(SEVEN, "gs1{a}"), (SEVEN, "gs1{b}"), (EIGHT, "gs1{a}")]
    ):
        store.capture([UserRequest(key, "alice", token, Wants(), 2000 + number, 0)])
    sums = known.journal_sums(CLUSTER)
    assert (sums.requests, sums.jobs_with_requests) == (3, 2)
    sums = known.journal_sums(CLUSTER, 2001, 2002)
    assert (sums.requests, sums.jobs_with_requests) == (1, 1)
