"""Intervals by a bootstrap over blocks of jobs: days, as a rule.

Jobs of one day have much in common (one user's array, a full cluster), so whole days are drawn
anew with replacement. With few of them a percentile interval is too narrow; it is widened as
Student's t is against the normal distribution (Hesterberg, The American Statistician 69, 2015: the
expanded percentile interval).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, stdtrit

MIN_DAYS = 7
"""Of fewer days no interval is told: every day of the week shall be in it."""
RESAMPLES = 1000
CONFIDENCE = 0.95
SEED = 1

_GRID = 2000
"""Of more different values the quantiles of resamples are told to 1 in so many jobs."""

Floats = NDArray[np.float64]
Weights = NDArray[np.int64]
"""How often each block was drawn, a row a resample."""


def draw(random: np.random.Generator, num_blocks: int) -> Weights:
    """Resamples of so many blocks, each with as many draws."""
    return random.multinomial(num_blocks, np.full(num_blocks, 1 / num_blocks), size=RESAMPLES)


def once(num_blocks: int) -> Weights:
    """Each block counted once: what was seen itself."""
    return np.ones((1, num_blocks), dtype=np.int64)


def expanded_tail(num_blocks: int) -> float:
    """The share of resamples to be left out at each end, with so many blocks."""
    degrees = num_blocks - 1
    t = stdtrit(degrees, (1 - CONFIDENCE) / 2)
    return float(ndtr(np.sqrt(num_blocks / degrees) * t))


def interval(resampled: Floats, tail: float) -> tuple[float | None, float | None]:
    """From where to where the resampled values lie; None where most resamples have no value."""
    known = resampled[~np.isnan(resampled)]
    if len(known) < CONFIDENCE * len(resampled):
        return None, None
    low, high = np.quantile(known, [tail, 1 - tail])
    return float(low), float(high)


class BlockMeans:
    """The mean of a column under any weights of its blocks. NaN values do not count."""

    def __init__(self, values: Floats, block: NDArray[np.integer], num_blocks: int) -> None:
        known = ~np.isnan(values)
        self._sums = np.bincount(block[known], weights=values[known], minlength=num_blocks)
        self._counts = np.bincount(block[known], minlength=num_blocks)

    def at(self, weights: Weights) -> Floats:
        """One mean a row of weights; NaN where nothing was drawn that has a value."""
        counts = weights @ self._counts
        means: Floats = np.full(len(counts), np.nan)
        np.divide(weights @ self._sums, counts, out=means, where=counts > 0)
        return means


class BlockQuantiles:
    """Quantiles of a column without NaN under any weights of its blocks.

    A quantile is the least value that so large a share of the jobs did not exceed.
    """

    def __init__(
        self,
        values: Floats,
        block: NDArray[np.integer],
        num_blocks: int,
        shares: Sequence[float],
    ) -> None:
        self._shares = shares
        self._grid = _grid(values, shares)
        width = len(self._grid)
        place = np.searchsorted(self._grid, values)  # the least of the grid that is not less
        cells = np.bincount(block * width + place, minlength=num_blocks * width)
        # whole numbers as floats: products of matrices are exact, and fast
        self._at_most = np.cumsum(cells.reshape(num_blocks, width), axis=1, dtype=np.float64)

    def at(self, weights: Weights) -> list[Floats]:
        """For each share one quantile a row of weights; NaN where nothing was drawn."""
        if not len(self._grid):
            return [np.full(len(weights), np.nan) for _ in self._shares]
        at_most = weights.astype(np.float64) @ self._at_most
        found = []
        for share in self._shares:
            wanted = np.maximum(np.ceil(share * at_most[:, -1:]), 1)
            place = np.argmax(at_most >= wanted, axis=1)
            found.append(np.where(at_most[:, -1] > 0, self._grid[place], np.nan))
        return found


def _grid(values: Floats, shares: Sequence[float]) -> Floats:
    """Values of which a quantile is one: all, or _GRID of many, with the column's own quantiles."""
    number = len(values)
    if not number:
        return values
    own = [max(0, int(np.ceil(share * number)) - 1) for share in shares]
    ranks = np.linspace(0, number - 1, min(number, _GRID)).round().astype(np.int64)
    return np.unique(np.sort(values)[np.concatenate([ranks, own])])
