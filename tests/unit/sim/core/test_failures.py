"""Times to failure: their distribution, and that they depend on nothing but seed, node, number."""

from __future__ import annotations

import numpy as np
import pytest

from gsched.sim.core.failures import kept_work_s, seconds_to_failure, uniform


def drawn(seed: int, nodes: int, counts: int) -> np.ndarray:
    return np.array([[uniform(seed, n, c) for c in range(counts)] for n in range(nodes)])


def test_uniform_numbers_are_uniform_and_independent() -> None:
    numbers = drawn(7, 100, 100)
    assert numbers.min() > 0
    assert numbers.max() < 1
    counts = np.histogram(numbers, bins=20, range=(0, 1))[0]
    chi_square = ((counts - 500) ** 2 / 500).sum()
    assert chi_square < 43.8  # the 0.999 quantile with 19 degrees of freedom
    along = np.corrcoef(numbers[:, :-1].ravel(), numbers[:, 1:].ravel())[0, 1]
    across = np.corrcoef(numbers[:-1].ravel(), numbers[1:].ravel())[0, 1]
    assert abs(along) < 0.03
    assert abs(across) < 0.03


def test_another_seed_gives_other_numbers_and_the_same_seed_the_same() -> None:
    assert np.array_equal(drawn(3, 10, 10), drawn(3, 10, 10))
    assert not np.isin(drawn(3, 10, 10), drawn(4, 10, 10)).any()
    assert len(np.unique(drawn(0, 50, 50))) == 2500


def test_times_to_failure_are_exponential_with_the_mean_asked_for() -> None:
    times = np.array([seconds_to_failure(1, n, c, 3600.0) for n in range(80) for c in range(80)])
    assert times.mean() == pytest.approx(3600, rel=0.05)
    assert times.std() == pytest.approx(3600, rel=0.05)
    assert (times > 3600).mean() == pytest.approx(np.exp(-1), abs=0.02)


@pytest.mark.parametrize(
    ("done_s", "every_s", "kept_s"),
    [(0, 600, 0), (599, 600, 0), (600, 600, 600), (1799.5, 600, 1200), (5000, 0, 0)],
)
def test_work_is_kept_up_to_the_last_checkpoint(
    done_s: float, every_s: float, kept_s: float
) -> None:
    assert kept_work_s(done_s, every_s) == kept_s
