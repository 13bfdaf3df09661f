"""What each thing that is known of a job adds to its predicted run time: sampled Shapley values.

The prediction is taken as a sum on the logarithm of seconds: that of a typical job (the mean over
the background, jobs that the model was trained on) and what changes when this job's values take
the place of those, group by group. The change depends on the order, so it is the mean over random
orders of the groups (Štrumbelj, Kononenko, KAIS 41, 2014); each order is used forwards and
backwards. On every way the changes add up to the whole, hence so do their means, exactly. As
factors they multiply.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Matrix = NDArray[np.float64]
Value = Callable[[Matrix], NDArray[np.float64]]

SEED = 1


@dataclass(frozen=True, slots=True)
class Contribution:
    """What one group of features adds to the logarithm of the prediction.

    `standard_error` is that of the sampling, in the same unit.
    """

    name: str
    log_s: float
    standard_error: float

    @property
    def factor(self) -> float:
        """By which it multiplies the prediction: 2 doubles, 0.5 halves it."""
        return math.exp(self.log_s)


def shapley(
    value: Value, row: Sequence[float], background: Matrix, groups: Mapping[str, Sequence[int]]
) -> tuple[float, list[Contribution]]:
    """The mean of `value` over the background, and what each group adds to it for `row`.

    `groups` name columns, each column in one of them. The largest contribution comes first. The
    same input gives the same result.
    """
    random = np.random.default_rng(SEED)
    names = list(groups)
    orders = np.array([random.permutation(len(names)) for _ in background])
    added = [
        _changes(value, np.asarray(row), background, [groups[n] for n in names], order)
        for order in (orders, orders[:, ::-1])
    ]
    of_row = (added[0] + added[1]) / 2  # one row a background job, one column a group
    errors = of_row.std(axis=0, ddof=1) / math.sqrt(len(of_row)) if len(of_row) > 1 else None
    found = [
        Contribution(
            name,
            float(of_row[:, place].mean()),
            0.0 if errors is None else float(errors[place]),
        )
        for place, name in enumerate(names)
    ]
    found.sort(key=lambda contribution: -abs(contribution.log_s))
    return float(value(background).mean()), found


def _changes(
    value: Value,
    row: NDArray[np.float64],
    background: Matrix,
    groups: Sequence[Sequence[int]],
    orders: NDArray[np.int64],
) -> Matrix:
    """For each background job, how `value` changes as its groups are replaced in its order."""
    steps = np.repeat(background[:, None, :], len(groups) + 1, axis=1)
    for job, order in enumerate(orders):
        for step, place in enumerate(order, start=1):
            steps[job, step:, groups[place]] = row[groups[place], None]
    values = value(steps.reshape(-1, background.shape[1])).reshape(len(background), -1)
    changes = np.empty((len(background), len(groups)))
    np.put_along_axis(changes, orders, np.diff(values, axis=1), axis=1)
    return changes
