"""Leases on a live Slurm: what is asked and read there; tests/slurm/test_leases.py has the rest."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace

import pytest
from support.jobs import T0
from support.queue import row
from support.requests import MemoryRequests

from gsched.daemon.lease_backend import LiveLeases, own_preemption, tell
from gsched.daemon.requests import RequestBook, Sighting
from gsched.engine.leases import JobSeen, Move, Verb
from gsched.model.accounts import LeaseGrant
from gsched.model.job import JobKey, JobState, Lease, LeaseState
from gsched.slurm.exclusions import Rules
from gsched.slurm.records import QueueRow, SlurmConfig, UpdateOutcome

KEY = JobKey("c", 7, epoch=T0)
GRANT = LeaseGrant(Lease("l1", LeaseState.GRANTED, T0, 3600), KEY, T0, 8)
EVERYBODY_SAVES = Rules(saves=lambda _: True)


class Client:
    """Shows some rows, and keeps what it was told to do."""

    def __init__(self, *rows: QueueRow) -> None:
        self.rows = rows
        self.did: list[tuple[str, ...]] = []

    def jobs(self, slurm_ids: Sequence[str]) -> tuple[QueueRow, ...]:
        return tuple(r for r in self.rows if r.slurm_id in slurm_ids)

    def signal(self, slurm_id: str, name: str) -> UpdateOutcome:
        self.did.append(("signal", slurm_id, name))
        return UpdateOutcome(slurm_id, "")

    def requeue(self, slurm_ids: Sequence[str]) -> tuple[UpdateOutcome, ...]:
        self.did.append(("requeue", *slurm_ids))
        return tuple(UpdateOutcome(i, "no") for i in slurm_ids)


def running(**values: object) -> QueueRow:
    made = replace(row(7), state=JobState.RUNNING, submit_time=T0, is_batch=True, restarts=2)
    return replace(made, **values)  # type: ignore[arg-type]


def live(
    client: Client, rules: Rules = EVERYBODY_SAVES, config: dict[str, str] | None = None
) -> LiveLeases:
    return LiveLeases(client, SlurmConfig(config or {}), rules, RequestBook(MemoryRequests()))  # type: ignore[arg-type]


def test_a_job_is_seen_with_its_attempt_and_state() -> None:
    found = live(Client(running())).observe([KEY, JobKey("c", 8)])
    assert found == {KEY: JobSeen(T0, 2, JobState.RUNNING)}


@pytest.mark.parametrize(
    ("changed", "code"),
    [
        ({"can_requeue": False}, "no-requeue"),
        ({"reservation": "course"}, "reservation"),
        ({"is_batch": False}, "interactive"),
        ({"het_offset": 0}, "het-component"),
    ],
)
def test_what_must_not_be_requeued_is_said_at_every_look(
    changed: dict[str, object], code: str
) -> None:
    seen = running(**changed)
    key = replace(KEY, het_offset=seen.het_offset)
    assert live(Client(seen)).observe([key])[key].excluded == code


def test_today_no_job_has_asked_for_checkpoints() -> None:
    assert live(Client(running()), Rules()).observe([KEY])[KEY].excluded == "no-checkpoint"


def test_an_opt_out_counts_at_once() -> None:
    book = RequestBook(MemoryRequests())
    leases = LiveLeases(Client(running()), SlurmConfig({}), EVERYBODY_SAVES, book)  # type: ignore[arg-type]
    assert leases.observe([KEY])[KEY].excluded == ""
    book.look([Sighting(KEY, "games", "gs1{none}")], T0)
    assert leases.observe([KEY])[KEY].excluded == "opted-out"


def test_acts_are_one_command_each_and_refusals_come_back() -> None:
    client = Client()
    leases = live(client)
    assert leases.act(Verb.SIGNAL, replace(KEY, array_task=3)) == ""
    assert leases.act(Verb.REQUEUE, KEY) == "no"
    assert client.did == [("signal", "7_3", "USR1"), ("requeue", "7")]
    assert leases.saved(GRANT) is None


def test_how_long_slurm_keeps_a_requeued_job_waiting() -> None:
    leases = live(Client())
    assert leases.wait_s == 121
    leases.configure(SlurmConfig({"AuthInfo": "socket=/x,cred_expire=30"}), Rules())
    assert leases.wait_s == 31
    leases.configure(SlurmConfig({"AuthInfo": "cred_expire=soon"}), Rules())
    assert leases.wait_s == 121


def test_slurms_own_preemption_is_told_where_it_requeues() -> None:
    qos = {"PreemptType": "preempt/qos", "PreemptMode": "REQUEUE"}
    assert "preempt/qos, REQUEUE), and does not tell" in own_preemption(SlurmConfig(qos))
    for flags in (
        {"SlurmctldParameters": "preempt_send_user_signal"},
        {"PreemptParameters": "youngest_first,send_user_signal"},
    ):
        assert "and tells jobs by their own --signal" in own_preemption(SlurmConfig(qos | flags))
    for other in (
        {},
        {"PreemptType": "preempt/none", "PreemptMode": "OFF"},
        {"PreemptType": "preempt/partition_prio", "PreemptMode": "GANG,SUSPEND"},
    ):
        assert own_preemption(SlurmConfig(other)) == ""


def test_transitions_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "gsched.daemon"):
        tell(GRANT, Move(LeaseState.GRANTED))
        tell(GRANT, Move(LeaseState.SAVED, "its grace of 60 s is over"))
    assert caplog.messages == ["lease l1 of job 7: saved (its grace of 60 s is over)"]
