"""The arrivals from which a forecast draws those to come."""

from __future__ import annotations

from typing import Any

import pytest
from support.jobs import past_job
from support.queue import row
from support.scenes import MULTIFACTOR, NOW, predicted, scene, view_of

from gsched.app.forecast import arrivals
from gsched.app.forecast.arrivals import (
    ARRIVALS_S,
    HORIZON_S,
    LEAST_HORIZON_S,
    arrivals_of,
    horizon_of,
)
from gsched.app.forecast.messages import Arrivals
from gsched.app.forecast.situation import LEVELS
from gsched.config.settings import PredictSettings
from gsched.forecast.situation import Demand, PastArrival
from gsched.model.times import DAY_S

LATER = 100 * DAY_S
"""A moment with weeks before it."""


def found(past: Any = (), present: Any = (), as_of: int = NOW, **how: Any) -> Arrivals:
    made = scene(present, **how)
    views = [view_of(*job) for job in present]
    return arrivals_of(past, views, made.ground, made.order, PredictSettings(), as_of)


def ended(submit: int, duration_s: int = 600, **facts: Any) -> Any:
    facts = {"gpus": 2, "time_limit_s": 3600, **facts}
    return past_job(5, duration_s, submit=submit, end=submit + duration_s + 60, **facts)


def test_an_ended_job_came_with_the_time_that_it_took() -> None:
    made = found([ended(NOW - 5000)])
    assert made == Arrivals(
        float(NOW - DAY_S),
        (
            PastArrival(
                NOW - 5000.0,
                (Demand(0, 2, 1), Demand(1, 4, 1)),
                0.0,
                3600.0,
                (600.0,) * len(LEVELS),
            ),
        ),
    )


def test_those_of_the_queue_came_too_with_their_predictions() -> None:
    job = row(7, submit_time=NOW - 50, time_limit_s=3600), predicted(100.0)
    made = found([ended(NOW - 5000)], [job])
    assert [arrival.submitted_at for arrival in made.jobs] == [NOW - 5000.0, NOW - 50.0]
    assert made.jobs[1].quantiles_s == tuple(value for _, value in predicted(100.0).quantiles)


def test_they_stand_where_jobs_of_their_size_stand() -> None:
    sizes = [(100.0, 900), (10_000.0, 100)]
    queue = [
        (row(n, priority=p, num_gpus=1, submit_time=NOW, time_limit_s=86400), predicted(mean))
        for n, (mean, p) in enumerate(sizes, 1)
    ]
    how = {"by_prediction": True, "config": MULTIFACTOR}
    made = found([ended(NOW - 5000, 100, gpus=1), ended(NOW - 4000, 5000, gpus=2)], queue, **how)
    assert [arrival.order for arrival in made.jobs[:2]] == pytest.approx([-900.0, -100.0])


def test_what_came_within_a_minute_is_taken_for_what_came_in_a_day() -> None:
    made = found([ended(LATER - 50), ended(LATER - 10)], as_of=LATER)
    assert made.since == LATER - DAY_S
    longer = found([ended(LATER - 3 * DAY_S)], as_of=LATER)
    assert longer.since == LATER - 3 * DAY_S


def test_jobs_to_come_are_drawn_for_a_week_or_until_there_are_many() -> None:
    (arrival,) = found([ended(LATER - 50)], as_of=LATER).jobs
    assert horizon_of(Arrivals(0.0, ()), LATER) == HORIZON_S
    for number, expected in ((100, HORIZON_S), (25_000, 2 * DAY_S), (10**6, LEAST_HORIZON_S)):
        arrivals = Arrivals(float(LATER - DAY_S), (arrival,) * number)
        assert horizon_of(arrivals, LATER) == expected


def test_jobs_for_which_there_are_no_nodes_any_more_do_not_come_again() -> None:
    assert found([ended(NOW - 5000, gpus=0, cpus=0)]).jobs == ()
    assert found().jobs == ()


def test_only_the_last_two_weeks_count() -> None:
    first, second = LATER - ARRIVALS_S - 1, LATER - ARRIVALS_S
    made = found([ended(first), ended(second), ended(LATER + 1)], as_of=LATER)
    assert [arrival.submitted_at for arrival in made.jobs] == [float(second)]
    assert made.since == second


def test_of_too_many_the_older_whole_days_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrivals, "MOST_ARRIVALS", 5)
    past = [ended(LATER - age * DAY_S // 2) for age in range(1, 9)]  # two a day, four days
    made = found(past, as_of=LATER)
    assert made.since == LATER - 2 * DAY_S
    assert [(LATER - a.submitted_at) / DAY_S for a in made.jobs] == [2.0, 1.5, 1.0, 0.5]
    crowd = found([ended(LATER - 100 - n) for n in range(9)], as_of=LATER)
    assert len(crowd.jobs) == 9  # of less than a day nothing is left out
