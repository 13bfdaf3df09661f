"""Mean and quantiles of a column, for all jobs or class by class."""

from __future__ import annotations

from dataclasses import asdict, dataclass

import numpy as np
from numpy.typing import NDArray

from gsched.sim.classes import Classes
from gsched.sim.jobs import Floats

QUANTILES = {"median": 0.5, "p90": 0.9, "p99": 0.99, "p99_9": 0.999}
"""A quantile is the least value that so large a share of the jobs did not exceed."""


@dataclass(frozen=True, slots=True)
class Spread:
    """Of so many jobs; None where there is none."""

    jobs: int
    mean: float | None
    median: float | None
    p90: float | None
    p99: float | None
    p99_9: float | None

    def document(self) -> dict[str, float | int | None]:
        """With the names of the fields as keys."""
        return asdict(self)


NOTHING = Spread(0, None, None, None, None, None)


class SortedColumn:
    """A column without its NaN values, sorted once to be spread by several kinds of classes."""

    def __init__(self, values: Floats) -> None:
        known = np.flatnonzero(~np.isnan(values))
        self._rows = known[np.argsort(values[known], kind="stable")]
        self._values = values[self._rows]

    def quantiles(self, shares: Floats) -> Floats:
        """The quantiles at `shares`; NaN where there are no values."""
        if not len(self._values):
            return np.full(len(shares), np.nan)
        return self._values[_places(shares, len(self._values))]

    def spreads(self, classes: Classes) -> list[Spread]:
        """One a class, in the order of its names."""
        code = classes.code[self._rows]
        number = len(classes.names)
        narrow = code.astype(np.int16) if number < 2**15 else code  # sorted by radix: linear
        values = self._values[np.argsort(narrow, kind="stable")]
        counts = np.bincount(code, minlength=number)
        ends = np.cumsum(counts)
        return [
            _spread(values[end - count : end])
            for end, count in zip(ends.tolist(), counts.tolist(), strict=True)
        ]


def _spread(rising: Floats) -> Spread:
    number = len(rising)
    if not number:
        return NOTHING
    shares = np.array(list(QUANTILES.values()))
    return Spread(number, float(rising.mean()), *rising[_places(shares, number)].tolist())


def _places(shares: Floats, number: int) -> NDArray[np.int64]:
    """Where among so many values in rising order the quantiles are."""
    return np.maximum(np.ceil(shares * number).astype(np.int64) - 1, 0)
