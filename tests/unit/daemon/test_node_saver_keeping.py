"""Energy saving: what it keeps and when, what it counts, and that nothing ends the rounds."""

from __future__ import annotations

import sqlite3
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from support.saving import INTERVAL_S, Killed, Saving, asleep

from gsched.engine.faults import FaultPoint
from gsched.errors import LostLeadershipError, UnavailableError
from gsched.model.job import JobState
from gsched.model.journal import ChangeState
from gsched.policy.ces import Ces
from gsched.policy.ces_state import CesDecision, CesMemory, CesState
from gsched_sql import History


@pytest.mark.parametrize(
    "damaged",
    [
        "substr(memory, 1, 20)",
        "'[1, 2]'",
        "'7'",
        "'{\"last_wake\": 1}'",
        "printf('%.100000c', '[')",
    ],
)
def test_a_memory_of_any_damage_is_begun_anew(damaged: str, tmp_path: Path) -> None:
    file = tmp_path / "history.db"
    History.create(f"sqlite:///{file}")
    with History.open(f"sqlite:///{file}") as history:
        saving = Saving()
        saving.log = history.power_log("alpha")
        saving.restart()
        saving.rounds(120)
        assert saving.slurm.powers().count("O") == 7
        with closing(sqlite3.connect(file)) as direct, direct:
            direct.execute(f"UPDATE power_memory SET memory = {damaged}")
        saving.restart()
        saving.slurm.submit(nodes=3)
        saving.rounds(300)
        assert saving.saver.document()["problem"] == ""
        assert saving.slurm.powers().count("U") == 4
        assert saving.log.memory()["last_wake"]


@pytest.mark.parametrize(
    "fault", [OSError("disk"), RuntimeError("x"), RecursionError("x"), AssertionError("x")]
)
def test_no_error_but_a_lost_lead_ends_the_rounds(fault: Exception, caplog) -> None:
    saving = Saving()

    def fail() -> None:
        raise fault

    nodes, saving.slurm.read_nodes = saving.slurm.read_nodes, fail
    saving.restart()
    saving.rounds(120)
    assert saving.saver.document()["problem"] == f"{type(fault).__name__}: {fault}"
    assert caplog.text.count("a fault of gsched") == 1
    saving.slurm.read_nodes = nodes
    saving.restart()
    saving.rounds(120)
    assert saving.slurm.powers().count("O") == 7
    saving.log.is_lost = True
    with pytest.raises(LostLeadershipError):
        saving.rounds(600)


def test_orders_that_always_come_too_late_are_told_of_and_decided_less_often(caplog) -> None:
    saving = Saving(period_s=30)
    outlook = saving.demand.outlook

    def slow(pool: str, now: int):
        saving.slurm.pass_time(61)
        return outlook(pool, now)

    saving.demand.outlook = slow
    saving.rounds(3600)
    why = "from the look at the nodes to the orders it took longer than orders are good for"
    assert saving.saver.document()["why"] == why
    assert caplog.text.count(why) == 1
    assert not saving.helper.asked
    assert 2 <= len({entry.order.decided_at for entry in saving.orders()}) <= 10
    saving.demand.outlook = outlook
    saving.rounds(7200)
    assert saving.saver.document()["why"] == ""
    assert saving.slurm.powers().count("O") == 7


def test_orders_are_counted_once_they_are_written_and_once_only(monkeypatch) -> None:
    saving = Saving()
    settle = saving.log.settle
    saving.round()
    saving.slurm.pass_time(INTERVAL_S)

    def fail(*_: object) -> None:
        raise UnavailableError("the database is locked")

    monkeypatch.setattr(saving.log, "settle", fail)
    saving.rounds(300)
    assert _totals(saving) == {"sent": 7}
    monkeypatch.setattr(saving.log, "settle", settle)
    saving.rounds(300)
    assert _totals(saving) == {"sent": 7, "confirmed": 7}
    assert [state for *_, state in saving.told()] == ["confirmed"] * 7


def test_a_part_that_was_written_counts_also_where_the_next_one_fails(monkeypatch) -> None:
    saving = Saving()
    settle = saving.log.settle

    def fail_later(*settled: Any) -> None:
        if any(entry.state is ChangeState.SENT for entry in saving.orders()):
            raise UnavailableError("the database is locked")
        settle(*settled)

    monkeypatch.setattr("gsched.daemon.ces_send.CHUNK_NODES", 2)
    monkeypatch.setattr(saving.log, "settle", fail_later)
    saving.round()
    assert saving.saver.document()["problem"] == "the database is locked"
    assert _totals(saving) == {"sent": 2}


def test_what_was_decided_is_remembered_before_anything_is_sent() -> None:
    saving = asleep()
    before = saving.log.memory()
    saving.slurm.submit(nodes=3)
    found: list[object] = []

    def kill(point: FaultPoint) -> None:
        if point is FaultPoint.CES_INTENT_RECORDED:
            found.append(saving.log.memory())
            raise Killed

    saving.on_point = kill
    with pytest.raises(Killed):
        saving.round()
    (kept,) = found
    assert kept["last_wake"] != before["last_wake"]
    assert set(kept["last_wake"].values()) == {saving.slurm.time}


def test_a_job_that_waits_over_a_restart_keeps_its_delay() -> None:
    saving = asleep()
    saving.slurm.submit(nodes=3)
    saving.round()
    (delay,) = saving.log.delays(0, 2**40)
    assert delay.started_at is None
    saving.restart()
    saving.slurm.pass_time(INTERVAL_S)
    while any(row.state is not JobState.RUNNING for row in saving.slurm.rows.values()):
        saving.round()
        saving.slurm.pass_time(INTERVAL_S)
    saving.rounds(60)
    (delay,) = saving.log.delays(0, 2**40)
    assert delay.started_at is not None


def test_of_nodes_that_slurm_does_not_know_any_more_nothing_is_told() -> None:
    saving = Saving(spare=7, failure_memory_s=86400)
    saving.slurm.loses = set(saving.slurm.machines)
    saving.rounds(3 * 3600)
    gone = next(iter(saving.saver.document()["given_up"]))
    del saving.slurm.machines[gone]
    saving.round()
    assert gone not in saving.saver.document()["given_up"]


def _totals(saving: Saving) -> Counter[str]:
    found: Counter[str] = Counter()
    for (_, state), number in saving.saver.totals.items():
        found[state.value] += number
    return found


def test_the_topology_is_read_anew_now_and_then_and_told_to_the_policy(monkeypatch) -> None:
    saving, read = Saving(), []
    told: list[str] = []

    def switches() -> dict[str, str]:
        read.append(saving.slurm.time)
        return dict.fromkeys(saving.slurm.machines, f"leaf{len(read)}")

    decide = Ces.decide

    def seen(policy: Ces, state: CesState, memory: CesMemory) -> CesDecision:
        told.append({node.switch for node in state.nodes}.pop())
        return decide(policy, state, memory)

    monkeypatch.setattr(Ces, "decide", seen)
    saving.read_switches = switches
    saving.restart()
    saving.rounds(1860)
    assert [at - read[0] for at in read] == [0, 900, 1800]
    assert told[0] == "leaf1"
    assert told[-1] == "leaf3"


def test_slurm_that_shows_no_nodes_is_not_believed() -> None:
    saving = asleep()
    machines = dict(saving.slurm.machines)
    saving.slurm.machines.clear()
    saving.round()
    assert saving.saver.document()["problem"] == "scontrol shows no nodes"
    saving.slurm.machines |= machines
    saving.slurm.pass_time(INTERVAL_S)
    saving.round()
    assert saving.saver.document()["problem"] == ""
    assert (saving.pool["asleep"], saving.pool["excluded"]) == (7, 0)


def test_wake_ups_that_were_not_sent_are_owed() -> None:
    saving = asleep(period_s=3600)
    saving.slurm.submit(nodes=3)
    saving.may_act = True

    def halt(point: FaultPoint) -> None:
        saving.may_act = point is not FaultPoint.CES_INTENT_RECORDED

    saving.on_point = halt
    saving.round()
    assert ("wake", "void") in {(verb, state) for verb, _, state in saving.told()}
    saving.on_point, saving.may_act = (lambda _point: None), True
    saving.slurm.pass_time(INTERVAL_S)
    saving.rounds(120)
    assert saving.slurm.powers().count("U") == 4


def test_other_settings_hold_for_orders_that_are_known_already() -> None:
    saving = Saving(spare=7, failure_memory_s=86400)
    saving.slurm.loses = set(saving.slurm.machines)
    saving.rounds(3 * 3600)
    assert len(saving.saver.document()["given_up"]) >= 1
    saving.configure(failure_memory_s=60)
    saving.slurm.pass_time(120)
    saving.round()
    assert not saving.saver.document()["given_up"]
