"""What the trees are told of the past: every column by hand, on ten values with a gap."""

from __future__ import annotations

import numpy as np
import pytest
from support.demand import A_DAY, MONDAY, STEP_S, daily

from gsched.demand.boosted import BoostedChange, Trees
from gsched.demand.features import PAST, past_columns
from gsched.demand.series import DemandSeries

NAN = float("nan")
HALF_HOURS = DemandSeries(0, 1800, np.array([8.0, 2, 5, NAN, 3, 9, 4, 6, 1, 7]))


def told(row: int, series: DemandSeries = HALF_HOURS) -> dict[str, float]:
    return dict(zip(PAST, past_columns(series, np.array([row]))[0].tolist(), strict=True))


def test_every_column_of_the_last_row_by_hand():
    """The latest is 7; the last three hours are 3, 9, 4, 6, 1, 7, all of it besides 8, 2, 5."""
    assert told(9) == pytest.approx({
        "lag_600s": -6, "lag_1800s": -6, "lag_3600s": -1, "lag_10800s": NAN, "lag_86400s": NAN,
        "mean_1800s": 0, "mean_3600s": -3, "mean_10800s": -2, "mean_86400s": -2,
        "mean_604800s": -2,
        "deviation_3600s": 3,
        "deviation_10800s": (192 / 6 - 25) ** 0.5,
        "deviation_86400s": (285 / 9 - 25) ** 0.5,
        "median_10800s": -2, "median_86400s": -2,
        "least_86400s": -6, "greatest_86400s": 2,
    }, nan_ok=True)  # fmt: skip


def test_gaps_are_left_out_and_the_latest_value_is_the_last_known():
    """At the gap the latest known is 5, before it 8, 2, 5."""
    at_gap = told(3)
    assert at_gap["lag_1800s"] == 0
    assert np.isnan(at_gap["mean_1800s"])
    assert at_gap["mean_3600s"] == 0
    assert at_gap["mean_10800s"] == pytest.approx(0)
    assert np.isnan(at_gap["deviation_3600s"])  # of one value
    assert at_gap["deviation_10800s"] == pytest.approx((93 / 3 - 25) ** 0.5)
    assert (at_gap["median_10800s"], at_gap["least_86400s"], at_gap["greatest_86400s"]) == (
        0,
        -3,
        3,
    )
    after = told(4)
    assert np.isnan(after["lag_1800s"])
    assert after["lag_3600s"] == 2


def test_a_history_with_gaps_everywhere_teaches_nothing_or_what_is_known():
    values = np.arange(20 * A_DAY, dtype=float) % 50
    values[1::2] = np.nan
    series = DemandSeries(MONDAY, STEP_S, values)
    assert BoostedChange().fit(series, 6) is None  # an hour ahead nothing ever came true
    values = daily(20, noise=2).values.copy()
    values[5::7] = np.nan
    trees = BoostedChange(trees=Trees(number=20))
    fitted = trees.fit(DemandSeries(MONDAY, STEP_S, values), 6)
    assert not np.isnan(fitted.predict(daily(20), np.array([470]))).any()


def test_the_trees_learn_only_from_the_last_of_a_long_history():
    """What is older than that, and than its features reach back, changes nothing."""
    late = daily(12, noise=2)
    early = np.random.default_rng(1).integers(0, 600, 10 * A_DAY).astype(float)
    long = DemandSeries(MONDAY - 10 * 86400, STEP_S, np.concatenate([early, late.values]))
    row = np.array([len(long) - 1])
    short, full = (
        BoostedChange(trees=Trees(number=20), history_s=history_s).fit(long, 6).predict(long, row)
        for history_s in (4 * 86400, 180 * 86400)
    )
    assert not np.allclose(short, full)
    kept = BoostedChange(trees=Trees(number=20), history_s=4 * 86400)
    other = long.values.copy()
    other[: 2 * A_DAY] += 500  # beyond what is learnt from, and what features reach back to
    same = kept.fit(DemandSeries(long.start, STEP_S, other), 6).predict(long, row)
    assert np.array_equal(short, same)


def test_demand_is_never_below_nothing():
    """It falls by fifty an hour, and stands at ten."""
    falls = np.tile(np.arange(1000.0, 0.0, -50.0), 12)
    series = DemandSeries(MONDAY, STEP_S, falls)
    fitted = BoostedChange(trees=Trees(rows_a_leaf=5), trust=3.0).fit(series, 3)
    low = series.values.copy()
    low[-1] = 10.0
    row = np.arange(len(series) - 20, len(series))
    predicted = fitted.predict(DemandSeries(MONDAY, STEP_S, low), row)
    assert predicted.min() == 0.0


def test_the_furthest_step_has_trees_of_its_own():
    """A pattern of eight hours: at eight nothing has changed, and five and seven do not say so."""
    pattern = np.tile([0.0, 50, 10, 40, 20, 30, 5, 70], 40)
    series = DemandSeries(MONDAY, STEP_S, pattern)
    method = BoostedChange(trees=Trees(number=200, rows_a_leaf=5, share_of_features=1.0), trust=1.0)
    predicted = method.fit(series, 8).predict(series, np.array([len(series) - 1]))
    assert predicted[0, 7] == pytest.approx(70.0, abs=3.0)


def test_a_column_of_which_nothing_is_known_is_no_obstacle():
    """Steps of two days, every third of them known: no lag ever is."""
    values = np.full(180, np.nan)
    values[::3] = np.arange(60.0) % 7
    series = DemandSeries(MONDAY, 2 * 86400, values)
    assert np.isnan(past_columns(series, np.arange(0, 180, 3))[:, 0]).all()
    fitted = BoostedChange(trees=Trees(number=5), history_s=360 * 86400).fit(series, 3)
    assert not np.isnan(fitted.predict(series, np.array([177]))).any()
