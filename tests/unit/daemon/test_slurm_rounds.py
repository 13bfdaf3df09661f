"""Whole rounds on a Slurm of a few jobs with state: what is written in the course of time."""

from __future__ import annotations

import itertools
import math
import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest
from support.queue import row as queue_row
from support.slurm_bench import Bench

from gsched.engine.faults import FaultPoint
from gsched.engine.memory_journal import MemoryJournal
from gsched.engine.round import RoundResult, RoundRunner
from gsched.errors import UnavailableError
from gsched.model.job import JobState, JobView, Prediction, PredictionKind
from gsched.model.journal import ChangeState
from gsched.policy.base import Policy
from gsched.policy.fewest_gpus import FewestGpus
from gsched.policy.qssf import Qssf
from gsched.slurm.records import FreeText, UpdateOutcome

ROUND_S = 30


class Known:
    """Predicts what the name says: ``90s``."""

    model_id = "known"

    def predict(self, jobs: Sequence[JobView], now: int) -> list[Prediction]:
        return [
            Prediction(PredictionKind.DURATION, float(j.name[:-1]), (), "name", "known", 1, now)
            for j in jobs
        ]


class Life:
    """Rounds every ROUND_S seconds on a Bench whose jobs come and go."""

    def __init__(self, *durations_s: int, policy: Policy | None = None, **settings: Any) -> None:
        self.bench = Bench(**settings)
        self.client = self.bench.client
        self.journal = MemoryJournal()
        self.at: Callable[[FaultPoint], None] = lambda _point: None
        numbers = itertools.count()
        self.runner = RoundRunner(
            self.bench.backend,
            policy or Qssf(),
            self.journal,
            Known(),
            lambda: self.bench.now,
            lambda: f"r{next(numbers)}",
            lambda point: self.at(point),
        )
        for number, duration_s in enumerate(durations_s, 1):
            self.submit(number, duration_s)

    def submit(self, number: int, duration_s: int, **facts: Any) -> None:
        row = queue_row(number, submit_time=self.bench.now, **facts)
        self.client.rows[number] = row
        self.client.texts[number] = FreeText(f"{duration_s}s", "")
        self.client.factors[number] = 0

    def leave(self, number: int) -> None:
        for known in (self.client.rows, self.client.texts, self.client.factors):
            del known[number]  # type: ignore[attr-defined]

    def round(self, acting: bool = True) -> RoundResult:
        self.bench.now += ROUND_S
        self.bench.seconds += ROUND_S
        return self.runner.run(acting)

    def states(self) -> dict[int, list[ChangeState]]:
        """How the changes of each job ended, the oldest first."""
        found: dict[int, list[ChangeState]] = {}
        for entry in self.journal.entries.values():
            found.setdefault(entry.change.key.job_id, []).append(entry.state)
        return found

    def written(self) -> dict[int, int]:
        """The SiteFactors that are not 0."""
        return {number: value for number, value in self.client.factors.items() if value}


SOME = (5, 100, 100, 100, 2000)
"""Seconds of jobs 1 to 5: the first moves up, the last down, the median ones keep their place."""

CONFIRMED, REJECTED, VOID = ChangeState.CONFIRMED, ChangeState.REJECTED, ChangeState.VOID


def test_a_static_policy_writes_each_job_once_in_its_life() -> None:
    """Two thousand rounds of a queue in which jobs come and go, as likely short as long."""
    draw = random.Random(7)
    numbers = itertools.count(1)

    def arrive(life: Life) -> None:
        life.submit(next(numbers), round(math.exp(draw.gauss(6.0, 2.0))) + 1)

    life = Life()
    for _ in range(40):
        arrive(life)
    for _ in range(2000):
        life.round()
        for number in draw.sample(sorted(life.client.rows), 2):
            life.leave(number)
            arrive(life)
    writes = Counter(number for number, _ in life.client.writes)
    assert len(writes) > 3000
    assert set(writes.values()) == {1}


def test_a_steady_round_asks_twice_and_writes_nothing() -> None:
    life = Life(*SOME)
    first = life.round()
    assert first.count(CONFIRMED) == 2
    del life.client.calls[:]
    for _ in range(300):
        assert life.round().changes == ()
    asked = Counter(life.client.calls)
    assert asked["queue all with texts"] == asked["sprio"] == 300
    assert set(asked) == {"queue all with texts", "sprio", "describe"}


def test_values_stand_through_requeue_and_restart_of_slurmctld() -> None:
    life = Life(*SOME)
    life.round()
    before = life.written()
    row = life.client.rows[1]
    life.bench.first_submits[1] = row.submit_time
    requeued = replace(row, submit_time=life.bench.now + 9, restarts=1)
    life.client.rows[1] = requeued
    result = life.round()
    assert result.changes == ()
    assert life.written() == before
    view = result.state.jobs.view(result.state.jobs.keys[0])
    assert (view.first_submit, view.attempt) == (row.submit_time, requeued.submit_time)


def test_a_value_that_another_hand_sets_is_left_alone_from_then_on() -> None:
    life = Life(*SOME)
    life.round()
    life.client.factors[1] = 55  # scontrol update jobid=1 sitefactor=55
    for _ in range(3):
        assert life.round().changes == ()
    life.runner.policy = FewestGpus()
    life.client.rows[1] = replace(life.client.rows[1], num_gpus=64)
    life.client.rows[2] = replace(life.client.rows[2], num_gpus=64)
    life.round()
    assert life.client.factors[1] == 55
    assert life.client.factors[2] < 0


def test_a_job_that_leaves_between_look_and_write_is_normal() -> None:
    life = Life(*SOME)

    def leave(point: FaultPoint) -> None:
        if point is FaultPoint.DECIDED:
            life.leave(1)

    life.at = leave
    result = life.round()
    life.at = lambda _point: None
    assert life.states() == {1: [REJECTED], 5: [CONFIRMED]}
    assert {d for s, d in result.settled.values() if s is REJECTED} == {"Invalid job id specified"}
    assert life.round().changes == ()


def test_a_job_that_starts_between_write_and_look_again_is_settled_by_the_next_look() -> None:
    life = Life(*SOME)

    def start(point: FaultPoint) -> None:
        if point is FaultPoint.ALL_SENT:
            life.client.hidden = {1}
            life.client.rows[1] = replace(
                life.client.rows[1], state=JobState.RUNNING, node_list="n1", start_time=1
            )

    life.at = start
    assert life.round().count(ChangeState.SENT) == 1
    life.at = lambda _point: None
    result = life.round()
    assert result.recovered == 1
    assert life.states() == {1: [VOID], 5: [CONFIRMED]}
    # requeued later, the value that it kept is still known as gsched's own
    life.client.hidden = set()
    life.client.rows[1] = replace(life.client.rows[1], state=JobState.PENDING, node_list="")
    views = life.round().state.jobs.views
    assert [v.exclusions for v in views if v.key.job_id == 1] == [()]


def test_what_slurm_refuses_is_mended_later_and_holds_up_nobody() -> None:
    life = Life(*SOME)
    life.client.refusals = {1: "Job update not available right now"}
    life.round()
    assert life.states() == {1: [REJECTED], 5: [CONFIRMED]}
    life.client.refusals = {}
    for _ in range(30):
        life.round()
    assert life.states()[1][-1] is CONFIRMED
    assert Counter(number for number, _ in life.client.writes) == {1: 1, 5: 1}


class Breaking:
    """A set_site_factors that takes some values and then finds slurmctld gone."""

    def __init__(self, life: Life, taken: int) -> None:
        self._life, self._taken = life, taken
        self._write = life.client.set_site_factors

    def __call__(self, values: Sequence[tuple[str, int]]) -> tuple[UpdateOutcome, ...]:
        self._write(values[: self._taken])
        self._life.client.set_site_factors = self._write  # type: ignore[method-assign]
        raise UnavailableError("slurmctld is gone")


@pytest.mark.parametrize("taken", [0, 1, 2])
def test_a_burst_that_breaks_off_is_settled_by_the_next_look_and_gone_on_with(taken: int) -> None:
    life = Life(*SOME)
    life.client.set_site_factors = Breaking(life, taken)  # type: ignore[method-assign]
    with pytest.raises(UnavailableError):
        life.round()
    result = life.round()
    assert result.recovered == 2
    assert result.count(CONFIRMED) == 2 - taken
    assert Counter(number for number, _ in life.client.writes) == {1: 1, 5: 1}
    assert life.round().changes == ()


def test_a_large_queue_is_written_by_and_by_the_widest_first() -> None:
    life = Life(*range(1, 41), write_budget=10)
    left = []
    for _ in range(6):
        result = life.round()
        left.append((len(result.changes), result.postponed))
    widths = [abs(value) for _, value in life.client.writes]
    assert widths[:10] == sorted(widths, reverse=True)[:10]
    assert left[-1] == (0, 0)
    assert [count for count, _ in left[:3]] == [10, 10, 10]
    assert left[0][1] > left[1][1] > left[2][1]


def test_rounds_within_a_burst_interval_wait_and_lose_nothing() -> None:
    life = Life(*SOME, burst_interval_s=100.0)
    life.round()
    life.submit(6, 9000)
    seen = [(len(r.changes), r.postponed) for r in (life.round() for _ in range(4))]
    assert seen == [(0, 1), (0, 1), (1, 0), (0, 0)]


def test_observing_writes_nothing() -> None:
    life = Life(*SOME)
    for _ in range(3):
        life.round(acting=False)
    assert life.client.writes == []
    assert set(life.states()) == {1, 5}
