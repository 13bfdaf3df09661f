"""Figures by day of first submission, from which intervals are made without the jobs."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gsched.model.times import DAY_S
from gsched.resampling import BlockMeans, BlockQuantiles, Floats, Weights
from gsched.sim.job_figures import JobFigures
from gsched.sim.jobs import SimJobs

_SPREAD = {"jct": "_s", "queueing": "_s", "bounded_slowdown": ""}
_QUANTILES = {"median": 0.5, "p99": 0.99}


class DailyMetrics:
    """What can be told of any choice of days (UTC, by submission)."""

    def __init__(self, jobs: SimJobs, figures: JobFigures) -> None:
        moments = np.floor((jobs.origin + jobs.submit_s) / DAY_S).astype(np.int64)
        days, block = np.unique(moments, return_inverse=True)
        ended = ~np.isnan(figures.jct_s)
        means = {
            "waiting_mean_s": figures.waiting_s,
            "unfair_share": _share(figures.is_unfair, ended),
            "deadline_miss_share": figures.missed_deadline,
            "sharing_loss_share": _share(figures.has_loss, ended),
        }
        self.days: list[int] = days.tolist()
        """Those on which jobs were submitted, in days since 1970."""
        self._quantiles: dict[str, BlockQuantiles] = {}
        for name, unit in _SPREAD.items():
            column = getattr(figures, name + unit)
            means[f"{name}_mean{unit}"] = column
            known = ~np.isnan(column)
            self._quantiles[name] = BlockQuantiles(
                column[known], block[known], len(days), tuple(_QUANTILES.values())
            )
        self._means = {k: BlockMeans(column, block, len(days)) for k, column in means.items()}

    def at(self, weights: Weights) -> dict[str, Floats]:
        """Metrics by name of `intervals.METRICS`, each day counted as often as its weight says."""
        found = {name: column.at(weights) for name, column in self._means.items()}
        for name, column in self._quantiles.items():
            for word, values in zip(_QUANTILES, column.at(weights), strict=True):
                found[f"{name}_{word}{_SPREAD[name]}"] = values
        return found


def _share(which: NDArray[np.bool_], of: NDArray[np.bool_]) -> Floats:
    """A column whose mean is the share of `which` among the jobs `of`."""
    return np.where(of, which.astype(np.float64), np.nan)
