"""The watch on drift: what is worse, what is chance, what is no longer worse."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

import pytest
from support.jobs import T0, past_job

from gsched.model.job import JobKey
from gsched.predict.attributes import of_past
from gsched.predict.drift import (
    MAX_OPEN,
    MIN_JOBS,
    MOST_ALIKE,
    WINDOW,
    DriftWatch,
    Ended,
    Turn,
    judgement,
)


@dataclass
class Errors:
    """Jobs of thirty users with predictions that err as told: a bias and a spread of logarithms."""

    seed: int = 0
    watch: DriftWatch = field(default_factory=DriftWatch)
    number: int = 0

    def __post_init__(self) -> None:
        self.random = Random(self.seed)

    def end(
        self, count: int, *, bias: float = 0.0, by: str = "m1", gpus: int = 1, **spread: float
    ) -> list[Turn]:
        """So many jobs are predicted by the model `by`, end, and are judged five at a time."""
        told = {"model": 0.6, "rolling": 0.6, "last-two": 1.0} | spread
        turns = []
        for _ in range(count):
            self.number += 1
            draw = self.random
            job = past_job(
                self.number,
                max(1, int(draw.lognormvariate(7, 2))),
                end=T0 + self.number,
                user=f"user{draw.randrange(30)}",
                gpus=gpus and draw.randrange(1, 9),
            )
            seconds = {
                name: job.duration_s * draw.lognormvariate(bias if name == "model" else 0, width)
                for name, width in told.items()
            }
            self.watch.note(key(job.job_id, job.submit_time), of_past(job), by, seconds)
            self.watch.ended(job)
            if self.number % 5 == 0:
                turns += self.watch.judge(by, T0 + self.number)
        return turns


def key(job_id: int, submit: int, task: int | None = None) -> JobKey:
    return JobKey("c", job_id, task, None, submit)


@pytest.mark.parametrize("seed", range(5))
def test_in_a_world_that_stays_the_same_nothing_turns(seed: int) -> None:
    world = Errors(seed)
    assert world.end(1000) == []
    assert world.watch.judgements["gpu"].num_jobs == WINDOW
    assert world.watch.fallen == {}


def test_a_model_that_is_a_little_worse_is_no_reason() -> None:
    assert Errors().end(1000, model=0.65) == []


def test_a_model_that_has_become_worse_falls_and_comes_back() -> None:
    world = Errors()
    assert world.end(200) == []
    (fall,) = world.end(200, bias=2.3)  # ten times too long
    assert (fall.kind, fall.falls_back) == ("gpu", True)
    assert fall.judgement.off_by["model"] > 2 > fall.judgement.off_by["rolling"]
    assert world.watch.fallen["gpu"] > T0
    (back,) = world.end(400)
    assert (back.kind, back.falls_back) == ("gpu", False)
    assert world.watch.fallen == {}


def test_a_wrong_order_alone_is_worse() -> None:
    # Both are off by the same factor, but the model gives all jobs one time.
    world = Errors()
    turns: list[Turn] = []
    for _ in range(120):
        world.number += 1
        duration_s = 10 ** (1 + world.number % 4)
        job = past_job(world.number, duration_s, end=T0 + world.number, user=f"u{world.number % 9}")
        off = 10 ** abs(world.number % 4 - 1.5)
        told = {"model": 10**2.5, "rolling": duration_s * off, "last-two": 10**2.5}
        world.watch.note(key(job.job_id, job.submit_time), of_past(job), "m1", told)
        world.watch.ended(job)
        turns += world.watch.judge("m1", T0)
    assert [turn.falls_back for turn in turns] == [True]
    assert not turns[0].judgement.error_gap.is_worse
    assert turns[0].judgement.rank_gap.is_worse


def test_the_kinds_of_jobs_are_judged_apart() -> None:
    world = Errors()
    world.end(100, bias=2.3, gpus=0)
    world.end(100)
    assert world.watch.fallen.keys() == {"cpu"}
    assert not world.watch.judgements["gpu"].is_worse


def test_a_few_jobs_say_nothing() -> None:
    world = Errors()
    assert world.end(MIN_JOBS - 5, bias=3) == []
    assert world.watch.judgements == {}
    assert len(world.end(5, bias=3)) == 1


def test_a_new_model_is_judged_by_its_own_jobs_once_they_are_enough() -> None:
    world = Errors()
    world.end(WINDOW, bias=2.3, by="m1")
    assert world.watch.fallen.keys() == {"gpu"}
    assert world.end(MIN_JOBS - 5, by="m2") == []
    (back,) = world.end(30, by="m2")
    assert not back.falls_back
    assert back.judgement.num_jobs < WINDOW / 2


def test_predecessors_count_unless_they_have_fallen() -> None:
    world = Errors()
    for number in range(20):  # refits so often that no model has forty jobs of its own
        world.end(10, bias=2.3, by=f"bad{number}")
    assert world.watch.fallen.keys() == {"gpu"}
    fallen = world.watch.fallen_models["gpu"]
    assert fallen.startswith("bad")
    turns = [turn for number in range(30) for turn in world.end(10, by=f"good{number}")]
    assert [turn.falls_back for turn in turns] == [False]
    assert world.watch.fallen_models == {}


def test_what_a_fallen_model_has_predicted_says_nothing_of_its_successors() -> None:
    world = Errors()
    world.end(WINDOW, bias=2.3, by="m1")
    assert world.watch.fallen_models == {"gpu": "m1"}
    turns = []
    for number in range(MIN_JOBS // 10):  # none of them has forty jobs of its own
        assert turns == []
        turns += world.end(10, by=f"good{number}", model=0.3)
    assert [turn.falls_back for turn in turns] == [False]
    assert turns[0].judgement.num_jobs == MIN_JOBS


@pytest.mark.parametrize(
    ("gap", "is_fallen", "turns"),
    [
        (0.12, False, [True]),
        (0.12, True, []),
        (0.07, False, []),  # neither worse nor no longer worse: nothing changes
        (0.07, True, []),
        (0.04, True, [False]),
        (0.04, False, []),
    ],
)
def test_it_comes_back_at_half_the_margin_at_which_it_falls(
    gap: float, is_fallen: bool, turns: list[bool]
) -> None:
    watch = DriftWatch({"gpu": T0}, {"gpu": "m1"}) if is_fallen else DriftWatch()
    for number in range(MIN_JOBS):
        job = past_job(number, 100 + number, end=T0 + number, user=f"user{number}")
        told = {
            "model": job.duration_s * math.exp(0.5 + gap),
            "rolling": job.duration_s * math.exp(0.5),
            "last-two": 100.0,
        }
        watch.note(key(number, job.submit_time), of_past(job), "m1", told)
        watch.ended(job)
    assert [turn.falls_back for turn in watch.judge("m1", T0 + 1000)] == turns


def test_many_alike_jobs_do_not_fill_the_window() -> None:
    world = Errors()
    world.end(100)
    for task in range(500):  # an array of one user, of which the model is wrong
        job = past_job(5000 + task, 1000, end=T0 + 5000 + task, user="array", name=f"sweep_{task}")
        told = {"model": 1.0, "rolling": 1000.0, "last-two": 1000.0}
        world.watch.note(key(job.job_id, job.submit_time), of_past(job), "m1", told)
        world.watch.ended(job)
    world.watch.judge("m1", T0)
    window = world.watch.windows["gpu"]
    assert sum(one.alike.startswith("array\n") for one in window) == MOST_ALIKE
    assert len(window) == 100 + MOST_ALIKE
    assert world.watch.fallen == {}


def test_a_job_counts_once_and_by_what_was_predicted_first() -> None:
    watch = DriftWatch()
    job = past_job(1, 100, end=T0)
    name = key(1, job.submit_time)
    first = {"model": 100.0, "rolling": 50.0, "last-two": 10.0}
    watch.note(name, of_past(job), "m1", first)
    watch.note(name, of_past(job), "m1", {**first, "model": 7.0})  # fell back, predicted anew
    watch.ended(job)
    watch.ended(job)
    (one,) = watch.windows["gpu"]
    assert one.predicted_s == (100.0, 50.0, 10.0)


def test_a_new_model_predicts_anew_what_has_not_ended() -> None:
    watch = DriftWatch()
    job = past_job(1, 100, end=T0)
    told = {"model": 100.0, "rolling": 50.0, "last-two": 10.0}
    watch.note(key(1, job.submit_time), of_past(job), "m1", told)
    watch.note(key(1, job.submit_time), of_past(job), "m2", {**told, "model": 7.0})
    watch.ended(job)
    assert (watch.windows["gpu"][0].model_id, watch.windows["gpu"][0].predicted_s[0]) == ("m2", 7)


def test_tasks_have_the_predictions_of_an_array_that_was_not_split() -> None:
    watch = DriftWatch()
    job = past_job(9, 100, end=T0)
    told = {"model": 100.0, "rolling": 50.0, "last-two": 10.0}
    watch.note(key(9, job.submit_time), of_past(job), "m1", told)
    for task in (1, 2):
        watch.ended(replace(job, array_task=task))
    assert len(watch.windows["gpu"]) == 2
    watch.ended(past_job(10, 100, end=T0))  # never predicted
    assert len(watch.windows["gpu"]) == 2


def test_what_is_remembered_is_bounded() -> None:
    watch = DriftWatch()
    job = of_past(past_job(1, 100, end=T0))
    told = {"model": 100.0, "rolling": 50.0, "last-two": 10.0}
    for number in range(MAX_OPEN + 10):
        watch.note(key(number, T0), job, "m1", told)
    assert len(watch._open) == MAX_OPEN
    watch.note(key(1, T0), job, "m1", {**told, "model": float("nan")})  # nothing was known
    assert len(watch._open) == MAX_OPEN


def test_a_restart_goes_on_where_it_was() -> None:
    world = Errors()
    world.end(150, bias=2.3)
    stored = json.loads(json.dumps(world.watch.to_json()))
    again = DriftWatch.from_json(stored, "m1")
    assert again.fallen == world.watch.fallen
    assert again.windows == world.watch.windows
    assert again.judgements == world.watch.judgements
    world.watch = again
    (back,) = world.end(400)
    assert not back.falls_back


SOUND: dict[str, Any] = {"fallen": {}, "fallen_models": {}, "windows": {}}
ROW = [T0, "ann\nx", 1, 10.0, "m1", [1.0, 1.0, 1.0]]


@pytest.mark.parametrize(
    "stored",
    [
        {"windows": {}},
        SOUND | {"windows": {"gpu": [ROW[:-1]]}},
        SOUND | {"windows": {"gpu": [[*ROW[:-1], [1.0, 1.0]]]}},
        SOUND | {"windows": {"gpu": [[*ROW[:-1], [1.0, float("nan"), 1.0]]]}},
        SOUND | {"windows": {"gpu": [[*ROW[:3], 0.0, *ROW[4:]]]}},
        SOUND | {"fallen": {"gpu": "long ago"}, "fallen_models": {"gpu": "m"}},
        SOUND | {"fallen": {"gpu": T0}},
        [],
    ],
)
def test_a_damaged_watch_is_refused(stored: Any) -> None:
    with pytest.raises((KeyError, TypeError, ValueError)):
        DriftWatch.from_json(stored, "m1")


def test_jobs_that_are_all_the_same_have_no_order() -> None:
    window = [Ended(T0, f"u{n}", 1, 10.0, "m1", (10.0, 10.0, 10.0)) for n in range(MIN_JOBS)]
    found = judgement(window)
    assert found is not None
    assert set(found.rank_correlations.values()) == {0.0}
    assert not found.is_worse
