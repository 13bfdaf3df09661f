"""Figures by which forecasts are judged, against examples worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from support.forecast_scores import WEEK_S, Judged, coverage, errors, report

Floats = NDArray[np.float64]


def judged(
    as_of: Floats, start: Floats, low: Floats, high: Floats, ahead: int = 1, **expected: Floats
) -> Judged:
    """Forecasts whose interval was not corrected."""
    count = len(as_of)
    return Judged(
        as_of=as_of,
        start=start,
        expected=expected,
        low=low,
        high=high,
        raw_low=low,
        raw_high=high,
        ahead=np.full(count, ahead),
        learnt=np.zeros(count, dtype=np.int64),
    )


def ten(start: list[float]) -> Judged:
    """Ten forecasts of 100..200 at time 0, expected at 150; by another method at 100."""
    each = np.ones(10)
    return judged(
        0 * each,
        np.array(start, dtype=float),
        100 * each,
        200 * each,
        forecast=150 * each,
        other=100 * each,
    )


def test_a_start_on_the_border_is_inside() -> None:
    found = coverage(*_bounds(ten([100, 200, 99, 201, 150, 150, 150, 150, 150, 150])))
    assert found["num_inside"] == 8
    assert found["share"] == 0.8
    assert found["below"] == found["above"] == 0.1


def test_the_interval_score_is_the_width_and_ten_times_what_was_missed_by() -> None:
    found = coverage(*_bounds(ten([150] * 8 + [90, 220])))
    assert found["median_width_s"] == 100
    assert found["interval_score_s"] == pytest.approx(100 + 10 * (10 + 20) / 10)


def test_errors_are_medians_and_the_forecast_stands_against_each_method() -> None:
    found = errors(ten([150] * 2 + [110] * 3 + [160] * 5))
    assert found["forecast"]["median_absolute_error_s"] == 10
    assert found["forecast"]["mean_absolute_error_s"] == pytest.approx((3 * 40 + 5 * 10) / 10)
    assert found["other"]["median_absolute_error_s"] == 50
    assert found["other"]["error_ratio"] == pytest.approx(0.2)
    assert found["forecast"]["error_ratio"] == 1


def test_a_method_is_compared_where_it_told_a_start_and_the_number_is_told() -> None:
    each = np.ones(4)
    start = np.array([10.0, 20.0, 30.0, 40.0])
    other = np.array([np.nan, np.nan, 33.0, 46.0])
    forecasts = judged(
        0 * each, start, start, start, forecast=np.array([99.0, 99.0, 31.0, 41.0]), other=other
    )
    found = errors(forecasts)["other"]
    assert found["num_told"] == 2
    assert found["error_ratio"] == pytest.approx(1 / 3, abs=1e-4)


def test_the_worst_week_is_the_one_of_least_coverage_among_those_with_enough_forecasts() -> None:
    week = np.repeat([0, 1, 2], [30, 30, 5])
    inside = np.concatenate([np.arange(30) < 24, np.arange(30) < 15, np.zeros(5)]) > 0
    start = np.where(inside, 150.0, 900.0) + week * WEEK_S
    low, high = 100.0 + week * WEEK_S, 200.0 + week * WEEK_S
    found = coverage(judged(week * WEEK_S + 1.0, start, low, high, forecast=start), low, high)
    assert found["worst_week"] == {
        "week": 2,
        "from": "1970-01-08",
        "num_forecasts": 30,
        "num_inside": 15,
        "share": 0.5,
        "weeks_judged": 2,
    }


def test_weeks_that_differ_make_a_wide_interval_and_equal_ones_none() -> None:
    week = np.repeat(np.arange(10), 50)
    as_of = week * float(WEEK_S)
    low, high = as_of + 100, as_of + 200
    steady = np.where(np.arange(500) % 5 == 0, 900.0, 150.0) + as_of
    moody = np.where(week < 2, 900.0, 150.0) + as_of
    found = [
        coverage(judged(as_of, start, low, high, forecast=start), low, high)
        for start in (steady, moody)
    ]
    assert [f["share"] for f in found] == [0.8, 0.8]
    assert found[0]["share_interval"] == [0.8, 0.8]
    narrow, wide = found[1]["share_interval"]
    assert narrow < 0.6
    assert wide == 1.0
    assert found[0]["blocks"] == "10 weeks"


def test_with_few_weeks_days_are_drawn_and_with_few_days_no_interval_is_told() -> None:
    day = np.repeat(np.arange(8), 5) * 86_400.0
    found = coverage(judged(day, day, day, day, forecast=day), day, day)
    assert found["blocks"] == "8 days"
    assert "share_interval" in found
    assert "share_interval" not in coverage(*_bounds(ten([150] * 10)))


def test_groups_are_those_behind_others_and_those_that_really_waited() -> None:
    each = np.ones(3)
    found = report(judged(0 * each, np.array([0.0, 60.0, 61.0]), each, each, 0, forecast=each))
    assert found["all"]["num_forecasts"] == 3
    assert found["behind_others"] == {"num_forecasts": 0}
    assert found["waited_over_60_s"]["num_forecasts"] == 1


def _bounds(forecasts: Judged) -> tuple[Judged, Floats, Floats]:
    return forecasts, forecasts.low, forecasts.high
