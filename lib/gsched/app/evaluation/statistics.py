"""How good predictions were: figures of each contender, with intervals by a block bootstrap.

Blocks are weeks, or days where there are fewer than seven weeks: jobs of one campaign are alike,
and are drawn together (`gsched.resampling`). All contenders are judged on the same draws, so that
the interval of a difference is that of pairs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gsched import resampling
from gsched.model.times import DAY_S
from gsched.predict.validation import Seconds, log_ratios
from gsched.resampling import MIN_DAYS, SEED, BlockMeans, BlockQuantiles, Weights

Blocks = NDArray[np.int64]

WEEK_S = 7 * DAY_S
MIN_WEEK = 30
"""A week with fewer jobs is in the pooled figures, but is not called the worst."""

_LN_2 = np.log(2.0) + 1e-9  # logarithms are rounded


@dataclass(frozen=True, slots=True)
class Value:
    """A figure and its 95 % interval, None where there are too few blocks."""

    value: float
    low: float | None = None
    high: float | None = None

    def document(self) -> dict[str, float | None]:
        """As JSON."""
        return {"value": self.value, "low": self.low, "high": self.high}


@dataclass(frozen=True, slots=True)
class ContenderFigures:
    """One contender on the jobs of one kind.

    `rank_correlation` is Spearman's of GPU-time (CPU-time of jobs without GPUs), by which queues
    are ordered, `rank_correlation_duration` that of durations; 0 where all values are equal.
    `log_error` is the median of \\|ln(predicted / actual)\\|, `within_factor_2` the share of jobs
    for which that is at most ln 2, `accuracy` the mean of the smaller over the larger of both.
    `short_share` are jobs that ran longer than was predicted. `model_gain` is the model's
    `rank_correlation` less this one's.
    """

    name: str
    rank_correlation: Value
    rank_correlation_duration: Value
    log_error: Value
    within_factor_2: float
    accuracy: float
    median_abs_error_s: float
    mean_abs_error_s: float
    short_share: float
    model_gain: Value | None

    @property
    def off_by(self) -> float:
        """Half of the predictions are off by no more than this factor."""
        return float(np.exp(self.log_error.value))


@dataclass(frozen=True, slots=True)
class Blocking:
    """Which block each job is in; `unit` is ``week`` or ``day``, `count` how many have jobs."""

    unit: str
    block: Blocks
    count: int

    @classmethod
    def of(cls, submit_times: NDArray[np.int64]) -> Blocking:
        """Weeks since the first submission, or days of UTC."""
        weeks = cls._coded("week", (submit_times - submit_times.min()) // WEEK_S)
        return weeks if weeks.count >= MIN_DAYS else cls._coded("day", submit_times // DAY_S)

    @classmethod
    def _coded(cls, unit: str, numbers: NDArray[np.int64]) -> Blocking:
        found, block = np.unique(numbers, return_inverse=True)
        return cls(unit, block.astype(np.int64), len(found))

    def drawn(self) -> Weights | None:
        """Resamples of the blocks; None where there are too few for an interval."""
        if self.count < MIN_DAYS:
            return None
        return resampling.draw(np.random.default_rng(SEED), self.count)

    @property
    def tail(self) -> float:
        """See ``resampling.expanded_tail``."""
        return resampling.expanded_tail(self.count)


def contender_figures(
    predicted_s: Mapping[str, Seconds], actual_s: Seconds, num_units: Seconds, blocks: Blocking
) -> list[ContenderFigures]:
    """The figures of each contender; the first one of `predicted_s` is the model."""
    weights = blocks.drawn()
    unit_ranks = RankCorrelation(actual_s * num_units, blocks, weights)
    ranks = RankCorrelation(actual_s, blocks, weights)
    found: list[ContenderFigures] = []
    of_model: NDArray[np.float64] | None = None
    model_value = 0.0
    for name, seconds in predicted_s.items():
        value, again = unit_ranks.of(seconds * num_units)
        if of_model is None:
            of_model, model_value = again, value
            gain = None
        else:
            gain = _with_interval(model_value - value, of_model - again, blocks)
        duration, duration_again = ranks.of(seconds)
        found.append(
            ContenderFigures(
                name=name,
                rank_correlation=_with_interval(value, again, blocks),
                rank_correlation_duration=_with_interval(duration, duration_again, blocks),
                model_gain=gain,
                **_errors(seconds, actual_s, blocks, weights),
            )
        )
    return found


def _errors(
    predicted_s: Seconds, actual_s: Seconds, blocks: Blocking, weights: Weights | None
) -> dict[str, Any]:
    off = np.abs(log_ratios(predicted_s, actual_s))
    wrong_s = np.abs(predicted_s - actual_s)
    median = float(np.median(off))
    again = np.empty(0)
    if weights is not None:
        (again,) = BlockQuantiles(off, blocks.block, blocks.count, (0.5,)).at(weights)
    return {
        "log_error": _with_interval(median, again, blocks),
        "within_factor_2": float(np.mean(off <= _LN_2)),
        "accuracy": float(np.mean(np.exp(-off))),
        "median_abs_error_s": float(np.median(wrong_s)),
        "mean_abs_error_s": float(np.mean(wrong_s)),
        "short_share": float(np.mean(actual_s > predicted_s)),
    }


def share_with_interval(hits: NDArray[np.bool_], blocks: Blocking) -> Value:
    """The share of jobs for which `hits` holds, over all of them."""
    weights = blocks.drawn()
    again = np.empty(0)
    if weights is not None:
        again = BlockMeans(hits.astype(np.float64), blocks.block, blocks.count).at(weights)
    return _with_interval(float(hits.mean()), again, blocks)


def _with_interval(value: float, again: NDArray[np.float64], blocks: Blocking) -> Value:
    if not len(again):
        return Value(value)
    return Value(value, *resampling.interval(again, blocks.tail))


class RankCorrelation:
    """Spearman's rank correlation with one column of truths, also under weights of the blocks.

    A block that is drawn twice counts as if its jobs were there twice; equal values share the mean
    of their ranks.
    """

    def __init__(self, actual: Seconds, blocks: Blocking, weights: Weights | None) -> None:
        self._actual = _Ranked(actual)
        self._blocks, self._weights = blocks, weights

    def of(self, predicted: Seconds) -> tuple[float, NDArray[np.float64]]:
        """The correlation, and that of each resample (none where no blocks were drawn)."""
        ranked = _Ranked(predicted)
        value = _correlation(ranked, self._actual, np.ones(len(predicted)))
        if self._weights is None:
            return value, np.empty(0)
        block = self._blocks.block
        drawn = (row.astype(np.float64)[block] for row in self._weights)
        again = [_correlation(ranked, self._actual, weight) for weight in drawn]
        return value, np.array(again)


class _Ranked:
    """A column whose ranks can be told under any weights of its elements."""

    def __init__(self, values: Seconds) -> None:
        different, self._place = np.unique(values, return_inverse=True)
        self._count = len(different)

    def ranks(self, weight: NDArray[np.float64]) -> NDArray[np.float64]:
        """Mean ranks, less the mean of all of them."""
        sums = np.bincount(self._place, weights=weight, minlength=self._count)
        middle = np.cumsum(sums) - sums / 2 - weight.sum() / 2
        ranks: NDArray[np.float64] = middle[self._place]
        return ranks


def _correlation(one: _Ranked, other: _Ranked, weight: NDArray[np.float64]) -> float:
    x, y = one.ranks(weight), other.ranks(weight)
    weighted = x * weight
    spread = np.sqrt((weighted @ x) * ((y * weight) @ y))
    return float(weighted @ y / spread) if spread > 0 else 0.0


def weekly(submit_times: NDArray[np.int64], since: int) -> list[tuple[int, NDArray[np.int64]]]:
    """Each week since `since` that has jobs: when it began (epoch), and its rows."""
    weeks = (submit_times - since) // WEEK_S
    return [
        (since + int(week) * WEEK_S, np.flatnonzero(weeks == week)) for week in np.unique(weeks)
    ]


def sources_of(sources: Sequence[str]) -> dict[str, NDArray[np.int64]]:
    """Rows by the rule behind them, the most frequent rule first."""
    rules = np.array(sources)
    names, counts = np.unique(rules, return_counts=True)
    order = sorted(range(len(names)), key=lambda k: (-counts[k], names[k]))
    return {str(names[k]): np.flatnonzero(rules == names[k]) for k in order}
