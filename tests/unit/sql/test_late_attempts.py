"""An attempt that is told of after a later one: all that is kept about the job follows its key."""

from __future__ import annotations

from support.history import CLUSTER, attempt, batch, pending, select
from support.journal import change, prediction, round_info
from support.servers import each_engine

from gsched.model.accounts import LeaseGrant
from gsched.model.job import JobKey, JobState, Lease, LeaseState, Wants
from gsched.model.journal import ChangeState
from gsched.model.user_request import UserRequest

pytestmark = each_engine

FIRST = attempt(7, 1000, state=JobState.REQUEUED)
SEEN_FIRST = JobKey(CLUSTER, 7, epoch=1119)
WHOLE = JobKey(CLUSTER, 7, epoch=1000)


def asks(history, key, *tokens):
    for at, token in enumerate(tokens, key.epoch):
        history.request_store().capture([UserRequest(key, "alice", token, Wants(), at)])


def tokens(history, key):
    return [r.token for r in reversed(history.requests(CLUSTER)) if r.key == key]


def test_everything_about_a_job_follows_its_earlier_attempt(history, database):
    history.ingest(batch(pending(7, 1119, restarts=None), attempt(8, 1119)), source_key=None)
    for key in (SEEN_FIRST, JobKey(CLUSTER, 8, epoch=1119)):
        journal = history.journal()
        journal.begin_round(round_info(f"r{key.job_id}"))
        made = change(f"c{key.job_id}", 0, 5, key=key, attempt=1119)
        journal.record(f"r{key.job_id}", [made], ChangeState.INTENT, 2000)
        journal.record_predictions([(key, 1119, prediction())], 2000)
        lease = Lease(f"l{key.job_id}", LeaseState.GRANTED, 1119, 60)
        history.leases().grant(LeaseGrant(lease, key, 1119, 2), 1119)
        asks(history, key, "gs1{}")
    history.ingest(batch(FIRST), source_key=None)
    for table in ("actions", "predictions", "requests", "leases", "standings"):
        rows = select(database, f"SELECT job_id, epoch FROM {table} ORDER BY job_id")
        assert rows == [(7, 1000), (8, 1119)], table
    assert [grant.lease.lease_id for grant in history.leases().of_job(WHOLE)] == ["l7"]
    assert list(history.request_store().latest([WHOLE, SEEN_FIRST])) == [WHOLE]


def test_a_token_that_a_requeued_job_kept_is_there_once(history):
    history.ingest(batch(pending(7, 1119, restarts=None)), source_key=None)
    asks(history, WHOLE, "gs1{}", "gs1{share}")
    asks(history, SEEN_FIRST, "gs1{share}", "gs1{}")
    history.ingest(batch(FIRST), source_key=None)
    assert tokens(history, WHOLE) == ["gs1{}", "gs1{share}", "gs1{}"]
    assert tokens(history, SEEN_FIRST) == []
    asks(history, WHOLE, "gs1{}")  # the last one is known as such
    assert len(history.requests(CLUSTER)) == 3
