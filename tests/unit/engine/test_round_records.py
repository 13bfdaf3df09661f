"""What the journal keeps of a round, and what comes back from it: memory and predictions."""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest
from support.jobs import snapshot
from support.rounds import JOBS, KilledError, backend_with, killed_at, runner_for, states
from support.sim import TruePredictor, simulated

from gsched.engine.faults import FaultPoint
from gsched.engine.memory_journal import MemoryJournal
from gsched.engine.predictions import PredictionBook
from gsched.model.cluster import ClusterState
from gsched.model.decision import Decision, JsonValue
from gsched.model.job import JobKey, JobState, JobView, Prediction, PredictionKind
from gsched.model.jobtable import JobTable
from gsched.model.journal import ChangeState, RoundInfo, Standing
from gsched.policy.fifo import Fifo
from gsched.policy.qssf import Qssf
from gsched.sim.backend import SimBackend


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
        "postponed": 0,
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


class Requeueing(SimBackend):
    """All of its jobs are in the attempt that began at `attempt`."""

    attempt = 150

    def snapshot(self, standing: Mapping[tuple[JobKey, str], Standing]) -> ClusterState:
        state = super().snapshot(standing)
        views = [replace(v, attempt=self.attempt) for v in state.jobs.views]
        return replace(state, jobs=JobTable.from_views(views))


def test_predictions_are_made_and_kept_by_attempt_as_of_the_snapshot() -> None:
    backend = Requeueing(*simulated(JOBS))
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


def test_a_job_that_runs_keeps_the_prediction_of_when_it_waited() -> None:
    backend = backend_with(JOBS)
    predictor, journal = TruePredictor(JOBS), MemoryJournal()
    runner = runner_for(backend, JOBS, journal, predictor=predictor)
    waited = runner.run(acting=True).state.jobs
    backend.start_jobs()
    ran = runner.run(acting=True).state.jobs
    assert ran.running.all()
    assert [v.predictions for v in ran.views] == [v.predictions for v in waited.views]
    assert len(predictor.asked) == len(journal.predictions) == 4


def test_a_job_that_ran_already_is_predicted_and_not_journalled() -> None:
    backend = backend_with(JOBS)
    backend.start_jobs()
    predictor, journal = TruePredictor(JOBS), MemoryJournal()
    runner = runner_for(backend, JOBS, journal, predictor=predictor)
    state = runner.run(acting=True).state
    assert [v.predictions[0].mean for v in state.jobs.views] == [j.duration_s for j in JOBS]
    runner.run(acting=True)
    assert len(predictor.asked) == 4
    assert journal.predictions == {}


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


def test_a_job_that_has_changed_keeps_its_prediction_and_one_that_left_leaves_nothing() -> None:
    book, journal, predictor = PredictionBook(), MemoryJournal(), TruePredictor(JOBS)
    views = [j.view for j in JOBS]

    def filled(*given: JobView) -> dict[int, float | None]:
        state = book.fill(snapshot(given), predictor, journal)
        found = {}
        for v in state.jobs.views:
            prediction = v.prediction(PredictionKind.DURATION)
            column = float(state.jobs.predicted_duration_s[state.jobs.row(v.key)])
            assert math.isnan(column) if prediction is None else column == prediction.mean
            found[v.key.job_id] = prediction.mean if prediction else None
        return found

    durations = {j.view.key.job_id: float(j.duration_s) for j in JOBS}
    assert filled(*views) == durations
    changed = replace(views[0], pending_reason="Resources")
    assert filled(changed, *views[1:]) == durations
    assert len(predictor.asked) == len(book) == 4
    runs = replace(changed, state=JobState.RUNNING)
    assert filled(runs, *views[1:3]) == {n: durations[n] for n in (1, 2, 3)}
    assert len(book) == 3
    cleaned_up = replace(runs, state=JobState.COMPLETING)
    assert filled(cleaned_up, *views[1:3]) == {1: None, 2: durations[2], 3: durations[3]}
    assert len(book) == 2
    assert filled() == {}
    assert len(book) == 0
    assert filled(views[3]) == {4: durations[4]}  # back again, so it is asked for again
    assert [key.job_id for key in predictor.asked] == [1, 2, 3, 4, 4]
