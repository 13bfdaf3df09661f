"""Intervals by a bootstrap over blocks."""

from __future__ import annotations

import numpy as np
import pytest

from gsched.resampling import (
    RESAMPLES,
    BlockMeans,
    BlockQuantiles,
    draw,
    expanded_tail,
    interval,
    once,
)


def test_intervals_grow_wider_with_fewer_days() -> None:
    tails = [expanded_tail(number) for number in (7, 14, 100, 10_000)]
    assert tails == sorted(tails)
    assert tails[0] == pytest.approx(0.0041, abs=0.0001)
    assert tails[-1] == pytest.approx(0.025, abs=0.0001)


def test_a_block_counts_as_often_as_its_weight_says() -> None:
    values = np.array([1.0, 2.0, 9.0, np.nan])
    block = np.array([0, 0, 1, 1])
    means = BlockMeans(values, block, 3)
    weights = np.array([[1, 1, 1], [2, 0, 0], [0, 3, 0], [0, 0, 1], [1, 2, 0]])
    assert means.at(weights) == pytest.approx([4.0, 1.5, 9.0, np.nan, 21 / 4], nan_ok=True)


def test_a_quantile_is_the_least_value_that_so_many_did_not_exceed() -> None:
    values = np.arange(1.0, 101.0)
    block = (np.arange(100) // 50).astype(np.int64)
    quantiles = BlockQuantiles(values, block, 2, (0.5, 0.99))
    weights = np.array([[1, 1], [1, 0], [0, 1], [0, 0]])
    medians, p99 = quantiles.at(weights)
    assert medians == pytest.approx([50, 25, 75, np.nan], nan_ok=True)
    assert p99 == pytest.approx([99, 50, 100, np.nan], nan_ok=True)


def test_quantiles_of_many_jobs_are_those_of_all_when_nothing_is_drawn_anew() -> None:
    values = np.random.default_rng(3).lognormal(6, 2, 50_000)
    block = np.arange(50_000) % 9
    found = BlockQuantiles(values, block, 9, (0.5, 0.99)).at(once(9))
    wanted = np.quantile(values, [0.5, 0.99], method="inverted_cdf")
    assert [column[0] for column in found] == wanted.tolist()


def test_a_resample_has_as_many_blocks_as_there_are() -> None:
    weights = draw(np.random.default_rng(1), 11)
    assert weights.shape == (RESAMPLES, 11)
    assert set(weights.sum(axis=1)) == {11}


def test_no_interval_where_most_resamples_have_no_value() -> None:
    resampled = np.where(np.arange(1000) < 60, np.nan, np.arange(1000.0))
    assert interval(resampled, 0.025) == (None, None)
    low, high = interval(np.arange(1001.0), 0.025)
    assert (low, high) == pytest.approx((25, 975))
