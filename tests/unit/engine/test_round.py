"""The round: what it orders, journals and sends, and what it does not."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
from support.rounds import (
    JOBS,
    KilledError,
    backend_with,
    killed_at,
    order,
    runner_for,
    states,
)
from support.sim import job, simulated

from gsched.engine.faults import FaultPoint
from gsched.engine.memory_journal import MemoryJournal
from gsched.engine.ports import Plan
from gsched.engine.round import CHANGE_LIFE_S, REFUSAL_ROUNDS
from gsched.engine.settling import APPLY_CHUNK
from gsched.errors import GschedError
from gsched.model.cluster import ClusterState
from gsched.model.decision import Decision, JsonValue, Rank, Reason, Resize
from gsched.model.job import Capability, Exclusion
from gsched.model.journal import Change, ChangeState, Outcome, Readback
from gsched.policy.fifo import Fifo
from gsched.sim.backend import SimBackend


def test_acting_orders_by_gpu_time_and_confirms_each_change() -> None:
    backend = backend_with(JOBS)
    result = runner_for(backend, JOBS).run(acting=True)
    assert order(backend) == [2, 4, 3, 1]
    assert result.count(ChangeState.CONFIRMED) == len(result.changes) == 4
    assert {c.reason.code for c in result.changes} == {"qssf.predicted-gpu-time"}


def test_a_static_order_is_written_once() -> None:
    backend = backend_with(JOBS)
    runner = runner_for(backend, JOBS)
    runner.run(acting=True)
    assert runner.run(acting=True).changes == ()


def test_observing_decides_and_journals_once_but_writes_nothing() -> None:
    backend = backend_with(JOBS)
    journal = MemoryJournal()
    runner = runner_for(backend, JOBS, journal)
    first, second = runner.run(acting=False), runner.run(acting=False)
    assert order(backend) == [1, 2, 3, 4]
    assert len(first.changes) == 4
    assert second.changes == ()
    assert {e.state for e in journal.entries.values()} == {ChangeState.OBSERVED}
    assert journal.unsettled("c") == []


def test_the_intent_is_in_the_journal_before_anything_is_sent() -> None:
    journal = MemoryJournal()

    class Watched(SimBackend):
        def apply(self, changes: Sequence[Change]) -> list[Outcome]:
            states = {journal.entries[c.change_id].state for c in changes}
            assert states == {ChangeState.INTENT}
            return super().apply(changes)

    backend = Watched(*simulated(JOBS))
    backend.advance()
    assert runner_for(backend, JOBS, journal).run(acting=True).count(ChangeState.CONFIRMED) == 4


@pytest.mark.parametrize("acting", [True, False])
def test_the_journal_tells_when_it_was_decided(acting: bool) -> None:
    backend = backend_with(JOBS)
    times = itertools.count(5000)
    journal = MemoryJournal()
    runner_for(backend, JOBS, journal, clock=lambda: next(times)).run(acting=acting)
    (info,) = journal.rounds.values()
    ended_at, _ = journal.summaries[info.round_id]
    for entry in journal.entries.values():
        settled_at = ended_at if entry.settled_at is None else entry.settled_at
        assert 5000 <= info.started_at < entry.decided_at
        assert entry.decided_at <= settled_at <= ended_at


def test_a_job_that_starts_meanwhile_is_void_and_stops_nobody() -> None:
    class Racing(SimBackend):
        def apply(self, changes: Sequence[Change]) -> list[Outcome]:
            outcomes = super().apply(changes)
            self.start_jobs()  # everything fits: all jobs start before the re-read
            return outcomes

    backend = Racing(*simulated(JOBS))
    backend.advance()
    result = runner_for(backend, JOBS).run(acting=True)
    assert result.count(ChangeState.VOID) == 4
    assert "no longer waits" in next(iter(result.settled.values()))[1]


def test_a_refused_change_is_kept_with_its_error_and_the_others_go_on() -> None:
    class Refusing(SimBackend):
        def apply(self, changes: Sequence[Change]) -> list[Outcome]:
            kept = [c for c in changes if c.key.job_id != 2]
            refused = [Outcome(c.change_id, False, "denied") for c in changes if c not in kept]
            return super().apply(kept) + refused

    backend = Refusing(*simulated(JOBS))
    backend.advance()
    journal = MemoryJournal()
    result = runner_for(backend, JOBS, journal).run(acting=True)
    assert result.count(ChangeState.REJECTED) == 1
    assert result.count(ChangeState.CONFIRMED) == 3
    assert [e.detail for e in journal.entries.values() if e.state is ChangeState.REJECTED] == [
        "denied"
    ]


def test_excluded_jobs_are_neither_ranked_nor_moved() -> None:
    barred = (Exclusion(Capability.REORDER, "opted-out", "its user opted out"),)
    jobs = [*JOBS, job(5, duration_s=1, exclusions=barred)]
    backend = backend_with(jobs)
    result = runner_for(backend, jobs).run(acting=True)
    assert 5 not in {c.key.job_id for c in result.changes}
    assert 5 not in {k.job_id for k in result.decision.order}


def test_what_was_refused_twice_is_not_asked_for_again_for_a_while() -> None:
    class Refusing(SimBackend):
        asked = 0
        refuses = True

        def apply(self, changes: Sequence[Change]) -> list[Outcome]:
            self.asked += len(changes)
            if not self.refuses:
                return super().apply(changes)
            return [Outcome(c.change_id, False, "denied") for c in changes]

    backend = Refusing(*simulated(JOBS))
    backend.advance()
    runner = runner_for(backend, JOBS)
    for _ in range(2):  # the cause may have passed
        assert runner.run(acting=True).count(ChangeState.REJECTED) == 4
    for _ in range(REFUSAL_ROUNDS):
        assert runner.run(acting=True).changes == ()
    assert backend.asked == 8
    assert runner.run(acting=True).count(ChangeState.REJECTED) == 4
    for _ in range(REFUSAL_ROUNDS):
        assert runner.run(acting=True).changes == ()
    backend.refuses = False
    assert runner.run(acting=True).count(ChangeState.CONFIRMED) == 4
    assert order(backend) == [2, 4, 3, 1]


def test_two_refusals_with_a_change_that_was_taken_between_them_are_not_in_a_row() -> None:
    class Moody(SimBackend):
        refuses = True

        def apply(self, changes: Sequence[Change]) -> list[Outcome]:
            if not self.refuses:
                return super().apply(changes)
            return [Outcome(c.change_id, False, "denied") for c in changes]

    backend = Moody(*simulated(JOBS))
    backend.advance()
    runner = runner_for(backend, JOBS)
    assert runner.run(acting=True).count(ChangeState.REJECTED) == 4
    backend.refuses = False
    assert runner.run(acting=True).count(ChangeState.CONFIRMED) == 4
    backend.refuses, runner.policy = True, Fifo()  # another order, so that there is what to write
    refused = runner.run(acting=True).count(ChangeState.REJECTED)
    assert refused > 0
    assert runner.run(acting=True).count(ChangeState.REJECTED) == refused  # asked once more
    assert runner.run(acting=True).changes == ()


def test_what_is_refused_takes_nothing_of_the_others_budget() -> None:
    class Narrow(SimBackend):
        def plan(self, decision: Decision, state: ClusterState, round_id: str) -> Plan:
            plan = super().plan(decision, state, round_id)
            return Plan(plan.changes[:1], len(plan.changes[1:]))

        def apply(self, changes: Sequence[Change]) -> list[Outcome]:
            refused = [c for c in changes if c.key.job_id == 2]
            kept = [c for c in changes if c.key.job_id != 2]
            return [
                *super().apply(kept),
                *(Outcome(c.change_id, False, "denied") for c in refused),
            ]

    backend = Narrow(*simulated(JOBS))
    backend.advance()
    runner = runner_for(backend, JOBS)
    results = [runner.run(acting=True) for _ in range(5)]
    assert [[c.key.job_id for c in r.changes] for r in results] == [[2], [2], [4], [3], [1]]


def test_what_the_caller_counts_is_kept_with_the_round() -> None:
    journal = MemoryJournal()
    runner = runner_for(backend_with(JOBS), JOBS, journal, extra=lambda: {"inversions": {"qos": 3}})
    result = runner.run(acting=True)
    assert result.extra == {"inversions": {"qos": 3}}
    assert journal.summaries[result.info.round_id][1]["inversions"] == {"qos": 3}


# -- what a round tells and what it asks -----------------------------------------------------


class Counting(SimBackend):
    """Counts what it is asked."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.asked: list[str] = []

    def look(self) -> None:
        self.asked.append("look")
        super().look()

    def read_back(self, changes: Sequence[Change]) -> list[Readback]:
        self.asked.append("read_back")
        return super().read_back(changes)


def test_a_round_looks_once_even_where_it_settles_what_another_left() -> None:
    backend = Counting(*simulated(JOBS))
    backend.advance()
    journal = MemoryJournal()
    killed = runner_for(backend, JOBS, journal, on_point=killed_at(FaultPoint.CHUNK_SENT))
    with pytest.raises(KilledError):
        killed.run(acting=True)
    assert backend.asked == ["look"]
    runner = runner_for(backend, JOBS, journal)
    assert runner.run(acting=True).recovered == 4
    assert backend.asked == ["look", "look"]  # all was found as it was sent: nothing to read back
    runner.run(acting=True)
    assert backend.asked == ["look"] * 3


def test_a_round_tells_how_long_its_phases_took() -> None:
    ticks = itertools.count()
    backend = backend_with(JOBS)
    runner = runner_for(backend, JOBS, stopwatch=lambda: float(next(ticks)))
    times = runner.run(acting=True).timings_s
    assert times.keys() == {"look", "predict", "decide", "plan", "journal", "apply"}
    assert all(seconds > 0 for seconds in times.values())
    assert runner.run(acting=True).timings_s.keys() == times.keys() - {"apply"}


def test_what_a_plan_leaves_for_later_is_told_and_made_later() -> None:
    class Budgeted(SimBackend):
        def plan(self, decision: Decision, state: ClusterState, round_id: str) -> Plan:
            plan = super().plan(decision, state, round_id)
            return Plan(plan.changes[:3], len(plan.changes[3:]))

    backend = Budgeted(*simulated(JOBS))
    backend.advance()
    journal = MemoryJournal()
    runner = runner_for(backend, JOBS, journal)
    first = runner.run(acting=True)
    assert (len(first.changes), first.postponed, first.summary["postponed"]) == (3, 1, 1)
    assert journal.summaries[first.info.round_id][1]["postponed"] == 1
    second = runner.run(acting=True)
    assert (len(second.changes), second.postponed) == (1, 0)
    assert order(backend) == [2, 4, 3, 1]


def test_what_was_decided_too_long_ago_is_not_sent() -> None:
    """A process that stood still between decision and writing must not write what it knew then."""
    many = [job(i, duration_s=i) for i in range(1, APPLY_CHUNK + 11)]
    backend = backend_with(many)
    journal = MemoryJournal()
    at = [100]

    def stands_still(point: FaultPoint) -> None:
        if point is FaultPoint.CHUNK_SENT:
            at[0] += CHANGE_LIFE_S + 1

    parts = {"clock": lambda: at[0], "policy": Fifo()}
    slow = runner_for(backend, many, journal, on_point=stands_still, **parts)
    result = slow.run(acting=True)
    assert result.count(ChangeState.CONFIRMED) == APPLY_CHUNK
    late = [journal.entries[c.change_id] for c in result.changes][APPLY_CHUNK:]
    assert {(e.state, e.detail) for e in late} == {
        (ChangeState.VOID, "not sent: it was decided too long ago")
    }
    assert len(late) == 10
    again = runner_for(backend, many, journal, **parts).run(acting=True)
    assert again.count(ChangeState.CONFIRMED) == len(again.changes) == 10


# -- policies that misbehave ------------------------------------------------------------------


@pytest.mark.parametrize("error", [ZeroDivisionError("by 0"), KeyError("x"), RuntimeError("no")])
@pytest.mark.parametrize("acting", [True, False])
def test_a_policy_that_fails_is_named_and_nothing_is_kept(error: Exception, acting: bool) -> None:
    class Failing(Fifo):
        name = "site-own"

        def decide(
            self, state: ClusterState, memory: Mapping[str, JsonValue], now: int
        ) -> Decision:
            raise error

    backend = backend_with(JOBS)
    journal = MemoryJournal()
    with pytest.raises(GschedError, match=f"policy site-own .*{type(error).__name__}") as caught:
        runner_for(backend, JOBS, journal, policy=Failing()).run(acting)
    assert caught.value.__cause__ is error
    assert order(backend) == [1, 2, 3, 4]
    assert (journal.rounds, journal.entries) == ({}, {})


def test_nonsense_from_a_policy_is_dropped_and_reported_and_the_rest_is_carried_out() -> None:
    key = {j.view.key.job_id: j.view.key for j in JOBS}
    ranks = {
        key[1]: Rank("gpu", 1, 4, 1.0, -0.5),
        key[2]: Rank("gpu", 2, 4, math.nan, 0.0),
        key[3]: Rank("gpu", 3, 4, 1.0, 0.5),
        key[4]: Rank("gpu", 4, 4, 1.0, 0.6),
    }
    reasons = {key[1]: Reason("x"), key[2]: Reason("x"), key[3]: Reason("x", {"p": math.inf})}
    resize = Resize("a1", key[1], 100, 0, 1000, None, 4)  # nothing that a backend can do

    class Broken(Fifo):
        def decide(
            self, state: ClusterState, memory: Mapping[str, JsonValue], now: int
        ) -> Decision:
            return Decision(ranks, (resize,), reasons, {"reference": math.nan})

    backend = backend_with(JOBS)
    journal = MemoryJournal()
    result = runner_for(backend, JOBS, journal, policy=Broken()).run(acting=True)
    assert [c.key.job_id for c in result.changes] == [1]
    assert states(journal) == [ChangeState.CONFIRMED]
    assert result.decision.actions == ()
    by_job = [p.key.job_id if p.key else None for p in result.problems]
    assert sorted(by_job, key=str) == [1, 2, 3, 4, None]
    assert journal.summaries[result.info.round_id][1]["problems"] == 5
    assert journal.memory("c", "fifo") == {}


def test_what_the_backend_adds_to_a_reason_is_told() -> None:
    added = Reason("starving", {"out_of_reach": True})
    key, *others = [job.view.key for job in JOBS]

    class Adding(SimBackend):
        def plan(self, decision: Decision, state: ClusterState, round_id: str) -> Plan:
            return replace(super().plan(decision, state, round_id), reasons={key: added})

    backend = Adding(*simulated(JOBS))
    backend.advance()
    reasons = runner_for(backend, JOBS).run(acting=True).decision.reasons
    assert reasons[key] == added
    assert {reasons[other].code for other in others} == {"qssf.predicted-gpu-time"}


def test_a_policy_decides_by_the_memory_that_it_is_given_and_leaves_its_own() -> None:
    class Remembers(Fifo):
        def decide(self, state, memory, now):
            return replace(super().decide(state, memory, now), memory={"was": memory, "now": now})

    backend, journal = backend_with(JOBS), MemoryJournal()
    asked = []

    def seed(policy, memory, as_of):
        asked.append((policy.name, dict(memory), as_of))
        return {**memory, "told": len(asked)}

    runner = runner_for(backend, JOBS, journal, policy=Remembers(), seed=seed)
    runner.run(acting=False)
    first = {"was": {"told": 1}, "now": backend.now}
    assert journal.memory(backend.cluster, "fifo") == first
    runner.run(acting=False)
    assert asked == [("fifo", {}, backend.now), ("fifo", first, backend.now)]
    assert journal.memory(backend.cluster, "fifo")["was"] == {**first, "told": 2}
