"""Shapley values against what can be worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest

from gsched.predict.contributions import shapley


@pytest.fixture
def background():
    return np.random.default_rng(7).random((64, 4))


ROW = (1.0, 2.0, 3.0, 4.0)
WEIGHTS = np.array([1.0, -2.0, 3.0, 4.0])


def test_of_a_sum_each_part_is_its_own_difference(background):
    base, found = shapley(
        lambda m: m @ WEIGHTS, ROW, background, {"a": [0], "bc": [1, 2], "d": [3]}
    )
    mean = background.mean(axis=0)
    assert base == pytest.approx(mean @ WEIGHTS)
    by_name = {contribution.name: contribution.log_s for contribution in found}
    assert by_name["a"] == pytest.approx(1 - mean[0])
    assert by_name["bc"] == pytest.approx(-2 * (2 - mean[1]) + 3 * (3 - mean[2]))
    assert by_name["d"] == pytest.approx(4 * (4 - mean[3]))
    assert [contribution.name for contribution in found] == ["d", "bc", "a"]


def test_what_only_two_together_bring_is_shared_equally():
    base, found = shapley(
        lambda m: m[:, 0] * m[:, 1], ROW, np.zeros((16, 4)), {"a": [0], "b": [1], "rest": [2, 3]}
    )
    assert base == 0.0
    assert {c.name: c.log_s for c in found} == {"a": 1.0, "b": 1.0, "rest": 0.0}


def test_they_add_up_exactly_whatever_the_function(background):
    def odd(matrix):
        return np.sin(5 * matrix[:, 0] * matrix[:, 3]) + np.nan_to_num(matrix[:, 1], nan=3.0) ** 2

    row = (0.3, np.nan, 0.1, 0.9)  # unknown values are values
    groups = {"a": [0], "b": [1], "c": [2], "d": [3]}
    base, found = shapley(odd, row, background, groups)
    assert base + sum(c.log_s for c in found) == pytest.approx(float(odd(np.array([row]))[0]))
    assert {c.name: c.log_s for c in found}["c"] == 0.0
    assert shapley(odd, row, background, groups) == (base, found)


def test_the_standard_error_is_that_of_repeated_sampling():
    """Told errors against how far estimates from disjoint backgrounds really scatter."""

    def value(matrix):
        return matrix[:, 0] * matrix[:, 1] + matrix[:, 2]

    random, groups = np.random.default_rng(3), {"a": [0], "b": [1], "c": [2, 3]}
    runs = [shapley(value, ROW, random.random((32, 4)), groups)[1] for _ in range(200)]
    for name in groups:
        values = [next(c for c in run if c.name == name) for run in runs]
        scatter = np.std([c.log_s for c in values])
        assert np.mean([c.standard_error for c in values]) == pytest.approx(scatter, rel=0.2)


def test_factors_multiply():
    base, found = shapley(
        lambda m: np.log(m[:, 0]) + np.log(m[:, 1]),
        (8.0, 0.5),
        np.ones((4, 2)),
        {"a": [0], "b": [1]},
    )
    assert base == 0.0
    assert {c.name: c.factor for c in found} == {"a": pytest.approx(8), "b": pytest.approx(0.5)}
