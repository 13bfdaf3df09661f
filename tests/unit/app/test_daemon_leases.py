"""The leases of a live cluster, put together: how long they are, and what jobs are owed."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from support.history import attempt, batch
from support.slurm_bench import Bench

from gsched.app.daemon_leases import FRONT_S, Leases
from gsched.app.daemon_parts import Live
from gsched.app.wiring import now
from gsched.engine.leases import Move
from gsched.model.accounts import LeaseGrant, LeaseRevoke
from gsched.model.cluster import ClusterState
from gsched.model.job import JobKey, JobState, Lease, LeaseState
from gsched.policy.lease_length import lease_lengths
from gsched.policy.registry import load, load_scoped
from gsched.slurm.records import SlurmConfig
from gsched_sql import History

CONFIG = SlurmConfig(
    {
        "AuthInfo": "cred_expire=120",
        "PriorityWeightAge": "1000",
        "PriorityMaxAge": "1-00:00:00",
        "AccountingStorageType": "accounting_storage/slurmdbd",
    }
)
KEY = JobKey("c", 7, epoch=1000)


@pytest.fixture
def history(tmp_path: Path) -> Iterator[History]:
    url = f"sqlite:///{tmp_path / 'history.db'}"
    History.create(url)
    with History.open(url) as opened:
        yield opened


@pytest.fixture
def leases(history: History) -> Leases:
    bench = Bench(1)
    made = Leases(Live(bench.client, CONFIG, bench.backend), history, None)  # type: ignore[arg-type]
    made.configure(CONFIG, allowed=True)
    return made


def saved(history: History, number: int, seconds: int, *more: LeaseState) -> None:
    """A job has needed so long to save at the end of its lease."""
    store, name = history.leases(), f"l{number}"
    key = replace(KEY, job_id=number)
    lease = Lease(name, LeaseState.GRANTED, 2000, 100)
    store.grant(LeaseGrant(lease, key, 1000, 8, since=2000), 2000)
    store.revoke(name, LeaseRevoke(f"r{number}", 600, 9000), 3000)
    store.move(name, LeaseState.SIGNALLED, 3000)
    store.move(name, LeaseState.SAVED, 3000 + seconds)
    for state in more:
        store.move(name, state, 3001 + seconds)


def test_a_policy_gets_the_length_that_the_hand_over_asks_for(
    leases: Leases, history: History
) -> None:
    policy = load("ltgf")
    fitted = leases.fitted(policy, {})
    assert lease_lengths(fitted) == (20 * (60 + 121),)  # before anybody has saved
    saved(history, 1, 10)
    assert lease_lengths(leases.fitted(policy, {})) == (3600,)  # an hour at the least
    for number in (2, 3, 4):
        saved(history, number, 300)
    assert lease_lengths(leases.fitted(fitted, {})) == (20 * (300 + 121),)


def test_a_hand_over_takes_what_slurms_configuration_says_now(leases: Leases) -> None:
    waits = SlurmConfig({**CONFIG.values, "AuthInfo": "cred_expire=300"})
    leases.configure(waits, allowed=True)
    assert lease_lengths(leases.fitted(load("ltgf"), {})) == (20 * (60 + 301),)


def test_a_length_changes_only_when_it_has_to(leases: Leases, history: History) -> None:
    """It would else change with every job that saves, and with it what tenants are charged."""
    saved(history, 1, 200)
    fitted = leases.fitted(load("ltgf"), {})
    assert lease_lengths(fitted) == (20 * 321,)
    for number in range(2, 9):
        saved(history, number, 160)
    assert leases.fitted(fitted, {}) is fitted  # 5,620 s would do
    for number in range(9, 30):
        saved(history, number, 10)
    assert lease_lengths(leases.fitted(fitted, {})) == (3600,)


def test_the_sites_own_length_stands_and_one_that_is_too_short_is_told_once(
    leases: Leases, caplog: pytest.LogCaptureFixture
) -> None:
    def warned(length_s: float) -> list[str]:
        caplog.clear()
        policy = load("ltgf", lease_s=length_s)
        with caplog.at_level(logging.WARNING, "gsched.daemon"):
            for _ in range(3):
                assert leases.fitted(policy, {"lease_s": length_s}) is policy
        return caplog.messages

    assert warned(7200.0) == []
    (words,) = warned(900.0)
    assert words == (
        "no leases are granted: a lease of 900 s is shorter than 20 hand-overs of 181 s: set "
        "lease_s in [daemon.knobs] to 3620 or more, or leave it out"
    )
    assert warned(3620.0) == []
    assert len(warned(900.0)) == 1


def test_what_does_not_lease_or_may_not_is_left_as_it_is(leases: Leases) -> None:
    plain = load("qssf")
    assert leases.fitted(plain, {}) is plain
    mixed = load_scoped("qssf", {"gpu": "ltgf", "long": "tiresias"}, {})
    assert lease_lengths(leases.fitted(mixed, {})) == (3620, 3620)
    leases.configure(CONFIG, allowed=False)
    assert leases.driver is None
    assert leases.fitted(load("ltgf"), {}).knob_values["lease_s"] == 900
    assert leases.facts(plain) is None


def test_requeued_jobs_are_owed_what_they_had_waited(leases: Leases, history: History) -> None:
    first = attempt(
        7, 1000, cluster="c", start_time=1000 + 8640, end_time=20_000, state=JobState.REQUEUED
    )
    history.ingest(batch(first), source_key=None)
    saved(history, 7, 10, LeaseState.REQUEUED)
    backend = leases._live.backend
    assert backend.repayment.points(KEY) == 0
    leases.configure(CONFIG, allowed=True)
    assert backend.repayment.points(KEY) == 100  # a tenth of the age factor
    again = Leases(leases._live, history, None)  # another daemon, later
    again.configure(CONFIG, allowed=True)
    assert backend.repayment.points(KEY) == 100
    leases.configure(CONFIG, allowed=False)
    assert backend.repayment.points(KEY) == 0


def revoked(history: History, number: int, whom: str, at: int, *more: LeaseState) -> None:
    """A lease that ended at `at` for another job, as far as it has come."""
    store, name = history.leases(), f"w{number}"
    key = replace(KEY, job_id=number)
    lease = Lease(name, LeaseState.GRANTED, at - 100, 100)
    store.grant(LeaseGrant(lease, key, 1000, 8, since=at - 100), at - 100)
    store.revoke(name, LeaseRevoke(f"rw{number}", 600, at + 900, whom), at)
    for state in more:
        store.move(name, state, at)


def test_whom_gpus_are_freed_for_is_known_to_who_orders(leases: Leases, history: History) -> None:
    there = [LeaseState.SIGNALLED, LeaseState.SAVED, LeaseState.REQUEUED]
    revoked(history, 1, "21", now())
    revoked(history, 2, "22_5", now(), *there[:2])
    revoked(history, 3, "23", now() - FRONT_S + 60, *there)
    revoked(history, 4, "24", now() - FRONT_S - 60, *there)  # it had its time
    revoked(history, 5, "25", now(), LeaseState.KEPT)
    driver, backend = leases.driver, leases._live.backend
    assert driver is not None
    driver.seen(backend_state(leases), acting=False)
    assert set(backend.freed_for()) == {"21", "22_5", "23"}
    leases.configure(CONFIG, allowed=False)
    assert set(backend.freed_for()) == set()


def backend_state(leases: Leases) -> ClusterState:
    backend = leases._live.backend
    backend.look()
    return backend.snapshot({})


def test_who_is_behind_others_is_known_to_who_takes(leases: Leases) -> None:
    assert leases.driver is not None
    port, backend = leases.driver.port, leases._live.backend
    assert not port.is_behind("7_3")
    backend.behind = frozenset({replace(KEY, array_task=3)})
    assert port.is_behind("7_3")
    assert not port.is_behind("7")


def test_what_leases_come_to_is_counted(leases: Leases) -> None:
    policy = leases.fitted(load("ltgf"), {})
    grant = LeaseGrant(Lease("l", LeaseState.GRANTED, 2000, 100), KEY, 1000, 8)
    leases._tell(grant, Move(LeaseState.KEPT, "has not saved within 60 s", is_unsaved=True))
    leases._tell(grant, Move(LeaseState.KEPT, "left alone: opted-out"))
    leases._tell(grant, Move(LeaseState.GRANTED))
    leases._tell(grant, Move(LeaseState.ENDED, "failed after it was told", is_of_signal=True))
    facts = leases.facts(policy)
    assert facts is not None
    assert facts.transitions == {"unsaved": 1, "kept": 1, "granted": 1, "ended_when_told": 1}
    assert (facts.length_s, facts.hand_over_s, facts.standing) == (3620, 181, {})
