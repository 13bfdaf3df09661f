"""The round: what it journals, what it sends, and what it repairs after being cut off."""

from __future__ import annotations

import copy
import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
from support.sim import TruePredictor, job, nodes

from gsched.engine.faults import FaultPoint
from gsched.engine.memory_journal import MemoryJournal
from gsched.engine.round import APPLY_CHUNK, REFUSAL_ROUNDS, RoundRunner
from gsched.errors import GschedError
from gsched.model.cluster import ClusterState
from gsched.model.decision import Decision, JsonValue, Rank, Reason, Revoke
from gsched.model.job import (
    Capability,
    Exclusion,
    JobKey,
    JobView,
    Prediction,
    PredictionKind,
)
from gsched.model.jobtable import JobTable
from gsched.model.journal import Change, ChangeState, Outcome, Readback, RoundInfo, Standing
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


def killed_at(point: FaultPoint) -> Callable[[FaultPoint], None]:
    def kill(at: FaultPoint) -> None:
        if at is point:
            raise KilledError

    return kill


def states(journal: MemoryJournal) -> list[ChangeState]:
    return [e.state for e in journal.entries.values()]


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

    with pytest.raises(KilledError):
        runner_for(backend, many, journal, on_point=killed_at(point)).run(acting=True)
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

    with pytest.raises(KilledError):
        runner_for(backend, JOBS, journal, on_point=killed_at(FaultPoint.ALL_SENT)).run(acting=True)
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
    assert "no longer waits" in next(iter(result.settled.values()))[1]


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


# -- what became of a change ------------------------------------------------------------------


def test_another_value_in_slurm_is_void_and_never_confirmed() -> None:
    class OtherHand(SimBackend):
        def apply(self, changes: Sequence[Change]) -> list[Outcome]:
            return super().apply([replace(c, after=7) for c in changes])

    backend = OtherHand("c", nodes(), JOBS)
    backend.advance()
    journal = MemoryJournal()
    result = runner_for(backend, JOBS, journal).run(acting=True)
    assert set(result.settled.values()) == {(ChangeState.VOID, "Slurm shows 7")}
    assert states(journal) == [ChangeState.VOID] * 4
    assert {(e.detail, e.settled_at) for e in journal.entries.values()} == {("Slurm shows 7", 100)}


class Unreadable(SimBackend):
    """Accepts changes; as long as `is_dark`, the values of waiting jobs cannot be read back."""

    is_dark = True

    def read_back(self, changes: Sequence[Change]) -> list[Readback]:
        seen = super().read_back(changes)
        return [replace(r, value=None) for r in seen] if self.is_dark else seen


def test_what_cannot_be_read_yet_stays_sent_and_is_settled_in_a_later_round() -> None:
    backend = Unreadable("c", nodes(), JOBS)
    backend.advance()
    journal = MemoryJournal()
    runner = runner_for(backend, JOBS, journal)
    assert runner.run(acting=True).count(ChangeState.SENT) == 4
    assert states(journal) == [ChangeState.SENT] * 4
    again = runner.run(acting=True)
    assert (again.recovered, again.changes) == (0, ())
    assert states(journal) == [ChangeState.SENT] * 4
    backend.is_dark = False
    last = runner.run(acting=True)
    assert (last.recovered, last.changes) == (4, ())
    assert states(journal) == [ChangeState.CONFIRMED] * 4
    assert {e.detail for e in journal.entries.values()} == {"(looked up later)"}


def test_what_was_never_sent_before_the_kill_ends_void_and_is_sent_anew_by_chunks() -> None:
    many = [job(i, duration_s=1 + i) for i in range(2 * APPLY_CHUNK)]
    backend = backend_with(many)
    journal = MemoryJournal()
    killed = runner_for(backend, many, journal, on_point=killed_at(FaultPoint.CHUNK_SENT))
    with pytest.raises(KilledError):
        killed.run(acting=True)
    assert states(journal) == [ChangeState.INTENT] * len(many)
    first_tries = list(journal.entries)
    result = runner_for(backend, many, journal).run(acting=True)
    ends = [journal.entries[change_id].state for change_id in first_tries]
    assert ends[:APPLY_CHUNK] == [ChangeState.CONFIRMED] * APPLY_CHUNK
    assert ends[APPLY_CHUNK:] == [ChangeState.VOID] * APPLY_CHUNK
    assert result.recovered == len(many)
    assert len(result.changes) == result.count(ChangeState.CONFIRMED) == APPLY_CHUNK
    assert not {c.change_id for c in result.changes} & set(first_tries)


def test_an_observing_round_leaves_open_changes_to_the_one_that_acts() -> None:
    backend = backend_with(JOBS)
    journal = MemoryJournal()
    killed = runner_for(backend, JOBS, journal, on_point=killed_at(FaultPoint.INTENT_RECORDED))
    with pytest.raises(KilledError):
        killed.run(acting=True)
    left = journal.unsettled("c")
    runner = runner_for(backend, JOBS, journal)
    assert runner.run(acting=False).recovered == 0
    assert journal.unsettled("c") == left
    assert len(left) == 4
    assert runner.run(acting=True).recovered == 4
    assert journal.unsettled("c") == []


def test_what_was_refused_is_not_asked_for_again_for_a_while() -> None:
    class Refusing(SimBackend):
        asked = 0

        def apply(self, changes: Sequence[Change]) -> list[Outcome]:
            self.asked += len(changes)
            return [Outcome(c.change_id, False, "denied") for c in changes]

    backend = Refusing("c", nodes(), JOBS)
    backend.advance()
    runner = runner_for(backend, JOBS)
    assert runner.run(acting=True).count(ChangeState.REJECTED) == 4
    for _ in range(REFUSAL_ROUNDS):
        assert runner.run(acting=True).changes == ()
    assert backend.asked == 4
    assert runner.run(acting=True).count(ChangeState.REJECTED) == 4
    assert backend.asked == 8


# -- what the journal keeps of a round --------------------------------------------------------


def test_an_idle_round_leaves_the_journal_as_it_was() -> None:
    backend = backend_with(JOBS)
    journal = MemoryJournal()
    runner = runner_for(backend, JOBS, journal)
    runner.run(acting=True)
    before = copy.deepcopy(vars(journal))
    for acting in (True, False):
        result = runner.run(acting)
        assert (result.changes, result.recovered) == ((), 0)
    assert vars(journal) == before


def test_a_round_that_only_recovered_something_is_kept() -> None:
    backend = backend_with(JOBS)
    journal = MemoryJournal()
    parts = {"policy": Fifo(), "journal": journal}  # fifo has no memory that would change
    with pytest.raises(KilledError):
        runner_for(backend, JOBS, **parts, on_point=killed_at(FaultPoint.ALL_SENT)).run(acting=True)
    backend_at_kill = backend.pending_order()
    result = runner_for(backend, JOBS, **parts).run(acting=True)
    assert (result.changes, result.recovered) == ((), 4)
    assert backend.pending_order() == backend_at_kill
    ended_at, summary = journal.summaries[result.info.round_id]
    assert ended_at == 100
    assert summary == {
        "jobs": 4,
        "pending": 4,
        "ranked": 4,
        "changes": 0,
        "recovered": 4,
        "problems": 0,
    }


def test_the_journal_knows_who_decided_on_what_and_whether_it_might_act() -> None:
    backend = backend_with(JOBS)
    journal = MemoryJournal()
    made = {}
    for number, (policy, acting) in enumerate([(Qssf(), False), (Fifo(), True)], 1):
        predictor = TruePredictor(JOBS, f"model-{number}")
        ids = {"new_id": lambda n=number: f"round-{n}", "clock": lambda n=number: 500 + n}
        runner = runner_for(backend, JOBS, journal, policy=policy, predictor=predictor, **ids)
        made[f"round-{number}"] = runner.run(acting).info
    assert journal.rounds == made
    assert list(made.values()) == [
        RoundInfo("round-1", "c", 501, "qssf", False, 1, "model-1"),
        RoundInfo("round-2", "c", 502, "fifo", True, 2, "model-2"),
    ]
    by_round = {e.round_id: e.state for e in journal.entries.values()}
    assert by_round == {"round-1": ChangeState.OBSERVED, "round-2": ChangeState.CONFIRMED}


def test_in_observe_mode_a_wish_that_went_away_is_journalled_again_when_it_comes_back() -> None:
    class Fickle(Qssf):
        has_wishes = True

        def decide(
            self, state: ClusterState, memory: Mapping[str, JsonValue], now: int
        ) -> Decision:
            answer = super().decide(state, memory, now)
            return answer if self.has_wishes else replace(answer, order={})

    journal = MemoryJournal()
    policy = Fickle()
    runner = runner_for(backend_with(JOBS), JOBS, journal, policy=policy)
    counts = []
    for has_wishes in (True, True, False, True):
        policy.has_wishes = has_wishes
        counts.append(len(runner.run(acting=False).changes))
    assert counts == [4, 0, 0, 4]
    assert states(journal) == [ChangeState.OBSERVED] * 8


# -- memory -----------------------------------------------------------------------------------


class Remembering(Fifo):
    """Counts its decisions in its memory, and keeps what memories it was given."""

    def __init__(self) -> None:
        super().__init__()
        self.given: list[Mapping[str, JsonValue]] = []

    def decide(self, state: ClusterState, memory: Mapping[str, JsonValue], now: int) -> Decision:
        self.given.append(dict(memory))
        count = len(self.given) + 10 * bool(memory)
        return replace(super().decide(state, memory, now), memory={"count": count})


@pytest.mark.parametrize("acting", [True, False])
def test_a_policys_memory_comes_back_from_the_journal_even_to_another_runner(acting: bool) -> None:
    backend = backend_with(JOBS)
    journal = MemoryJournal()
    first, second = Remembering(), Remembering()
    runner = runner_for(backend, JOBS, journal, policy=first)
    runner.run(acting)
    runner.run(acting)
    assert first.given == [{}, {"count": 1}]
    runner_for(backend, JOBS, journal, policy=second).run(acting)
    assert second.given == [{"count": 12}]
    assert len(journal.summaries) == 3  # rounds that changed nothing but the memory are kept too


def test_a_round_that_was_cut_off_leaves_the_memory_of_the_one_before() -> None:
    backend = backend_with(JOBS)
    journal = MemoryJournal()
    policy = Remembering()
    runner_for(backend, JOBS, journal, policy=policy).run(acting=True)
    killed = runner_for(
        backend, JOBS, journal, policy=policy, on_point=killed_at(FaultPoint.DECIDED)
    )
    with pytest.raises(KilledError):
        killed.run(acting=True)
    runner_for(backend, JOBS, journal, policy=policy).run(acting=True)
    assert policy.given == [{}, {"count": 1}, {"count": 1}]


# -- predictions ------------------------------------------------------------------------------


class Requeueing(SimBackend):
    """All of its jobs are in the attempt that began at `attempt`."""

    attempt = 150

    def snapshot(self, standing: Mapping[tuple[JobKey, str], Standing]) -> ClusterState:
        state = super().snapshot(standing)
        views = [replace(v, attempt=self.attempt) for v in state.jobs.views]
        return replace(state, jobs=JobTable.from_views(views))


def test_predictions_are_made_and_kept_by_attempt_as_of_the_snapshot() -> None:
    backend = Requeueing("c", nodes(), JOBS)
    backend.advance()
    journal = MemoryJournal()
    predictor = TruePredictor(JOBS, "m7")
    runner = runner_for(backend, JOBS, journal, predictor=predictor, clock=lambda: 777)
    runner.run(acting=True)
    expected = {
        (j.view.key, 150, PredictionKind.DURATION, "m7"): (
            100,
            Prediction(
                PredictionKind.DURATION, float(j.duration_s), (), "true", "m7", 1, as_of=100
            ),
        )
        for j in JOBS
    }
    assert journal.predictions == expected
    backend.attempt = 900
    state = runner.run(acting=True).state
    assert predictor.asked == 2 * [j.view.key for j in JOBS]
    assert {attempt for _, attempt, _, _ in journal.predictions} == {150, 900}
    assert [len(v.predictions) for v in state.jobs.views] == [1] * 4


def test_a_running_job_is_not_predicted() -> None:
    backend = backend_with(JOBS)
    backend.start_jobs()
    predictor = TruePredictor(JOBS)
    runner_for(backend, JOBS, predictor=predictor).run(acting=True)
    assert predictor.asked == []


@pytest.mark.parametrize(
    ("mean", "quantiles"),
    [(math.nan, ()), (math.inf, ()), (5.0, ((0.5, 4.0), (0.9, math.inf)))],
)
def test_a_prediction_that_is_no_finite_number_is_none(
    mean: float, quantiles: tuple[tuple[float, float], ...]
) -> None:
    class Odd(TruePredictor):
        def predict(self, jobs: Sequence[JobView], now: int) -> list[Prediction | None]:
            return [
                replace(p, mean=mean, quantiles=quantiles) if p and j.key.job_id == 2 else p
                for j, p in zip(jobs, super().predict(jobs, now), strict=True)
            ]

    journal = MemoryJournal()
    predictor = Odd(JOBS)
    runner = runner_for(backend_with(JOBS), JOBS, journal, predictor=predictor)
    result = runner.run(acting=True)
    assert {k.job_id for k in result.decision.order} == {1, 3, 4}
    assert {key.job_id for key, *_ in journal.predictions} == {1, 3, 4}
    runner.run(acting=True)
    assert len(predictor.asked) == 4


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
    revoke = Revoke("a1", key[1], 100, 0, 1000, None, 30, None)

    class Broken(Fifo):
        def decide(
            self, state: ClusterState, memory: Mapping[str, JsonValue], now: int
        ) -> Decision:
            return Decision(ranks, (revoke,), reasons, {"reference": math.nan})

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
