"""Which heartbeats are believed: of the own attempt, of now, and without contradiction."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from support.heartbeats import record
from support.jobs import view

from gsched.daemon.told_speed import JobWatch
from gsched.model.job import Allocation, JobState, PredictionKind
from gsched.policy.remaining import remaining

START = 100_000.0


def job(restarts=0, start=START, state=JobState.RUNNING):
    held = Allocation(("n1",), (1,), int(start)) if state is JobState.RUNNING else None
    return replace(view(submit=int(START) - 500), state=state, restarts=restarts, allocation=held)


def beat(after_s, step, **facts):
    """A heartbeat of the job's first start, written so long after its start."""
    now = START + after_s
    usual = {"started_time": START + 10, "written_time": now, "step_time": now, "step": step}
    return record(**(usual | facts))


def taken(watch, beat_, at=None, view_=None):
    return take(watch, beat_, view_ or job(), beat_.written_time if at is None else at)


def take(watch, beat_, view_, at):
    return watch.take(beat_, view_, at, at)


def speed(telling):
    return telling.predictions[0]


def test_its_own_word_at_first():
    telling = taken(JobWatch(), beat(60, 100, pace_s=0.5, iteration_s=0.5))
    rate, left = telling.predictions
    assert (rate.kind, rate.mean, rate.source) == (PredictionKind.SPEED, 2.0, "heartbeat")
    assert (left.kind, left.mean) == (PredictionKind.ITERATIONS, 900)
    assert (telling.progress.iterations_done, telling.progress.iterations_total) == (100, 1000)
    levels = dict(rate.quantiles)
    assert levels[0.1] < 2.0 < levels[0.9]
    assert levels[0.5] == pytest.approx(2.0)


def test_a_long_look_by_this_hosts_clock_counts_for_more_than_the_word():
    """The job says 0.5 s a step and does one in 0.6 s, all told."""
    watch = JobWatch()
    telling = None
    for after_s in range(60, 1900, 60):
        telling = taken(watch, beat(after_s, round(after_s / 0.6), total_steps=10_000))
    assert speed(telling).mean == pytest.approx(1 / 0.6, rel=0.01)
    narrow = dict(speed(telling).quantiles)
    assert narrow[0.9] / narrow[0.1] > 1.2  # its word and what was seen are apart
    assert not watch.doubt


def test_a_steady_job_is_known_the_better_the_longer_it_is_seen():
    watch = JobWatch()
    widths = []
    for after_s in range(60, 1900, 60):
        telling = taken(watch, beat(after_s, 2 * after_s, total_steps=10_000))
        levels = dict(speed(telling).quantiles)
        widths.append(math.log(levels[0.9] / levels[0.1]))
    assert widths[-1] < widths[0] / 3


@pytest.mark.parametrize(
    ("facts", "at"),
    [
        ({"total_steps": None}, 60),
        ({"pace_s": None}, 60),
        ({"restart": 1}, 60),
        ({"started_time": START - 301}, 60),  # of a job that had this number before
        ({"ended_time": START + 60}, 60),
        ({}, 60 + 121),  # last written so long ago
        ({"step_time": START + 60, "written_time": START + 400}, 400),  # silent
        ({"written_time": START + 60 + 301}, 60),  # from the future
    ],
)
def test_what_is_not_of_this_attempt_or_not_of_now_says_nothing(facts, at):
    assert taken(JobWatch(), beat(60, 100, **facts), START + at) is None
    assert taken(JobWatch(), beat(60, 100)) is not None


def test_steps_that_come_faster_than_the_job_says_they_do_are_a_contradiction():
    watch = JobWatch()
    taken(watch, beat(60, 100))
    assert taken(watch, beat(120, 900_000, total_steps=1_000_000)) is None
    assert "899900 steps of 0.5 s came within 180 s" in watch.doubt
    # whatever it tells later in this start
    assert taken(watch, beat(180, 900_010, total_steps=1_000_000)) is None
    # the next start is asked anew
    fresh = beat(240, 200, run="b" * 12, started_time=START + 200)
    assert taken(watch, fresh) is not None


def test_a_first_heartbeat_that_claims_more_than_the_attempt_had_time_for():
    watch = JobWatch()
    assert taken(watch, beat(60, 100_000, total_steps=100_100)) is None
    assert watch.doubt
    resumed = beat(60, 100_000, total_steps=100_100, first_step=99_900)
    assert taken(JobWatch(), resumed) is not None


def test_a_training_that_begins_again_is_no_contradiction():
    watch = JobWatch()
    taken(watch, beat(60, 500))
    telling = taken(watch, beat(120, 20))
    assert telling.predictions[1].mean == 980
    assert not watch.doubt
    for after_s in range(180, 1080, 60):  # its speed is that of what it does now
        telling = taken(watch, beat(after_s, after_s - 100, total_steps=5000, pace_s=1.0))
    assert speed(telling).mean == pytest.approx(1.0, rel=0.01)


def test_a_job_that_hangs_does_not_come_nearer_to_its_end():
    """At most the step that is under way passes with the time."""
    watch = JobWatch()
    view_ = replace(job(), predictions=())
    told = taken(watch, beat(60, 400, total_steps=1000, pace_s=1.0))
    stands = taken(watch, beat(200, 400, pace_s=1.0, step_time=START + 60), view_=view_)
    left = [
        remaining(replace(view_, predictions=t.predictions), int(START) + at, may_lower=True).mean_s
        for t, at in ((told, 60), (stands, 200))
    ]
    assert left[0] == pytest.approx(600, abs=1)
    assert left[1] == pytest.approx(599, abs=1)


def test_a_requeued_job_goes_on_from_its_checkpoint_as_fast_as_before():
    watch = JobWatch()
    for after_s in range(60, 1000, 60):
        told = beat(after_s, after_s, total_steps=5000, pace_s=1.0, committed_step=after_s - 50)
        taken(watch, told)
    waits = job(restarts=1, state=JobState.PENDING)
    telling = take(watch, told, waits, START + 5000)
    assert telling.predictions[1].mean == 5000 - (960 - 50)
    assert speed(telling).mean == pytest.approx(1.0, rel=0.01)
    # a daemon that has not seen it run has its word
    assert take(JobWatch(), told, waits, START + 5000).predictions[1].mean == 5000 - 910
    # without a checkpoint it begins where this start began
    bare = replace(told, committed_step=None, first_step=100)
    assert take(JobWatch(), bare, waits, START + 5000).predictions[1].mean == 4900
    # one that has never run, and one that waits for its first start, has nothing to tell
    assert take(JobWatch(), told, job(state=JobState.PENDING), START + 5000) is None


def test_a_job_that_loads_again_goes_by_what_it_told_before_for_a_while():
    told = beat(600, 500, committed_step=450, pace_s=1.0, total_steps=1000)
    again = START + 2000
    loads = job(restarts=1, start=again)
    watch = JobWatch()
    for after_s in (1, 300, 600):
        telling = take(watch, told, loads, again + after_s)
        assert telling.predictions[1].mean == 550
        view_ = replace(loads, predictions=telling.predictions)
        assert remaining(view_, int(again) + after_s, may_lower=True).mean_s == pytest.approx(550)
    assert take(watch, told, loads, again + 601) is None
    foreign = replace(told, started_time=START - 900)  # of a job that had this number before
    assert take(JobWatch(), foreign, loads, again + 1) is None


def test_what_a_restart_has_cost():
    """Ninety seconds to the first new step, and twenty steps of a second once more."""
    watch = JobWatch()
    taken(watch, beat(60, 100, pace_s=1.0))
    taken(watch, beat(120, 160, pace_s=1.0))
    assert watch.restart_s is None
    again = START + 1000
    view_ = job(restarts=1, start=again)
    told = record(
        run="c" * 12, restart=1, first_step=140, step=150, started_time=again + 30,
        written_time=again + 100, step_time=again + 100, pace_s=1.0,
    )  # fmt: skip
    assert take(watch, told, view_, again + 100) is not None
    assert watch.restart_s == pytest.approx(90 + 20)
    later = replace(told, step=200, step_time=again + 300, written_time=again + 300)
    take(watch, later, view_, again + 300)
    assert watch.restart_s == pytest.approx(110)


def test_a_restart_that_is_seen_late_has_cost_what_passed_before_it_began():
    told = record(
        restart=1, first_step=0, step=900, started_time=START + 30,
        written_time=START + 3000, step_time=START + 3000, pace_s=1.0,
    )  # fmt: skip
    watch = JobWatch()
    assert take(watch, told, job(restarts=1), START + 3000) is not None
    assert watch.restart_s == pytest.approx(30)


def test_numbers_beyond_all_measure_do_no_harm():
    for pace_s in (1e-300, 1e12, 5e-324):
        telling = taken(JobWatch(), beat(60, 1, pace_s=pace_s, total_steps=2**53))
        if telling is not None:
            assert all(math.isfinite(v) and v > 0 for _, v in speed(telling).quantiles)
