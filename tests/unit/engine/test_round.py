"""The round: what it journals, what it sends, and what it repairs after being cut off."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
from support.sim import TruePredictor, job, nodes

from gsched.engine.faults import FaultPoint
from gsched.engine.memory_journal import MemoryJournal
from gsched.engine.round import APPLY_CHUNK, RoundRunner
from gsched.model.cluster import ClusterState
from gsched.model.decision import Decision, JsonValue, Rank, Reason, Revoke
from gsched.model.job import Capability, Exclusion, JobKey
from gsched.model.journal import Change, ChangeState, Outcome
from gsched.policy.fifo import Fifo
from gsched.policy.qssf import Qssf
from gsched.sim.backend import SimBackend, SimJob


class KilledError(BaseException):
    """Stands for SIGKILL: nothing of gsched catches it."""


def backend_with(jobs: Sequence[SimJob]) -> SimBackend:
    backend = SimBackend("c", nodes(), jobs)
    backend.advance()
    return backend


def runner_for(
    backend: SimBackend,
    jobs: Sequence[SimJob],
    journal: MemoryJournal | None = None,
    **overrides: Any,
) -> RoundRunner:
    numbers = itertools.count()
    parts: dict[str, Any] = {
        "backend": backend,
        "policy": Qssf(),
        "journal": journal or MemoryJournal(),
        "predictor": TruePredictor(jobs),
        "clock": lambda: backend.now,
        "new_id": lambda: f"r{id(numbers)}-{next(numbers)}",
        **overrides,
    }
    return RoundRunner(**parts)


def order(backend: SimBackend) -> list[int]:
    return [key.job_id for key in backend.pending_order()]


JOBS = [job(1, duration_s=400), job(2, duration_s=5), job(3, duration_s=60), job(4, duration_s=9)]


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

    backend = Watched("c", nodes(), JOBS)
    backend.advance()
    assert runner_for(backend, JOBS, journal).run(acting=True).count(ChangeState.CONFIRMED) == 4


@pytest.mark.parametrize("point", list(FaultPoint))
def test_after_a_kill_at_any_point_the_next_round_repairs(point: FaultPoint) -> None:
    many = [job(i, duration_s=1 + i * 7 % 97) for i in range(1, 2 * APPLY_CHUNK)]
    backend = backend_with(many)
    journal = MemoryJournal()

    def kill(at: FaultPoint) -> None:
        if at is point:
            raise KilledError

    with pytest.raises(KilledError):
        runner_for(backend, many, journal, on_point=kill).run(acting=True)
    runner_for(backend, many, journal).run(acting=True)
    undisturbed = backend_with(many)
    runner_for(undisturbed, many).run(acting=True)
    assert backend.pending_order() == undisturbed.pending_order()
    assert journal.unsettled("c") == []
    settled = {e.state for e in journal.entries.values()}
    assert settled <= {ChangeState.CONFIRMED, ChangeState.VOID}


def test_what_was_sent_before_the_kill_is_recognised_not_sent_again() -> None:
    backend = backend_with(JOBS)
    journal = MemoryJournal()

    def kill(at: FaultPoint) -> None:
        if at is FaultPoint.ALL_SENT:
            raise KilledError

    with pytest.raises(KilledError):
        runner_for(backend, JOBS, journal, on_point=kill).run(acting=True)
    result = runner_for(backend, JOBS, journal).run(acting=True)
    assert result.recovered == 4
    assert result.changes == ()


def test_a_job_that_starts_meanwhile_is_void_and_stops_nobody() -> None:
    class Racing(SimBackend):
        def apply(self, changes: Sequence[Change]) -> list[Outcome]:
            outcomes = super().apply(changes)
            self.start_jobs()  # everything fits: all jobs start before the re-read
            return outcomes

    backend = Racing("c", nodes(), JOBS)
    backend.advance()
    result = runner_for(backend, JOBS).run(acting=True)
    assert result.count(ChangeState.VOID) == 4
    assert "no longer pending" in next(iter(result.settled.values()))[1]


def test_a_refused_change_is_kept_with_its_error_and_the_others_go_on() -> None:
    class Refusing(SimBackend):
        def apply(self, changes: Sequence[Change]) -> list[Outcome]:
            kept = [c for c in changes if c.key.job_id != 2]
            refused = [Outcome(c.change_id, False, "denied") for c in changes if c not in kept]
            return super().apply(kept) + refused

    backend = Refusing("c", nodes(), JOBS)
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


def test_each_attempt_is_predicted_once_until_the_model_changes() -> None:
    backend = backend_with(JOBS)
    predictor = TruePredictor(JOBS)
    runner = runner_for(backend, JOBS, predictor=predictor)
    runner.run(acting=True)
    runner.run(acting=True)
    assert len(predictor.asked) == 4
    newer = TruePredictor(JOBS, "newer")
    runner.predictor = newer
    runner.run(acting=True)
    assert len(newer.asked) == 4


class Nonsense(Fifo):
    """Answers with what a broken policy might."""

    answer: Callable[[ClusterState], Decision]

    def decide(self, state: ClusterState, memory: Mapping[str, JsonValue], now: int) -> Decision:
        return replace(type(self).answer(state), memory=memory)


@pytest.mark.parametrize(
    ("key", "rank", "what"),
    [
        (JobKey("c", 99), Rank("gpu", 1, 1, 1.0, 0.0), "not in the snapshot"),
        (JOBS[0].view.key, Rank("gpu", 1, 1, math.nan, 0.0), "key is nan"),
        (JOBS[0].view.key, Rank("gpu", 1, 1, 1.0, 1.5), "outside"),
        (JOBS[0].view.key, Rank("gpu", 1, 1, 1.0, math.nan), "outside"),
    ],
)
def test_nonsense_from_a_policy_is_dropped_and_reported(key: JobKey, rank: Rank, what: str) -> None:
    class Broken(Nonsense):
        answer = staticmethod(lambda _: Decision({key: rank}, (), {key: Reason("x")}, {}))

    backend = backend_with(JOBS)
    result = runner_for(backend, JOBS, policy=Broken()).run(acting=True)
    assert result.changes == ()
    assert [what in p.what for p in result.problems] == [True]


@pytest.mark.parametrize(
    ("attempt", "valid_until", "after_seq", "what"),
    [
        (100, 1000, 0, "cannot do"),
        (100, 0, 0, "cannot do"),
    ],
)
def test_actions_beyond_the_backend_are_reported(
    attempt: int, valid_until: int, after_seq: int, what: str
) -> None:
    revoke = Revoke("a1", JOBS[0].view.key, attempt, after_seq, valid_until, None, 30, None)

    class Preempting(Nonsense):
        answer = staticmethod(lambda _: Decision({}, (revoke,), {}, {}))

    result = runner_for(backend_with(JOBS), JOBS, policy=Preempting()).run(acting=True)
    assert result.decision.actions == ()
    assert what in result.problems[0].what
