"""Intervals that hold what they promise, and which job belongs to which arm."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np
import pytest

from gsched.app.impact_arms import BRIDGE_S, Jobs, Side, assign, intervals
from gsched.app.impact_bounds import bounds_of
from gsched.app.impact_statistics import compare, days_of
from gsched.model.impact import JobWait
from gsched.model.journal import DaemonSpan
from gsched.model.times import DAY_S
from gsched.resampling import MIN_DAYS

TRIALS = 40
RUN_S = 600


def chance_jobs(days: Iterable[int], random: np.random.Generator, factor: float = 1.0) -> Jobs:
    """Twenty jobs a day; days differ among themselves."""
    found = []
    for day in days:
        typical_s = 1800 * random.lognormal(0, 0.6)
        for moment in random.uniform(0, DAY_S / 2, 20):
            submit = int(day * DAY_S + moment)
            found.append(waited(submit, int(factor * typical_s * random.lognormal(0, 0.5))))
    return Jobs.of(found)


def waited(submit: int, wait_s: int, partition: str = "gpu", num_gpus: int = 1) -> JobWait:
    start = submit + wait_s
    return JobWait(submit, start, start + RUN_S, wait_s, RUN_S, num_gpus, RUN_S, partition)


def errors(factor: float, num_days: int, *, same_days: bool = False) -> int:
    """In how many trials the interval of the mean excludes 0."""
    shown = 0
    for seed in range(TRIALS):
        random = np.random.default_rng(seed)
        other = range(num_days) if same_days else range(100, 100 + num_days)
        acting = chance_jobs(range(num_days), random, factor)
        control = chance_jobs(other, random)
        told = compare(acting, control, 3600, same_days=same_days)["queueing_mean_s"]
        shown += told.is_shown
    return shown


@pytest.mark.parametrize("same_days", [False, True], ids=["in turn", "side by side"])
def test_chance_alone_is_seldom_shown_as_an_effect(same_days: bool) -> None:
    """In one of twenty trials, were all days alike; jobs as the unit would err in every second."""
    assert errors(1.0, MIN_DAYS, same_days=same_days) <= 0.15 * TRIALS


def test_a_large_effect_is_shown() -> None:
    assert errors(0.3, 2 * MIN_DAYS) > 0.9 * TRIALS


def test_the_same_jobs_give_the_same_interval() -> None:
    jobs = [chance_jobs(range(k, k + 9), np.random.default_rng(k)) for k in (1, 50)]
    once, again = (compare(*jobs, 3600, same_days=False) for _ in range(2))
    assert once == again


def test_weights_count_jobs_of_a_day_together() -> None:
    """Two days, one of which has a long wait: a resample has it twice, once or not at all."""
    days = [[waited(day * DAY_S + 9, 1000 * (day == 0))] for day in range(MIN_DAYS)]
    acting = Jobs.of([job for day in days for job in day])
    control = Jobs.of([waited(day * DAY_S + 9, 0) for day in range(MIN_DAYS)])
    told = compare(acting, control, 500, same_days=False)["queueing_mean_s"]
    assert told.value == pytest.approx(1000 / MIN_DAYS)
    assert told.low == 0
    assert told.high is not None
    steps = told.high * MIN_DAYS / 1000
    assert steps == pytest.approx(round(steps))  # so many times was the day drawn


def test_jobs_without_gpus_and_without_end_are_not_in_figures_that_need_them() -> None:
    jobs = [waited(day * DAY_S, 100, num_gpus=day % 2) for day in range(10)]
    jobs += [
        JobWait(day * DAY_S, day * DAY_S + 900, None, 900, None, 0, 0, "gpu") for day in range(9)
    ]
    told = compare(Jobs.of(jobs), Jobs.of(jobs), 500, same_days=True)
    assert told["gpu_queueing_mean_s"].acting == 100
    assert told["jct_mean_s"].acting == 100 + RUN_S
    assert told["bounded_slowdown_mean"].acting == pytest.approx((100 + RUN_S) / RUN_S)
    assert told["queueing_mean_s"].value == told["queueing_mean_s"].low == 0


def test_quantiles_of_many_jobs_are_those_of_the_jobs() -> None:
    random = np.random.default_rng(5)
    waits = random.integers(0, 10**6, 9001).tolist()
    jobs = Jobs.of([waited(day * 1000, wait_s) for day, wait_s in enumerate(waits)])
    told = compare(jobs, jobs, 500, same_days=False)
    waits.sort()
    for metric, share in (("median", 0.5), ("p90", 0.9), ("p99", 0.99)):
        place = int(np.ceil(share * len(waits))) - 1
        assert told[f"queueing_{metric}_s"].acting == waits[place]


def test_no_jobs_at_all() -> None:
    nothing = Jobs.of([])
    assert len(days_of(nothing)) == 0
    told = compare(nothing, nothing, 500, same_days=False)
    assert {(one.acting, one.value, one.low) for one in told.values()} == {(None, None, None)}


def span(mode: str, begin: int, end: int) -> DaemonSpan:
    return DaemonSpan(mode, "qssf", begin, end, rounds=1, writes=0)


def test_a_daemon_that_was_started_anew_has_not_left_its_arm() -> None:
    spans = [
        span("act", 0, 1000),
        span("act", 1000 + BRIDGE_S, 9000),
        span("act", 9001 + BRIDGE_S, 20_000),  # away for too long
        span("frozen", 20_000, 20_010),
        span("act", 20_010, 21_000),
    ]
    assert intervals(spans, {"act"}, None, None) == (
        (0, 9000),
        (9001 + BRIDGE_S, 20_000),
        (20_010, 21_000),
    )
    assert intervals(spans, {"act"}, 500, 8000) == ((500, 8000),)
    assert intervals(spans, {"observe"}, None, None) == ()


def test_a_single_round_does_not_bridge_the_pause_before_it() -> None:
    spans = [
        span("act", 0, 30_000),
        span("frozen", 30_000, 31_800),
        span("act", 31_800, 31_800),
        span("act", 32_000, 60_000),
    ]
    assert intervals(spans, {"act"}, None, None) == ((0, 30_000), (32_000, 60_000))


def test_a_job_counts_where_it_was_submitted_with_its_whole_wait() -> None:
    jobs = Jobs.of([waited(10, 5), waited(90, 11), waited(100, 0), waited(150, 10), waited(99, 1)])
    sides = (Side("acting", ((0, 100),)), Side("control", ((100, 160),)))
    assigned = assign(jobs, sides)
    assert [list(arm.counted.first_submit) for arm in assigned.arms] == [[10, 90, 99], [100, 150]]
    assert [list(arm.crossing.queueing_s) for arm in assigned.arms] == [[11], []]
    assert [list(arm.submitted.first_submit) for arm in assigned.arms] == [[10, 90, 99], [100, 150]]
    assert not any(assigned.left_out.values())


@pytest.mark.parametrize("long_share", [0.0, 0.2])
def test_waits_longer_than_a_turn_are_seldom_shown_as_an_effect(long_share: float) -> None:
    """Days in turn and nothing that differs; of some jobs the wait lasts into the other arm."""
    shown = 0
    days = 4 * MIN_DAYS
    turns = [tuple((d * DAY_S, (d + 1) * DAY_S) for d in range(k, days, 2)) for k in (0, 1)]
    sides = (Side("acting", turns[0]), Side("control", turns[1]))
    for seed in range(TRIALS):
        random = np.random.default_rng(seed)
        jobs = chance_jobs(range(days), random)
        is_long = random.random(len(jobs)) < long_share
        waits = np.where(is_long, 30 * 3600, jobs.queueing_s)
        jobs = replace(jobs, queueing_s=waits, start_time=jobs.first_submit + waits)
        acting, control = assign(jobs, sides).arms
        assert len(acting.crossing) + len(control.crossing) == is_long.sum()
        told = compare(
            acting.counted, control.counted, 3600, same_days=False, only=("queueing_mean_s",)
        )
        shown += told["queueing_mean_s"].is_shown
    assert shown <= 0.15 * TRIALS


def test_bounds_take_what_is_not_known_at_its_worst() -> None:
    own = [waited(day * DAY_S + 9, 100) for day in range(MIN_DAYS)]
    waits = JobWait(9, None, None, None, None, 1, None, "gpu")
    gave_up = JobWait(9, None, 509, None, None, 1, None, "gpu")
    untold = JobWait(9, 20, 30, None, 10, 1, None, "gpu")
    sides = (Side("acting", ((0, 90 * DAY_S),), frozenset({"gpu"}), outside=False),
             Side("control", ((0, 90 * DAY_S),), frozenset({"gpu"})))  # fmt: skip
    other = [replace(job, partition="quiet") for job in own]
    arms = assign(Jobs.of([*own, waits, gave_up, untold, *other]), sides).arms
    bounds = bounds_of(arms, 1009, same_days=True)
    jobs = MIN_DAYS + 3
    assert bounds.acting_worst.acting == (100 * MIN_DAYS + 2000 + 500 + 100) / jobs
    assert bounds.control_worst.acting == (100 * MIN_DAYS + 1000 + 500 + 0) / jobs
    assert bounds.acting_worst.control == bounds.control_worst.control == 100
    assert not bounds.allow("shorter")
