"""The forecast in use: its bounds hold, and it is silent where it is worse than naive."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest
from support.demand import A_DAY, MONDAY, STEP_S, daily, random_walk

from gsched.demand.forecaster import (
    MADE,
    NO_ERRORS,
    NO_METHOD,
    NO_VALUE,
    WORSE,
    DemandForecaster,
    ForecastOptions,
)
from gsched.demand.naive import LastValue, SeasonalNaive
from gsched.demand.walk import WalkOptions
from gsched.model.demand_forecast import DemandForecast, constant_forecast, known_forecast

WALK = WalkOptions(num_steps=12)
OPTIONS = ForecastOptions(level=0.9, judged_s=(3600, 3 * 3600), least_errors=24)


@dataclass(frozen=True)
class Off:
    """Persistence that errs by so many nodes from a day on."""

    by: float
    since: int
    name: str = "off"

    def fit(self, history, num_steps):
        return _Off(self, num_steps)


@dataclass(frozen=True)
class _Off:
    method: Off
    num_steps: int

    def predict(self, series, rows):
        told = LastValue().fit(series, self.num_steps).predict(series, rows)
        return told + np.where(rows >= self.method.since * A_DAY, self.method.by, 0.0)[:, None]


def observed(method, series, options=OPTIONS, first_row=A_DAY):
    forecaster = DemandForecaster(method, WALK, first_row, options)
    forecaster.observe(series)
    return forecaster


def test_bounds_hold_as_often_as_they_say():
    series = random_walk(120)
    forecaster = observed(LastValue(), series)
    below, above, below_peak = [], [], []
    for row in range(60 * A_DAY, 119 * A_DAY):
        told = forecaster.outlook(row).forecast
        came = series.values[row + 1 : row + 13]
        below.append([came[k] < told.low[k] for k in (0, 5, 11)])
        above.append([came[k] > told.high[k] for k in (0, 5, 11)])
        below_peak.append([came[: k + 1].max() <= told.peak[k] for k in (0, 5, 11)])
    for beyond in (below, above):  # on a random walk errors far ahead overlap: few of a kind
        assert np.mean(beyond, axis=0) == pytest.approx(0.05, abs=0.03)
    assert np.mean(below_peak, axis=0) == pytest.approx(0.9, abs=0.05)


def test_bounds_grow_with_the_distance_and_with_the_level():
    series = random_walk(30)
    wide, narrow = (
        observed(LastValue(), series, replace(OPTIONS, level=level)).latest().forecast
        for level in (0.95, 0.5)
    )
    assert wide.high[11] - wide.low[11] > 2 * (wide.high[0] - wide.low[0])
    assert all(w > n for w, n in zip(wide.peak, narrow.peak, strict=True))


def test_a_method_that_becomes_worse_than_naive_falls_silent_and_may_come_back():
    series = random_walk(30)
    options = replace(OPTIONS, judge_s=2 * 86400)
    good = observed(Off(0.0, 0), series, options).outlook(25 * A_DAY)
    assert good.reason.code == MADE
    assert good.reason.params["error_ratio"] == pytest.approx(1)
    forecaster = observed(Off(60.0, 20), series, options)
    codes = [forecaster.outlook(row).reason.code for row in range(19 * A_DAY, 23 * A_DAY)]
    assert codes[0] == MADE
    assert codes[-1] == WORSE
    assert forecaster.latest().forecast is None
    assert forecaster.latest().reason.params["rival"] == "last-value"
    healed = observed(_Healed(), series, options)
    assert healed.outlook(20 * A_DAY).reason.code == WORSE
    assert healed.outlook(23 * A_DAY).reason.code == MADE


@dataclass(frozen=True)
class _Healed:
    """Sixty nodes off until day 20, and then persistence."""

    name: str = "healed"

    def fit(self, history, num_steps):
        return self if num_steps == WALK.num_steps else None

    def predict(self, series, rows):
        told = LastValue().fit(series, WALK.num_steps).predict(series, rows)
        return told + np.where(rows < 20 * A_DAY, 60.0, 0.0)[:, None]


def test_the_best_rival_counts():
    series = daily(20)
    forecaster = observed(LastValue(), series)
    forecaster_name = DemandForecaster(
        replace(LastValue(), name="other"), WALK, A_DAY, OPTIONS, (SeasonalNaive(),)
    )
    forecaster_name.observe(series.first(4 * A_DAY))  # weekdays: a day ago is exact
    told = forecaster_name.latest()
    assert told.reason.code == WORSE
    assert told.reason.params["rival"] == "seasonal-naive"
    assert forecaster.latest().reason.params["rival"] == "seasonal-naive"


def test_why_there_is_no_forecast():
    series = daily(8, noise=2)
    assert observed(
        SeasonalNaive(), series.first(A_DAY // 2), first_row=0
    ).latest().reason.code == (NO_METHOD)
    assert observed(LastValue(), series.first(A_DAY + 10)).latest().reason.code == NO_ERRORS
    series.values[-1] = np.nan
    assert observed(LastValue(), series).latest().reason.code == NO_VALUE
    assert DemandForecaster(LastValue(), WALK, A_DAY).outlook(A_DAY).reason.code == NO_METHOD


def test_a_forecast_tells_means_and_peaks_of_whole_steps():
    told = known_forecast([3, 9, 1, 5], MONDAY, STEP_S, "oracle")
    assert told.peak == (3, 9, 9, 9)
    assert [told.mean_until(s) for s in (1, 3600, 7200, 14400, 99999)] == [3, 3, 6, 4.5, 4.5]
    assert [told.peak_until(s) for s in (3600, 10800)] == [3, 9]
    assert [told.peak_until(s) for s in (1, 3601, 7200, 7201, 99999)] == [3, 9, 9, 9, 9]
    late = known_forecast([3, 9, 1, 11], MONDAY, STEP_S, "oracle")
    assert [late.peak_until(10800, age) for age in (-5, 0, 1, 99999)] == [9, 9, 11, 11]
    assert [late.mean_until(7200, age) for age in (-5, 0, 3599, 3600, 10800, 99999)] == [
        6, 6, 6, 5, 11, 11,
    ]  # fmt: skip
    assert told.covers(14400, -5)
    assert not told.covers(14400, 1)
    assert told.covers(14400)
    assert not told.covers(14401)
    assert constant_forecast(4, MONDAY, STEP_S, 3, "last").mean == (4, 4, 4)


@pytest.mark.parametrize(
    "wrong",
    [
        {"mean": ()},
        {"low": (1.0,)},
        {"low": (3.0, 1.0)},
        {"high": (1.0, 1.0)},
        {"peak": (4.0, 3.0)},
        {"step_s": 0},
        {"peak": (3.0, float("nan"))},
        {"peak": (float("nan"),) * 2},
        {"peak": (3.0, float("inf"))},
        {"mean": (2.0, float("nan"))},
    ],
)
def test_a_forecast_that_contradicts_itself_is_refused(wrong):
    right = DemandForecast(0, 600, (2.0, 2.0), (1.0, 1.0), (3.0, 3.0), (3.0, 4.0), 0.9, "x")
    with pytest.raises(ValueError, match=r"forecast|mean|bound|columns"):
        replace(right, **wrong)
