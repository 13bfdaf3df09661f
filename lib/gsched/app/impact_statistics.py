"""Figures of an arm, and the interval of a difference by a bootstrap over days.

The days, by first submit in UTC, are the unit (`gsched.resampling`). Where nothing differs, on days
as skewed as queues have them, 4 to 9 of 100 intervals at 95 % exclude 0.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

import numpy as np

from gsched import resampling
from gsched.app.impact_arms import FloatColumn, IntColumn, Jobs
from gsched.model.times import DAY_S
from gsched.resampling import (
    MIN_DAYS,
    SEED,
    BlockMeans,
    BlockQuantiles,
    Weights,
    expanded_tail,
)

METRICS = (
    "queueing_mean_s",
    "queueing_median_s",
    "queueing_p90_s",
    "queueing_p99_s",
    "gpu_queueing_mean_s",
    "long_wait_share",
    "jct_mean_s",
    "bounded_slowdown_mean",
)
"""What is compared. A quantile is the least wait that so large a share of the jobs did not exceed.
JCT, and the slowdown, are of jobs that have ended; a slowdown is JCT over run time, of jobs that
ran for less than BOUND_S over BOUND_S, and at least 1."""

BOUND_S = 10.0
_QUANTILES = {"queueing_median_s": 0.5, "queueing_p90_s": 0.9, "queueing_p99_s": 0.99}
Figures = Mapping[str, FloatColumn]
"""By metric one value a row of weights; NaN where no job was drawn of which it is known."""


@dataclass(frozen=True, slots=True)
class Difference:
    """Acting less control; `low` to `high` is the interval, None where it cannot be told."""

    acting: float | None
    control: float | None
    low: float | None = None
    high: float | None = None

    @property
    def value(self) -> float | None:
        """The difference itself."""
        if self.acting is None or self.control is None:
            return None
        return self.acting - self.control

    @property
    def is_shown(self) -> bool:
        """Whether there is an interval, and 0 is outside it."""
        return self.low is not None and self.high is not None and not self.low <= 0 <= self.high


def days_of(jobs: Jobs) -> IntColumn:
    """The days on which the jobs were first submitted, each once."""
    return np.unique(jobs.first_submit // DAY_S)


def compare(
    acting: Jobs,
    control: Jobs,
    long_wait_s: float,
    *,
    same_days: bool,
    only: Collection[str] = METRICS,
) -> dict[str, Difference]:
    """The metrics `only` of both arms.

    `same_days`: the arms ran side by side, and their days are drawn together.
    """
    days = [days_of(acting), days_of(control)]
    fewest = min(map(len, days))
    if same_days:
        days = [np.union1d(*days)] * 2
    arms = [
        _ByDay(jobs, own, long_wait_s, only)
        for jobs, own in zip((acting, control), days, strict=True)
    ]
    points = [arm.figures(resampling.once(len(arm.days))) for arm in arms]
    found = {metric: Difference(*(_known(point[metric][0]) for point in points)) for metric in only}
    if fewest < MIN_DAYS:
        return found
    random = np.random.default_rng(SEED)
    drawn = [resampling.draw(random, len(own)) for own in days]
    if same_days:
        drawn[1] = drawn[0]
    again = [arm.figures(weights) for arm, weights in zip(arms, drawn, strict=True)]
    tail = expanded_tail(fewest)
    for metric, told in found.items():
        if told.value is not None:
            low, high = resampling.interval(again[0][metric] - again[1][metric], tail)
            found[metric] = Difference(told.acting, told.control, low, high)
    return found


class _ByDay:
    """The jobs of an arm, ready to be summed up with any weights of its days."""

    def __init__(
        self, jobs: Jobs, days: IntColumn, long_wait_s: float, only: Collection[str]
    ) -> None:
        self.days = days
        day = np.searchsorted(days, jobs.first_submit // DAY_S)
        jct_s = jobs.end_time - jobs.first_submit
        slowdown = np.maximum(jct_s / np.maximum(jobs.duration_s, BOUND_S), 1.0)
        means = {
            "queueing_mean_s": jobs.queueing_s,
            "gpu_queueing_mean_s": np.where(jobs.num_gpus > 0, jobs.queueing_s, np.nan),
            "long_wait_share": (jobs.queueing_s > long_wait_s).astype(np.float64),
            "jct_mean_s": jct_s,
            "bounded_slowdown_mean": slowdown,
        }
        self._means = {
            name: BlockMeans(values, day, len(days))
            for name, values in means.items()
            if name in only
        }
        has_quantiles = any(name in only for name in _QUANTILES)
        self._quantiles = (
            BlockQuantiles(jobs.queueing_s, day, len(days), tuple(_QUANTILES.values()))
            if has_quantiles
            else None
        )

    def figures(self, weights: Weights) -> Figures:
        """The metrics, each day counted as often as its weight says."""
        means = {name: column.at(weights) for name, column in self._means.items()}
        if self._quantiles is None:
            return means
        return {**means, **dict(zip(_QUANTILES, self._quantiles.at(weights), strict=True))}


def _known(value: float) -> float | None:
    return None if np.isnan(value) else float(value)
