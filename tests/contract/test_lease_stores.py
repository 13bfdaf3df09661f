"""One body for both lease stores: what the driver counts on, in memory and in SQL."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
from support.memory_leases import MemoryLeases
from support.servers import database_on

from gsched.engine.lease_ports import LeaseStore
from gsched.errors import GschedError
from gsched.model.accounts import LeaseEvent, LeaseGrant, LeaseRevoke, Told
from gsched.model.job import JobKey, Lease, LeaseState
from gsched_sql import History

KEY = JobKey("alpha", 7, array_task=3, epoch=1000)
GRANT = LeaseGrant(Lease("l1", LeaseState.GRANTED, 2000, 3600), KEY, 1500, 8, 2, 2000)
REVOKE = LeaseRevoke("r1", 60, 5700, "12_3")
PATH = [LeaseState.ENDING, LeaseState.SIGNALLED, LeaseState.SAVED, LeaseState.REQUEUED]


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest) -> Iterator[LeaseStore]:
    if request.param == "memory":
        yield MemoryLeases()
        return
    with database_on("sqlite", request) as url, History.open(url) as history:
        yield history.leases()


def states(store: LeaseStore, lease_id: str = "l1") -> list[LeaseState]:
    return [event.after for event in store.events(lease_id)]


def test_a_lease_goes_through_its_states_once(store: LeaseStore) -> None:
    for _ in range(2):  # what is told again changes nothing
        store.grant(GRANT, 2000, "first")
        store.revoke("l1", REVOKE, 5600, "time is up")
        store.move("l1", LeaseState.SIGNALLED, 5601)
        store.move("l1", LeaseState.SAVED, 5661, "its grace is over")
    assert store.events("l1") == [
        LeaseEvent(2000, None, LeaseState.GRANTED, "first"),
        LeaseEvent(5600, LeaseState.GRANTED, LeaseState.ENDING, "time is up"),
        LeaseEvent(5601, LeaseState.ENDING, LeaseState.SIGNALLED, ""),
        LeaseEvent(5661, LeaseState.SIGNALLED, LeaseState.SAVED, "its grace is over"),
    ]
    saved = replace(GRANT.lease, state=LeaseState.SAVED)
    assert store.standing("alpha") == [replace(GRANT, lease=saved, since=5661, revoke=REVOKE)]
    assert store.standing("beta") == []
    assert store.save_times("alpha") == [60]
    assert store.save_times("beta") == []
    store.move("l1", LeaseState.REQUEUED, 5662)
    store.move("l1", LeaseState.REGRANTED, 5800)
    assert store.standing("alpha") == []


@pytest.mark.parametrize("end", [state for state in LeaseState if state.is_over])
def test_what_is_over_stands_no_more_and_stays_so(store: LeaseStore, end: LeaseState) -> None:
    store.grant(GRANT, 2000)
    for number, state in enumerate(PATH):
        if LeaseState(store.standing("alpha")[0].lease.state).may_become(end):
            break
        if state is LeaseState.ENDING:
            store.revoke("l1", REVOKE, 5600)
        else:
            store.move("l1", state, 5601 + number)
    store.move("l1", end, 6000)
    assert store.standing("alpha") == []
    for state in LeaseState:
        if state is not end and state not in states(store):
            with pytest.raises(GschedError, match=f"is {end.value}, it cannot become"):
                store.move("l1", state, 7000)


def test_no_step_is_left_out(store: LeaseStore) -> None:
    store.grant(GRANT, 2000)
    with pytest.raises(GschedError, match="is granted, it cannot become signalled"):
        store.move("l1", LeaseState.SIGNALLED, 5600)
    with pytest.raises(GschedError, match="no lease l2"):
        store.move("l2", LeaseState.ENDING, 5601)
    with pytest.raises(GschedError, match="no lease l2"):
        store.revoke("l2", REVOKE, 5601)
    assert states(store) == [LeaseState.GRANTED]
    assert store.events("l2") == []


def test_one_id_is_one_lease(store: LeaseStore) -> None:
    store.grant(GRANT, 2000)
    for other in (replace(GRANT, num_gpus=4), replace(GRANT, restarts=3)):
        with pytest.raises(GschedError, match="another lease has the id l1"):
            store.grant(other, 2000)
    assert len(store.events("l1")) == 1


def test_one_revoke_at_a_time(store: LeaseStore) -> None:
    store.grant(GRANT, 2000)
    store.revoke("l1", REVOKE, 5600)
    store.move("l1", LeaseState.SIGNALLED, 5601)
    store.revoke("l1", REVOKE, 5602)
    with pytest.raises(GschedError, match="is revoked by r1 already"):
        store.revoke("l1", replace(REVOKE, revoke_id="r2"), 5603)
    assert store.standing("alpha")[0].revoke == REVOKE
    assert states(store)[-1] is LeaseState.SIGNALLED


def test_a_renewal_is_both_or_none(store: LeaseStore) -> None:
    store.grant(GRANT, 2000)
    following = replace(GRANT, lease=Lease("l2", LeaseState.GRANTED, 5600, 3600), since=5500)
    for _ in range(2):
        store.renew("l1", following, 5500, "again")
    assert store.standing("alpha") == [following]
    assert states(store) == [LeaseState.GRANTED, LeaseState.RENEWED]
    with pytest.raises(GschedError, match="there is no lease l9"):
        store.renew("l9", replace(following, lease=Lease("l3", LeaseState.GRANTED, 1, 1)), 5501)
    assert store.events("l3") == []


def test_what_was_done_when_a_job_was_told_is_kept(store: LeaseStore) -> None:
    store.grant(GRANT, 2000)
    store.revoke("l1", REVOKE, 5600)
    assert store.standing("alpha")[0].told is None
    told = Told(2**40, "0123456789ab", 2**41)
    store.move("l1", LeaseState.SIGNALLED, 5601, told=told)
    store.move("l1", LeaseState.SIGNALLED, 5602, told=Told(7))  # is told again: nothing changes
    store.move("l1", LeaseState.SAVED, 5610)
    assert store.standing("alpha")[0].told == told


def test_the_latest_saves_come_first(store: LeaseStore) -> None:
    for number in range(25):
        lease_id, at = f"n{number}", 6000 + 100 * number
        mine = replace(GRANT, lease=Lease(lease_id, LeaseState.GRANTED, 2000, 3600))
        store.grant(mine, 2000)
        store.revoke(lease_id, replace(REVOKE, revoke_id=f"r{number}"), at)
        store.move(lease_id, LeaseState.SIGNALLED, at)
        store.move(lease_id, LeaseState.SAVED, at + number)
    assert list(store.save_times("alpha")) == list(range(24, 4, -1))
