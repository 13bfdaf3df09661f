"""A distribution as its values at fixed probabilities."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

PROBABILITIES = np.array(
    [
        *(0.0, 0.01, 0.02, 0.05, *np.arange(0.1, 0.95, 0.05).round(2)),
        *(0.95, 0.97, 0.98, 0.99, 0.995, 0.998, 0.999, 1.0),
    ]
)
"""Where a distribution is written down; dense in the upper tail, where the GPU-time is."""


@dataclass(frozen=True, slots=True)
class Quantiles:
    """Values ≥ 0 at PROBABILITIES, rising; between them ln(1 + value) is linear."""

    values: tuple[float, ...]

    @classmethod
    def of(cls, sample: Floats) -> Quantiles:
        """The distribution of a sample, rounded to five digits."""
        values = np.quantile(sample, PROBABILITIES) if sample.size else np.zeros(1)
        rounded = [float(f"{value:.5g}") for value in values]
        return cls(tuple(rounded if sample.size else rounded * len(PROBABILITIES)))

    @classmethod
    def told(cls, values: Sequence[float]) -> Quantiles:
        """Values as they were written down. Raises ValueError for what is none."""
        rising = np.asarray(values, dtype=np.float64)
        if rising.shape != PROBABILITIES.shape or not np.isfinite(rising).all():
            raise ValueError(f"a distribution has {len(PROBABILITIES)} finite values")
        if rising[0] < 0 or (np.diff(rising) < 0).any():
            raise ValueError("the values of a distribution rise from 0 or more")
        return cls(tuple(rising.tolist()))

    def at(self, probability: Floats) -> Floats:
        """The values at some probabilities."""
        logs = np.interp(probability, PROBABILITIES, np.log1p(self.values))
        return np.expm1(logs)


def ranks(values: Floats) -> Floats:
    """Mean rank of each value among all, as probabilities inside (0, 1); equals share theirs."""
    from scipy.stats import rankdata

    found: Floats = (rankdata(values) - 0.5) / max(len(values), 1)
    return found


def normal_scores(values: Floats) -> Floats:
    """What a standard normal has at the ranks of the values."""
    from scipy.special import ndtri

    scores: Floats = ndtri(ranks(values))
    return scores


def correlation(first: Floats, second: Floats) -> float:
    """Pearson's, within 0 … 0.999; 0 where fewer than 20 pairs tell of it."""
    if len(first) < 20 or not first.std() or not second.std():
        return 0.0
    return float(np.clip(np.corrcoef(first, second)[0, 1], 0.0, 0.999))
