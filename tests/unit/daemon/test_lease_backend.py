"""Leases on a live Slurm: what is asked and read there; tests/slurm/test_leases.py has the rest."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace

import pytest
from support.jobs import T0, view
from support.queue import row
from support.requests import MemoryRequests

from gsched.daemon.lease_backend import ASKS_AGAIN_S, SLURMS_TIME_S, LiveLeases, tell
from gsched.daemon.requests import RequestBook, Sighting
from gsched.engine.leases import JobSeen, Move, SaveReport, Verb
from gsched.errors import UnavailableError
from gsched.model.accounts import LeaseGrant
from gsched.model.cluster import NodeView
from gsched.model.job import JobKey, JobState, Lease, LeaseState
from gsched.slurm.exclusions import Rules
from gsched.slurm.own_preemption import OwnPreemption, of_qos
from gsched.slurm.records import NodeFacts, QueueRow, SlurmConfig, UpdateOutcome

KEY = JobKey("c", 7, epoch=T0)
GRANT = LeaseGrant(Lease("l1", LeaseState.GRANTED, T0, 3600), KEY, T0, 8)


class Client:
    """Shows some rows, and keeps what it was told to do."""

    def __init__(self, *rows: QueueRow) -> None:
        self.rows = rows
        self.did: list[tuple[str, ...]] = []
        self.preemption: OwnPreemption | None = OwnPreemption()
        self.asked = 0
        self.boot, self.nodes = "100", [node("mixed", None), node("idle", 50)]
        self.asked_nodes = 0

    def config(self) -> SlurmConfig:
        return SlurmConfig({"BOOT_TIME": self.boot})

    def node_facts(self) -> list[NodeFacts]:
        self.asked_nodes += 1
        return self.nodes

    def own_preemption(self, _config: SlurmConfig) -> OwnPreemption:
        self.asked += 1
        if self.preemption is None:
            raise UnavailableError("slurmdbd does not answer")
        return self.preemption

    def jobs(self, slurm_ids: Sequence[str]) -> tuple[QueueRow, ...]:
        return tuple(r for r in self.rows if r.slurm_id in slurm_ids)

    def signal(self, slurm_id: str, name: str) -> UpdateOutcome:
        self.did.append(("signal", slurm_id, name))
        return UpdateOutcome(slurm_id, "")

    def requeue(
        self, slurm_ids: Sequence[str], *, unfinished_only: bool
    ) -> tuple[UpdateOutcome, ...]:
        self.did.append(("requeue", *slurm_ids, *["unfinished"] * unfinished_only))
        return tuple(UpdateOutcome(i, "no") for i in slurm_ids)


def node(state: str, boot_time: int | None, *flags: str) -> NodeFacts:
    seen = NodeView("gn01", state, flags, 8, 1 << 30, (("", 2),), ("gpu",))
    return NodeFacts(seen, boot_time, None, "")


def running(**values: object) -> QueueRow:
    made = replace(row(7), state=JobState.RUNNING, submit_time=T0, is_batch=True, restarts=2)
    return replace(made, **values)  # type: ignore[arg-type]


def asked(comment: str = "gs1{ckpt}", *keys: JobKey) -> RequestBook:
    """A book in which these jobs, by default KEY, have been seen with this comment."""
    book = RequestBook(MemoryRequests())
    book.look([Sighting(key, "games", comment) for key in keys or [KEY]], T0)
    return book


def live(client: Client, book: RequestBook, rules: Rules | None = None) -> LiveLeases:
    return LiveLeases(client, SlurmConfig({}), rules or Rules(), book)  # type: ignore[arg-type]


def test_a_job_is_seen_with_its_attempt_and_state() -> None:
    found = live(Client(running()), asked()).observe([KEY, JobKey("c", 8)])
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
    leases = live(Client(seen), asked("gs1{ckpt}", key))
    assert leases.observe([key])[key].excluded == code


@pytest.mark.parametrize("comment", ["", "gs1{share}", "gs1{ckpt", "gs1{ckpt} mine"])
def test_whose_user_has_not_asked_for_checkpoints_is_left_alone(comment: str) -> None:
    seen = live(Client(running()), asked(comment)).observe([KEY])[KEY]
    assert seen.excluded == "no-checkpoint"


def test_the_site_may_exclude_whoever_has_asked() -> None:
    rules = Rules(accounts=frozenset({running().tenant}))
    assert live(Client(running()), asked(), rules).observe([KEY])[KEY].excluded == (
        "excluded-account"
    )


def test_what_is_asked_later_counts_at_once() -> None:
    book = asked()
    leases = live(Client(running()), book)
    assert leases.observe([KEY])[KEY].excluded == ""
    book.look([Sighting(KEY, "games", "gs1{none,ckpt}")], T0)
    assert leases.observe([KEY])[KEY].excluded == "opted-out"


def test_a_task_is_judged_by_the_request_of_its_array() -> None:
    task = replace(KEY, array_task=3)
    client = Client(running(array_task=3))
    assert live(client, asked("gs1{ckpt}", KEY)).observe([task])[task].excluded == ""


def test_acts_are_one_command_each_and_refusals_come_back() -> None:
    client = Client()
    leases = live(client, asked())
    assert leases.act(Verb.SIGNAL, replace(KEY, array_task=3)) == ""
    assert leases.act(Verb.REQUEUE, KEY) == "no"
    assert client.did == [("signal", "7_3", "USR1"), ("requeue", "7", "unfinished")]


def test_whose_heartbeat_it_is_says_the_captured_request() -> None:
    asked_of = []

    def reports(grant: LeaseGrant, user: str) -> SaveReport:
        asked_of.append((grant, user))
        return SaveReport(5, 4)

    leases = LiveLeases(Client(), SlurmConfig({}), Rules(), asked(), reports)  # type: ignore[arg-type]
    assert leases.report(GRANT) == SaveReport(5, 4)
    assert leases.report(replace(GRANT, key=JobKey("c", 8))) is None
    assert asked_of == [(GRANT, "games")]
    assert live(Client(), asked()).report(GRANT) is None


HIGH, LOW = "high|low|cluster|00:00:00\n", "low||cluster|00:00:00\n"


def test_what_slurm_preempts_is_left_to_it_for_a_while() -> None:
    client, moment = Client(), [0.0]
    client.preemption = of_qos(HIGH + LOW, "REQUEUE")
    config = SlurmConfig({"PreemptType": "preempt/qos"})
    leases = LiveLeases(
        client,
        config,
        Rules(),
        asked(),
        monotonic=lambda: moment[0],  # type: ignore[arg-type]
    )
    victim, other = replace(view(7), qos="low"), replace(view(8), qos="high")
    assert leases.is_slurms(victim, other)
    assert not leases.is_slurms(other, victim)
    assert not leases.is_slurms(victim, replace(view(8), qos="low"))
    assert client.asked == 1
    client.preemption = None  # slurmdbd is silent: what was known stands
    moment[0] = SLURMS_TIME_S - 1
    assert leases.is_slurms(victim, other)
    assert client.asked == 2
    moment[0] = SLURMS_TIME_S  # Slurm does not
    assert not leases.is_slurms(victim, other)
    assert leases.is_slurms(replace(victim, attempt=victim.attempt + 1), other)


def test_none_gives_way_until_slurmctld_has_heard_of_its_nodes() -> None:
    """Slurm 22.05 would give the GPUs away at once, and whoever got them would fail."""
    client, moment = Client(), [0.0]
    leases = LiveLeases(
        client,  # type: ignore[arg-type]
        SlurmConfig({}),
        Rules(),
        asked(),
        monotonic=lambda: moment[0],
    )
    assert [leases.starts_safely(), leases.starts_safely()] == [False, False]
    assert client.asked_nodes == 1  # not once more for each lease
    client.nodes = [node("mixed", 50), node("idle", 50)]
    moment[0] += ASKS_AGAIN_S
    assert [leases.starts_safely(), leases.starts_safely()] == [True, True]
    assert client.asked_nodes == 2
    client.boot, client.nodes = "200", [node("mixed", 50), node("unknown", None)]
    assert not leases.starts_safely()


@pytest.mark.parametrize(
    "away",
    [
        node("down", None),
        node("idle", None, "powered_down"),
        node("idle", None, "not_responding"),
        node("idle", None, "drain"),
        node("future", None),
    ],
)
def test_a_node_that_is_not_there_is_not_waited_for(away: NodeFacts) -> None:
    client = Client()
    client.nodes = [node("mixed", 50), away]
    assert live(client, asked()).starts_safely()


def test_how_long_slurm_keeps_a_requeued_job_waiting() -> None:
    leases = live(Client(), asked())
    assert leases.wait_s == 121
    leases.configure(SlurmConfig({"AuthInfo": "socket=/x,cred_expire=30"}), Rules())
    assert leases.wait_s == 31
    leases.configure(SlurmConfig({"AuthInfo": "cred_expire=soon"}), Rules())
    assert leases.wait_s == 121


def test_transitions_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "gsched.daemon"):
        tell(GRANT, Move(LeaseState.GRANTED))
        tell(GRANT, Move(LeaseState.SAVED, "its grace of 60 s is over"))
        tell(GRANT, Move(LeaseState.KEPT, "has not saved within 60 s", is_unsaved=True))
        tell(GRANT, Move(LeaseState.ENDED, "failed"))
        tell(GRANT, Move(LeaseState.ENDED, "failed after it was told", is_of_signal=True))
    assert caplog.messages == [
        "lease l1 of job 7: saved (its grace of 60 s is over)",
        "lease l1 of job 7: kept (has not saved within 60 s)",
        "lease l1 of job 7: ended (failed)",
        "lease l1 of job 7: ended (failed after it was told)",
    ]
    assert [r.levelname for r in caplog.records] == ["INFO", "WARNING", "INFO", "WARNING"]
