"""No method knows anything of the future: with another one it tells the same."""

from __future__ import annotations

import numpy as np
import pytest
from support.demand import A_DAY, another_future, daily
from support.statistical import Arima, Ets

from gsched.demand.boosted import BoostedChange, Trees
from gsched.demand.calendar import CALENDAR, Calendar
from gsched.demand.features import PAST, calendar_columns, past_columns
from gsched.demand.forecaster import DemandForecaster, ForecastOptions
from gsched.demand.methods import Method
from gsched.demand.naive import LastValue, SeasonalNaive
from gsched.demand.walk import WalkOptions, walk_forward

BOOSTED = BoostedChange(Calendar(country="US"), Trees(number=8, rows_a_leaf=20))
METHODS = [LastValue(), SeasonalNaive(), BOOSTED, Ets(), Arima((1, 1, 1))]
SEEN = 8 * A_DAY + 5
OPTIONS = WalkOptions(num_steps=6)


@pytest.mark.parametrize("method", METHODS, ids=lambda method: method.name)
def test_forecasts_are_the_same_whatever_comes(method: Method):
    series = daily(10, noise=5)
    for changed in (SEEN, SEEN + 11):
        told = walk_forward(series, method, OPTIONS, 7 * A_DAY).predicted
        other = walk_forward(another_future(series, changed), method, OPTIONS, 7 * A_DAY).predicted
        until = changed - 7 * A_DAY
        assert np.array_equal(told[:until], other[:until], equal_nan=True)
        assert not np.isnan(told[:until]).any()
        assert not np.array_equal(told[until:], other[until:], equal_nan=True)


@pytest.mark.parametrize("method", METHODS, ids=lambda method: method.name)
def test_a_series_that_grows_step_by_step_is_told_the_same(method: Method):
    series = daily(9, noise=5)
    whole = walk_forward(series, method, OPTIONS, 8 * A_DAY)
    grown = walk_forward(series.first(8 * A_DAY + 3), method, OPTIONS, 8 * A_DAY)
    for length in range(8 * A_DAY + 4, 9 * A_DAY + 1):
        grown.extend(series.first(length))
    assert grown.num_fits == whole.num_fits == 1
    assert np.allclose(grown.predicted, whole.predicted, rtol=1e-9)


class Nosy:
    """Tells how much it was shown, as its forecast."""

    name = "nosy"

    def fit(self, history, num_steps):
        self.learnt = [*getattr(self, "learnt", []), len(history)]
        return self

    def predict(self, series, rows):
        return np.full((len(rows), OPTIONS.num_steps), float(len(series)))


def test_a_method_is_shown_nothing_behind_the_last_step_that_it_is_asked_about():
    series, nosy = daily(4), Nosy()
    shown = walk_forward(series, nosy, OPTIONS, A_DAY + 5).predicted[:, 0]
    assert nosy.learnt == [A_DAY + 6, 2 * A_DAY + 6, 3 * A_DAY + 6]
    assert sorted(set(shown)) == [2 * A_DAY + 5, 3 * A_DAY + 5, 4 * A_DAY]


def test_no_feature_knows_anything_of_the_future():
    series = daily(10, noise=5)
    series.values[3 * A_DAY : 3 * A_DAY + 9] = np.nan
    rows = np.arange(SEEN)
    other = another_future(series, SEEN)
    assert np.array_equal(past_columns(series, rows), past_columns(other, rows), equal_nan=True)
    assert past_columns(series, rows).shape == (SEEN, len(PAST))
    dates = calendar_columns(series, rows, 6, Calendar())
    assert dates.shape == (SEEN, len(CALENDAR))


def test_bounds_and_the_comparison_with_rivals_know_only_what_has_come_true():
    series = daily(16, noise=5)
    options = ForecastOptions(least_errors=36, renew_s=7200, tolerance=9.0)
    first, changed = 10 * A_DAY, 15 * A_DAY + 7
    outlooks = []
    for each in (series, another_future(series, changed)):
        forecaster = DemandForecaster(BOOSTED, OPTIONS, 8 * A_DAY, options)
        forecaster.observe(each)
        outlooks.append([forecaster.outlook(row) for row in range(first, len(series))])
    same = [one == other for one, other in zip(*outlooks, strict=True)]
    assert all(same[: changed - first])
    assert not any(same[changed - first :])
    told = [outlook.forecast is not None for outlook in outlooks[0]]
    assert all(told[2 * A_DAY :]), outlooks[0][-1].reason
