"""Differences at their edges: an interval that ends at 0, waits at the limit, days without jobs."""

from __future__ import annotations

import pytest

from gsched.app.impact_arms import Jobs
from gsched.app.impact_statistics import Difference, compare
from gsched.model.impact import JobWait
from gsched.model.times import DAY_S
from gsched.resampling import MIN_DAYS

RUN_S, LONG_S = 600, 3600


def waited(day: int, wait_s: int, num_gpus: int = 1) -> JobWait:
    submit = day * DAY_S + 9
    start = submit + wait_s
    return JobWait(submit, start, start + RUN_S, wait_s, RUN_S, num_gpus, RUN_S, "gpu")


@pytest.mark.parametrize(
    ("low", "high", "is_shown"),
    [
        (1.0, 2.0, True),
        (-2.0, -1.0, True),
        (0.0, 2.0, False),
        (-2.0, 0.0, False),
        (0.0, 0.0, False),
        (-1.0, 1.0, False),
        (1e-9, 2.0, True),
        (None, None, False),
    ],
)
def test_an_interval_with_0_shows_nothing(
    low: float | None, high: float | None, is_shown: bool
) -> None:
    assert Difference(2.0, 1.0, low, high).is_shown is is_shown


def test_a_wait_of_just_the_limit_is_not_long() -> None:
    def share(wait_s: int) -> float | None:
        jobs = Jobs.of([waited(0, wait_s), waited(1, 0)])
        return compare(jobs, jobs, LONG_S, same_days=True)["long_wait_share"].acting

    assert [share(LONG_S + more) for more in (-1, 0, 1)] == [0.0, 0.0, 0.5]


@pytest.mark.parametrize(
    ("num_days", "is_told"), [(1, False), (2, False), (3, True), (MIN_DAYS, True)]
)
def test_a_metric_that_most_days_know_nothing_of_has_no_interval(
    num_days: int, is_told: bool
) -> None:
    """Jobs with GPUs on so many of seven days: for two, a resample in ten has none of them."""
    jobs = Jobs.of([waited(day, 100, num_gpus=int(day < num_days)) for day in range(MIN_DAYS)])
    told = compare(jobs, jobs, LONG_S, same_days=True)
    found = told["gpu_queueing_mean_s"]
    assert (found.acting, found.value) == (100, 0)
    assert ((found.low, found.high) != (None, None)) is is_told
    assert told["queueing_mean_s"].low is not None
