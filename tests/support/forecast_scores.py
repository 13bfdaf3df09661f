"""How good forecasts of starts were, once the starts are known.

Errors and coverage are pooled over all forecasts; their 95 % intervals are by a bootstrap over
weeks (over days, where there are fewer than seven weeks), because forecasts of one week share one
queue. Beside them stands the worst week: the one of least coverage among those with enough
forecasts for a share to mean anything.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gsched.resampling import (
    MIN_DAYS,
    SEED,
    BlockMeans,
    BlockQuantiles,
    Weights,
    draw,
    expanded_tail,
    interval,
    once,
)

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]

DAY_S = 86_400
WEEK_S = 7 * DAY_S
NOMINAL = 0.8
MIN_A_WEEK = 20
"""A week with fewer forecasts is not called the worst: 1 of 3 missed is no finding."""

WAITED_S = 60
"""Who starts within so many seconds has not waited: Slurm's own rounds take as long."""

FORECAST = "forecast"


@dataclass(frozen=True, eq=False)
class Judged:
    """Forecasts beside the truth, one element a forecast in every column; times epoch seconds.

    `expected` are the starts that each method told, NaN where it told none; ``forecast`` is the
    one that has the intervals: `low` to `high` as shown, `raw_low` to `raw_high` before what
    earlier forecasts taught. `ahead` is how many jobs waited ahead of the job, `learnt` from how
    many earlier forecasts the correction had learnt.
    """

    as_of: Floats
    start: Floats
    expected: Mapping[str, Floats]
    low: Floats
    high: Floats
    raw_low: Floats
    raw_high: Floats
    ahead: NDArray[np.int64]
    learnt: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.as_of)

    @property
    def waited(self) -> Mask:
        """Whether the job waited at all, which only the truth tells."""
        mask: Mask = self.start - self.as_of > WAITED_S
        return mask

    @property
    def queued(self) -> Mask:
        """Whether others waited ahead of it, which was known when the forecast was made."""
        mask: Mask = self.ahead > 0
        return mask

    def among(self, which: Mask) -> Judged:
        """The forecasts for which `which` holds."""
        columns = {
            name: getattr(self, name)[which]
            for name in self.__dataclass_fields__
            if name != "expected"
        }
        return replace(self, expected={m: e[which] for m, e in self.expected.items()}, **columns)


@dataclass(frozen=True, eq=False)
class Blocks:
    """The blocks of a bootstrap: of each forecast its number; how many; what one of them is.

    `resampled` is None with too few of them for an interval.
    """

    of_forecast: NDArray[np.int64]
    number: int
    unit: str
    resampled: Weights | None

    @classmethod
    def of(cls, as_of: Floats) -> Blocks:
        """Weeks from the first forecast; days where there are fewer than seven such weeks."""
        for unit, length_s in (("week", WEEK_S), ("day", DAY_S)):
            numbered = np.unique((as_of - as_of.min()) // length_s, return_inverse=True)[1]
            number = int(numbered.max()) + 1
            if number >= MIN_DAYS:
                weights = draw(np.random.default_rng(SEED), number)
                return cls(numbered.astype(np.int64), number, unit, weights)
        return cls(numbered.astype(np.int64), number, unit, None)

    def interval(self, resampled: Floats) -> list[float] | None:
        """The 95 % interval of a figure from its values under `resampled`."""
        low, high = interval(resampled, expanded_tail(self.number))
        return None if low is None or high is None else [_rounded(low), _rounded(high)]


def report(judged: Judged) -> dict[str, Any]:
    """Every figure as JSON: of all forecasts, of those behind others, of those that waited."""
    groups = {
        "all": np.ones(len(judged), dtype=bool),
        "behind_others": judged.queued,
        "waited_over_60_s": judged.waited,
    }
    return {name: _group(judged.among(which)) for name, which in groups.items()}


def _group(judged: Judged) -> dict[str, Any]:
    if not len(judged):
        return {"num_forecasts": 0}
    return {
        "num_forecasts": len(judged),
        "mean_wait_s": _rounded(float((judged.start - judged.as_of).mean())),
        "median_wait_s": _rounded(float(np.median(judged.start - judged.as_of))),
        "errors": errors(judged),
        "coverage": coverage(judged, judged.low, judged.high),
        "coverage_uncalibrated": coverage(judged, judged.raw_low, judged.raw_high),
        "learnt_from_median": int(np.median(judged.learnt)),
    }


def errors(judged: Judged) -> dict[str, Any]:
    """By method: the absolute error of the start, and the forecast's error as a share of it.

    `error_ratio` is the forecast's median absolute error over the method's, on the forecasts for
    which the method told a start (`num_told`): below 1 the forecast is better.
    """
    return {method: _error(judged, method) for method in judged.expected}


def _error(judged: Judged, method: str) -> dict[str, Any]:
    told = judged.among(~np.isnan(judged.expected[method]))
    if not len(told):
        return {"num_told": 0}
    blocks = Blocks.of(told.as_of)
    mine = BlockQuantiles(_absolute(told, method), blocks.of_forecast, blocks.number, (0.5,))
    ours = BlockQuantiles(_absolute(told, FORECAST), blocks.of_forecast, blocks.number, (0.5,))
    seen = once(blocks.number)
    ratio, ratio_interval = None, None
    median = float(mine.at(seen)[0][0])
    if median > 0:
        ratio = _rounded(float(ours.at(seen)[0][0]) / median)
    figures: dict[str, Any] = {
        "num_told": len(told),
        "median_absolute_error_s": _rounded(median),
        "mean_absolute_error_s": _rounded(float(_absolute(told, method).mean())),
        "median_log_error": _rounded(float(np.median(np.abs(_log_wait_error(told, method))))),
    }
    if blocks.resampled is not None:
        theirs, ours_at = mine.at(blocks.resampled)[0], ours.at(blocks.resampled)[0]
        figures["median_interval_s"] = blocks.interval(theirs)
        ratios = np.divide(ours_at, theirs, out=np.full(len(theirs), np.nan), where=theirs > 0)
        ratio_interval = blocks.interval(ratios)
    return figures | {"error_ratio": ratio, "error_ratio_interval": ratio_interval}


def coverage(judged: Judged, low: Floats, high: Floats) -> dict[str, Any]:
    """How often the start lay within the interval, over all and in the worst week; how wide it was.

    `interval_score_s` is Winkler's: the width, and 2/(1 − nominal) times what was missed by. It is
    least for the true quantiles, so that neither too wide nor too narrow intervals pay.
    """
    inside = (judged.start >= low) & (judged.start <= high)
    missed_s = np.maximum(low - judged.start, 0) + np.maximum(judged.start - high, 0)
    score = (high - low) + 2 / (1 - NOMINAL) * missed_s
    blocks = Blocks.of(judged.as_of)
    figures: dict[str, Any] = {
        "nominal": NOMINAL,
        "num_inside": int(inside.sum()),
        "share": _rounded(float(inside.mean())),
        "below": _rounded(float((judged.start < low).mean())),
        "above": _rounded(float((judged.start > high).mean())),
        "blocks": f"{blocks.number} {blocks.unit}s",
        "median_width_s": _rounded(float(np.median(high - low))),
        "interval_score_s": _rounded(float(score.mean())),
        "worst_week": _worst_week(judged, inside),
    }
    if blocks.resampled is not None:
        means = BlockMeans(inside.astype(np.float64), blocks.of_forecast, blocks.number)
        figures["share_interval"] = blocks.interval(means.at(blocks.resampled))
    return figures


def _worst_week(judged: Judged, inside: Mask) -> dict[str, Any] | None:
    """Of the weeks with enough forecasts, the one of least coverage."""
    week = ((judged.as_of - judged.as_of.min()) // WEEK_S).astype(np.int64)
    counts = np.bincount(week)
    shares = np.bincount(week, weights=inside) / np.maximum(counts, 1)
    enough = np.flatnonzero(counts >= MIN_A_WEEK)
    if not len(enough):
        return None
    worst = int(enough[np.argmin(shares[enough])])
    since = time.gmtime(float(judged.as_of.min()) + worst * WEEK_S)
    return {
        "week": worst + 1,
        "from": time.strftime("%Y-%m-%d", since),
        "num_forecasts": int(counts[worst]),
        "num_inside": int(np.count_nonzero(inside[week == worst])),
        "share": _rounded(float(shares[worst])),
        "weeks_judged": len(enough),
    }


def _absolute(judged: Judged, method: str) -> Floats:
    error: Floats = np.abs(judged.expected[method] - judged.start)
    return error


def _log_wait_error(judged: Judged, method: str) -> Floats:
    """ln of told over true wait, a minute added to both: 0.69 = a factor of 2."""
    told_s = np.maximum(judged.expected[method] - judged.as_of, 0) + WAITED_S
    error: Floats = np.log(told_s / (judged.start - judged.as_of + WAITED_S))
    return error


def _rounded(value: float) -> float:
    """To four significant places behind the point of a share, whole tenths of longer seconds."""
    return round(value, 4 if abs(value) < 10 else 1)
