"""Figures of an evaluation, by hand and against scipy."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import spearmanr

from gsched.app.evaluation.statistics import (
    WEEK_S,
    Blocking,
    RankCorrelation,
    contender_figures,
    share_with_interval,
    sources_of,
    weekly,
)
from gsched.model.times import DAY_S

T0 = 1_750_000_000


@pytest.fixture
def random():
    return np.random.default_rng(5)


def spread(random, count, days):
    return np.sort(T0 + random.integers(0, days * DAY_S, count))


def test_blocks_are_weeks_and_days_where_weeks_are_few(random):
    assert Blocking.of(spread(random, 2000, 70)).unit == "week"
    assert Blocking.of(spread(random, 2000, 70)).count == 10
    assert Blocking.of(spread(random, 2000, 20)).unit == "day"
    assert Blocking.of(spread(random, 2000, 3)).drawn() is None


def test_rank_correlation_is_spearmans_also_of_drawn_blocks(random):
    actual = np.round(np.exp(random.normal(3, 1, 600)))  # many are equal
    predicted = np.round(actual * np.exp(random.normal(0, 1, 600)))
    blocks = Blocking.of(spread(random, 600, 70))
    weights = blocks.drawn()
    value, again = RankCorrelation(actual, blocks, weights).of(predicted)
    assert value == pytest.approx(spearmanr(predicted, actual).statistic)
    for drawn in (0, 1, 999):
        rows = np.repeat(np.arange(600), weights[drawn][blocks.block])
        expected = spearmanr(predicted[rows], actual[rows]).statistic
        assert again[drawn] == pytest.approx(expected)


def test_a_constant_has_no_order(random):
    actual = random.random(100)
    blocks = Blocking.of(spread(random, 100, 70))
    value, again = RankCorrelation(actual, blocks, blocks.drawn()).of(np.ones(100))
    assert value == 0.0
    assert not again.any()


def test_errors_by_hand():
    actual = np.array([100.0, 100.0, 100.0, 0.0])
    predicted = np.array([100.0, 50.0, 400.0, 1.0])  # what is under a second counts as one
    (figures,) = contender_figures(
        {"model": predicted}, actual, np.ones(4), Blocking.of(np.array([T0] * 4))
    )
    assert figures.off_by == pytest.approx(math.sqrt(2))  # factors 1, 1, 2, 4
    assert figures.within_factor_2 == 0.75
    assert figures.accuracy == pytest.approx((1 + 0.5 + 0.25 + 1) / 4)
    assert figures.mean_abs_error_s == pytest.approx((0 + 50 + 300 + 1) / 4)
    assert figures.median_abs_error_s == pytest.approx(25.5)
    assert figures.short_share == 0.25
    assert figures.log_error.low is None  # one day is too few for an interval
    assert figures.model_gain is None


def test_the_gain_is_paired(random):
    """What both gain or lose alike in a week does not widen the interval of their difference."""
    submit = spread(random, 4000, 140)
    hard = random.random(20)[(submit - submit.min()) // WEEK_S] * 3  # some weeks are hard for all
    actual = np.exp(random.normal(5, 1.5, 4000))
    noise = random.normal(0, 1, 4000) * hard
    model, rival = actual * np.exp(noise), actual * np.exp(noise + random.normal(0, 0.6, 4000))
    ours, theirs = contender_figures(
        {"model": model, "rival": rival}, actual, np.ones(4000), Blocking.of(submit)
    )
    gain = theirs.model_gain
    assert gain.value == pytest.approx(ours.rank_correlation.value - theirs.rank_correlation.value)
    assert 0 < gain.low < gain.value < gain.high
    width = ours.rank_correlation.high - ours.rank_correlation.low
    assert gain.high - gain.low < width / 2


def test_intervals_of_a_share_hold_the_truth_as_often_as_they_say(random):
    """Weeks with a luck of their own: by weeks the truth is caught, job by job it would not be."""
    caught = 0
    for _ in range(100):
        submit = spread(random, 1500, 140)
        luck = random.beta(8, 2, 20)[(submit - submit.min()) // WEEK_S]
        found = share_with_interval(random.random(1500) < luck, Blocking.of(submit))
        caught += found.low <= 0.8 <= found.high
    assert 88 <= caught <= 100


def test_weeks_and_rules():
    submit = np.array([T0, T0 + 5, T0 + WEEK_S, T0 + 3 * WEEK_S])
    weeks = weekly(submit, T0)
    assert [begin for begin, _ in weeks] == [T0, T0 + WEEK_S, T0 + 3 * WEEK_S]
    assert [rows.tolist() for _, rows in weeks] == [[0, 1], [2], [3]]
    rules = sources_of(["user", "all", "user", "gpus"])
    assert {name: rows.tolist() for name, rows in rules.items()} == {
        "user": [0, 2],
        "all": [1],
        "gpus": [3],
    }
    assert list(rules) == ["user", "all", "gpus"]
