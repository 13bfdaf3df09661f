"""What the methods tell: naive ones exactly, learnt ones better than naive where there is a law."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from support.demand import A_DAY, MONDAY, STEP_S, daily, random_walk
from support.statistical import Arima, Ets

from gsched.demand.boosted import BoostedChange, Trees
from gsched.demand.naive import WEEK_S, LastValue, SeasonalNaive
from gsched.demand.scores import compare, score
from gsched.demand.series import DemandSeries
from gsched.demand.walk import WalkOptions, truth_after, walk_forward

OPTIONS = WalkOptions(num_steps=6)
DISTANCES_S = (3600, 3 * 3600)


def test_persistence_is_the_latest_value_also_across_a_gap():
    series = daily(2)
    series.values[12:16] = np.nan
    told = LastValue().fit(series, 3).predict(series, np.array([11, 14, 23]))
    assert told.tolist() == [[100] * 3, [100] * 3, [40] * 3]


def test_seasonal_naive_is_a_season_ago_and_repeats_it():
    series = DemandSeries(MONDAY, 21600, np.arange(8.0))  # four steps a day
    fitted = SeasonalNaive().fit(series, 6)
    assert fitted is not None
    assert fitted.predict(series, np.array([7])).tolist() == [[4, 5, 6, 7, 4, 5]]
    assert np.isnan(fitted.predict(series, np.array([1]))[0, 0])
    assert SeasonalNaive(WEEK_S).fit(series, 6) is None


def test_the_trees_learn_a_pattern_of_days_and_weekends():
    series = daily(36, noise=3)
    trees = Trees(number=60, rows_a_leaf=20, share_of_features=1.0)
    methods = (LastValue(), SeasonalNaive(), BoostedChange(trees=trees, trust=1.0))
    options = WalkOptions(num_steps=6, refit_s=WEEK_S)
    walks = {m.name: walk_forward(series, m, options, 28 * A_DAY) for m in methods}
    told = compare(walks, series, DISTANCES_S, MONDAY + 29 * 86400, series.end)
    for near, far in zip(told["boosted"], told["last-value"], strict=True):
        assert near.pairs == far.pairs == 7 * A_DAY
        assert near.rmse < 0.6 * far.rmse
    assert told["boosted"][1].rmse < 0.7 * told["seasonal-naive"][1].rmse


def test_what_the_trees_say_is_believed_in_part():
    series = daily(10, noise=3)
    row = np.array([len(series) - 1])
    now = series.values[row]
    whole, half = (
        BoostedChange(trust=trust, trees=Trees(number=20)).fit(series, 6).predict(series, row)
        for trust in (1.0, 0.5)
    )
    assert np.allclose(half - now, (whole - now) / 2)
    assert not np.allclose(whole, now)


def test_too_short_a_history_teaches_nothing():
    short = daily(3)
    assert BoostedChange().fit(short, 6) is None
    assert Ets().fit(short.first(20), 6) is None
    walk = walk_forward(daily(6), BoostedChange(trees=Trees(number=5)), OPTIONS, 2 * A_DAY)
    known = ~np.isnan(walk.predicted).any(axis=1)
    assert not known[: 2 * A_DAY - 1].any()
    assert known[2 * A_DAY :].all()


@pytest.mark.parametrize("method", [Ets(), Arima((1, 1, 1))], ids=lambda method: method.name)
def test_classical_models_follow_a_level_and_go_over_gaps(method):
    series = random_walk(6)
    series.values[-20:-10] = np.nan
    fitted = method.fit(series, 6)
    told = fitted.predict(series, np.array([len(series) - 15, len(series) - 1]))
    assert not np.isnan(told).any()
    assert abs(told[1] - series.values[-1]).max() < 40
    # the state's own forecast, by the library
    library = fitted.results.apply(series.values).forecast(6)
    assert np.allclose(told[1], library)


def test_a_constant_series_stays_constant():
    series = DemandSeries(MONDAY, STEP_S, np.full(8 * A_DAY, 7.0))
    for method in (LastValue(), BoostedChange(), Ets(), Arima((1, 0, 0))):
        fitted = method.fit(series, 4)
        if fitted is not None:
            assert fitted.predict(series, np.array([len(series) - 1])) == pytest.approx(7.0, 0.01)


def test_the_truth_after_a_row_ends_with_the_series():
    told = truth_after(np.arange(5.0), 2, 3, 2)
    assert told[0].tolist() == [3, 4]
    assert np.isnan(told[1:].ravel()[[1, 2, 3]]).all()
    assert told[1, 0] == 4


def test_a_walk_stays_on_one_series():
    walk = walk_forward(daily(2), LastValue(), OPTIONS, 0)
    for other in (replace(daily(3), start=MONDAY + STEP_S), replace(daily(3), step_s=60)):
        with pytest.raises(ValueError, match="another beginning"):
            walk.extend(other)
    with pytest.raises(ValueError, match="within"):
        walk_forward(daily(2), LastValue(), OPTIONS, -1)


def test_errors_by_hand_with_both_zero_pairs_skipped():
    told = score(60, np.array([0.0, 10, 30, np.nan]), np.array([0.0, 30, 10, 5]))
    assert (told.pairs, told.smape_pairs, told.zero_truths) == (3, 2, 1)
    assert told.rmse == pytest.approx(np.sqrt(800 / 3))
    assert told.mae == pytest.approx(40 / 3)
    assert told.smape_pct == told.smape_nonzero_pct == pytest.approx(100.0)
    away = score(60, np.array([1.0, 30]), np.array([0.0, 10]))
    assert (away.smape_pct, away.smape_nonzero_pct) == (pytest.approx(150), pytest.approx(100))
    assert score(60, np.zeros(2), np.zeros(2)).smape_pct is None
    assert score(60, np.zeros(0), np.zeros(0)).rmse is None


def test_all_walks_are_judged_by_the_same_pairs():
    series = daily(6)
    walks = {
        "early": walk_forward(series, LastValue(), OPTIONS, 0),
        "late": walk_forward(series, LastValue(), OPTIONS, 4 * A_DAY),
    }
    told = compare(walks, series, (3600,), MONDAY, series.end)
    assert told["early"] == told["late"]
    assert told["early"][0].pairs == 2 * A_DAY - 1
