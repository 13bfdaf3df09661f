"""What figures and pages draw: distributions over jobs, and the cluster over time, thinned."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields

import numpy as np

from gsched.sim.jobs import Floats
from gsched.sim.result import Samples
from gsched.sim.spread import SortedColumn

POINTS = 400
"""Points of a curve over time, at most; each is the mean of the samples that it stands for."""
SHARES = np.unique(
    np.concatenate((np.linspace(0.0, 1.0, 201), 1 - np.logspace(-2, -4, 41), [0.999]))
)
"""Shares of the jobs at which distributions are told; more of them near the end."""


@dataclass(frozen=True, eq=False)
class Curves:
    """`distributions`: by figure its values at `SHARES`. `over_time`: by column of `Samples`."""

    distributions: Mapping[str, Floats]
    over_time: Mapping[str, Floats]


def curves(samples: Samples, columns: Mapping[str, SortedColumn]) -> Curves:
    """The distributions of `columns`, and the cluster over time."""
    return Curves(
        distributions={name: column.quantiles(SHARES) for name, column in columns.items()},
        over_time=_thinned(samples),
    )


def _thinned(samples: Samples) -> dict[str, Floats]:
    number = len(samples.time_s)
    first = np.unique(np.linspace(0, number, min(number, POINTS) + 1).astype(np.int64))[:-1]
    counts = np.diff(np.append(first, number))
    return {
        field.name: np.add.reduceat(getattr(samples, field.name).astype(np.float64), first) / counts
        if number
        else np.empty(0)
        for field in fields(samples)
    }
