"""What leases have cost: how long their jobs had waited before, and what came of each revoke."""

from __future__ import annotations

from dataclasses import replace

import pytest
from support.history import CLUSTER, attempt, batch, pending, running
from support.servers import each_engine

from gsched.model.accounts import LeaseGrant, LeaseRevoke
from gsched.model.history import AttemptRecord
from gsched.model.job import JobKey, JobState, Lease, LeaseState
from gsched.model.jobid import JobId
from gsched_sql import History

KEY = JobKey(CLUSTER, 7, epoch=1000)
REVOKE = LeaseRevoke("r1", 60, 9000, "12_3")
ENDED = {"state": JobState.REQUEUED}


def lease(number: int, key: JobKey = KEY, attempt: int = 1000) -> LeaseGrant:
    made = Lease(f"l{number}", LeaseState.GRANTED, attempt + 300, 100)
    return LeaseGrant(made, key, attempt, 8, since=attempt + 300)


def tell(history: History, *attempts: AttemptRecord) -> None:
    history.ingest(batch(*attempts), source_key=None)


def requeued(history: History, grant: LeaseGrant, at: int, *more: LeaseState) -> None:
    """The whole way of a lease up to its requeue."""
    leases, name = history.leases(), grant.lease.lease_id
    leases.grant(grant, grant.since)
    leases.revoke(name, replace(REVOKE, revoke_id=f"r-{name}"), at)
    leases.move(name, LeaseState.SIGNALLED, at + 1)
    leases.move(name, LeaseState.SAVED, at + 5, "the job says so")
    leases.move(name, LeaseState.REQUEUED, at + 6)
    for number, state in enumerate(more):
        leases.move(name, state, at + 10 + number)


@each_engine
def test_what_a_requeued_job_had_waited(history: History) -> None:
    first = attempt(7, 1000, eligible_time=1100, start_time=1300, end_time=2000, **ENDED)
    tell(history, first, pending(7, 2000, restarts=1))
    assert history.leases().waits(CLUSTER) == {}
    requeued(history, lease(1), 1900)
    assert history.leases().waits(CLUSTER) == {KEY: 200}  # from when it could start
    assert history.leases().waits("beta") == {}
    history.leases().move("l1", LeaseState.REGRANTED, 2500)
    assert history.leases().waits(CLUSTER) == {}  # it waits no more


def test_all_attempts_before_count_and_those_after_do_not(history: History) -> None:
    tell(
        history,
        attempt(7, 1000, start_time=1300, end_time=2000, restarts=0, **ENDED),
        attempt(7, 2000, eligible_time=2121, start_time=2200, end_time=3000, restarts=1, **ENDED),
        running(7, 3000, restarts=2, start_time=3500),  # which no round has seen yet
        attempt(8, 1000, start_time=1900, end_time=3000),
    )
    requeued(history, lease(1), 1900, LeaseState.REGRANTED)
    requeued(history, lease(2, attempt=2000), 2900)
    assert history.leases().waits(CLUSTER) == {KEY: 300 + 79}


def test_a_job_whose_past_nobody_has_told_is_owed_nothing(history: History) -> None:
    requeued(history, lease(1), 1900)
    assert history.leases().waits(CLUSTER) == {}


@pytest.fixture
def revoked(history: History) -> History:
    for number, at in ((1, 5000), (2, 6000), (3, 5500)):
        requeued(history, lease(number, JobKey(CLUSTER, number, epoch=1000)), at)
    history.leases().grant(lease(4), 1300)  # nobody takes it
    return history


def test_revoked_leases_come_with_their_way_the_latest_first(revoked: History) -> None:
    found = revoked.leases().revoked(CLUSTER, None, 2)
    assert [past.grant.lease.lease_id for past in found] == ["l2", "l3"]
    way = ["granted", "ending", "signalled", "saved", "requeued"]
    assert [[e.after.value for e in past.events] for past in found] == [way, way]
    assert found[0].events[3].detail == "the job says so"
    assert found[0].grant.revoke == replace(REVOKE, revoke_id="r-l2")
    assert revoked.leases().revoked("beta", None, 9) == []


def test_those_of_one_job(revoked: History) -> None:
    (found,) = revoked.leases().revoked(CLUSTER, JobId(3), 9)
    assert found.grant.key.job_id == 3
    assert revoked.leases().revoked(CLUSTER, JobId(7), 9) == []
