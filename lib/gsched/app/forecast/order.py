"""The order of the queue for a forecast: Slurm's priorities, and where jobs to come will stand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from operator import itemgetter

import numpy as np
from numpy.typing import NDArray

from gsched.model.job import JobKey, JobView, PredictionKind
from gsched.slurm.records import QueueRow, SlurmConfig

_MULTIFACTOR = "priority/multifactor"
_NOBODY: NDArray[np.float64] = np.empty(0)


@dataclass(frozen=True, eq=False)
class QueueOrder:
    """What order a job gets as it is submitted; the least is first (see ``WaitingJob.order``).

    Where the daemon orders by predicted run times, that of the waiting jobs which are as large in
    GPU-time (without GPUs: in CPU-time), between two of them in proportion. Else behind all.
    `per_s` is by how much it falls a second, as jobs get older.
    """

    per_s: float
    last: float
    _sizes: Mapping[bool, NDArray[np.float64]] = field(default_factory=dict)  # by: has GPUs
    _orders: Mapping[bool, NDArray[np.float64]] = field(default_factory=dict)

    def of(self, num_gpus: int, num_cpus: int, duration_s: float) -> float:
        """The order of a job of this size."""
        sizes = self._sizes.get(num_gpus > 0, _NOBODY)
        if not len(sizes):
            return self.last
        size = np.log(max(1.0, (num_gpus or num_cpus) * duration_s))
        return float(np.interp(size, sizes, self._orders[num_gpus > 0]))


def queue_order(
    pending: Sequence[JobView],
    rows: Mapping[JobKey, QueueRow],
    config: SlurmConfig,
    as_of: int,
    by_prediction: bool,
) -> QueueOrder:
    """The order of a queue at `as_of`; who is held (priority 0) has no place in it."""
    per_s = _points_per_s(config)
    known = [(v, -float(rows[v.key].priority)) for v in pending if rows[v.key].priority > 0]
    last = max((order for _, order in known), default=0.0)
    if not by_prediction:
        return QueueOrder(per_s, last)
    sizes: dict[bool, NDArray[np.float64]] = {}
    orders: dict[bool, NDArray[np.float64]] = {}
    for has_gpus in (True, False):
        found = []
        for view, order in known:
            predicted = view.prediction(PredictionKind.DURATION)
            asked = view.request
            if predicted is None or (asked.gpus.minimum > 0) != has_gpus:
                continue
            size = (asked.gpus.minimum or asked.num_cpus) * predicted.mean
            when_submitted = order + per_s * max(0, as_of - view.first_submit)
            found.append((float(np.log(max(1.0, size))), when_submitted))
        if found:
            found.sort(key=itemgetter(0))
            sizes[has_gpus], orders[has_gpus] = np.array(found).T
    return QueueOrder(per_s, last, sizes, orders)


def _points_per_s(config: SlurmConfig) -> float:
    """By how much Slurm's age factor raises a priority each second; 0 where it has none."""
    if config.get("PriorityType") != _MULTIFACTOR:
        return 0.0
    return config.weights().get("age", 0) / config.max_age_s
