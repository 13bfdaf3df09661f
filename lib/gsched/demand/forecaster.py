"""The forecast in use: a method, how wrong it has been lately, and when it is better not believed.

Bounds are those that its own errors of the last weeks kept (split conformal prediction over a
moving window, Vovk et al.; no law of errors is assumed). Where the method has lately been worse
than the best of its naive rivals there is no forecast, and who acts by forecasts does nothing.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gsched.demand.methods import Method
from gsched.demand.naive import LastValue, SeasonalNaive
from gsched.demand.series import DemandSeries, Floats
from gsched.demand.walk import Walk, WalkOptions, truth_after
from gsched.model.decision import JsonValue, Reason
from gsched.model.demand_forecast import DemandForecast
from gsched.model.times import DAY_S

NO_METHOD = "demand.history-too-short"
NO_VALUE = "demand.unknown-now"
NO_ERRORS = "demand.too-few-errors"
NOT_JUDGED = "demand.not-judged"
WORSE = "demand.worse-than-naive"
MADE = "demand.forecast"

_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True)
class ForecastOptions:
    """`level` is the chance with which bounds should hold, from errors of the last `errors_s`.

    They are counted anew every `renew_s`, and there have to be `least_errors` of them, or as many
    as it takes for one to lie beyond a bound. The method
    is compared with its rivals at the distances `judged_s` (those that it looks ahead, or where it
    looks less far than any, as far as it looks) over the last `judge_s`, and is worse
    when its mean absolute error exceeds that of the best rival by more than the share `tolerance`
    (chosen on Philly's October and November 2017).
    """

    level: float = 0.9
    errors_s: int = 21 * DAY_S
    renew_s: int = 3600
    least_errors: int = 144
    judge_s: int = 14 * DAY_S
    judged_s: tuple[int, ...] = (3600, 3 * 3600, 5 * 3600)
    tolerance: float = 0.05

    def __post_init__(self) -> None:
        if not 0 < self.level < 1:
            raise ValueError("the chance with which bounds hold lies between 0 and 1")

    @property
    def needed_errors(self) -> int:
        """How many errors have to be known: with fewer, no bound of them would hold so often."""
        tail = (1 - self.level) / 2
        return max(self.least_errors, math.ceil(1 / tail - 1 - _ROUNDING))


@dataclass(frozen=True, slots=True)
class Outlook:
    """A forecast, or None; and why."""

    forecast: DemandForecast | None
    reason: Reason


class DemandForecaster:
    """Follows one series. `rivals` are the naive methods that `method` has to match.

    Errors have to be known before there is a forecast, so the first step that is walked through,
    `first_row`, has to lie some days before those that matter.
    """

    def __init__(
        self,
        method: Method,
        walk: WalkOptions,
        first_row: int,
        options: ForecastOptions | None = None,
        rivals: Sequence[Method] = (LastValue(), SeasonalNaive()),
    ) -> None:
        self.options = options or ForecastOptions()
        self.walks = {each.name: Walk(each, walk, first_row) for each in (method, *rivals)}
        self._method = method.name
        self._series: DemandSeries | None = None
        self._errors: dict[str, Floats] = {}
        self._peak_errors: Floats = np.zeros((0, walk.num_steps))
        self._bounds: tuple[int, _Bounds | None] = (-1, None)

    @property
    def walk(self) -> Walk:
        """The forecasts of the method."""
        return self.walks[self._method]

    def observe(self, series: DemandSeries) -> None:
        """Take in the steps that have ended since the last time."""
        self._series = series
        for walk in self.walks.values():
            walk.extend(series)
        first, count = self.walk.first_row, len(self.walk.predicted)
        truth = truth_after(series.values, first, count, self.walk.options.num_steps)
        self._errors = {
            name: _by_truth(truth - walk.predicted) for name, walk in self.walks.items()
        }
        peaks = np.maximum.accumulate(truth, axis=1)  # NaN from the first gap on
        told = np.maximum.accumulate(self.walk.predicted, axis=1)
        self._peak_errors = _by_truth(peaks - told)

    def latest(self) -> Outlook:
        """The outlook from the last step that was observed."""
        return self.outlook(self.walk.next_row - 1)

    def outlook(self, row: int) -> Outlook:
        """The outlook from the end of the step `row` of the series, as it was then."""
        series, options = self._series, self.options
        place = row - self.walk.first_row
        if series is None or not 0 <= place < len(self.walk.predicted):
            return Outlook(None, Reason(NO_METHOD))
        mean = self.walk.predicted[place]
        if math.isnan(series.values[row]):
            return Outlook(None, Reason(NO_VALUE))
        if np.isnan(mean).any():
            return Outlook(None, Reason(NO_METHOD))
        bounds = self._bounds_at(place, series.step_s)
        if bounds is None:
            return Outlook(None, Reason(NO_ERRORS, {"needed": options.needed_errors}))
        compared = self._compared(place, series.step_s)
        if not compared.rival and len(self.walks) > 1:
            return Outlook(None, Reason(NOT_JUDGED))
        if compared.ratio > 1 + options.tolerance:
            return Outlook(None, Reason(WORSE, compared.told()))
        forecast = bounds.around(mean, series, row, options.level, self._method)
        return Outlook(forecast, Reason(MADE, compared.told()))

    def _bounds_at(self, place: int, step_s: int) -> _Bounds | None:
        renew = max(1, self.options.renew_s // step_s)
        due = place - place % renew
        if self._bounds[0] != due:
            first = max(0, due + 1 - self.options.errors_s // step_s)
            seen = slice(first, due + 1)
            self._bounds = (
                due,
                _Bounds.of(self._errors[self._method][seen], self._peak_errors[seen], self.options),
            )
        return self._bounds[1]

    def _compared(self, place: int, step_s: int) -> _Compared:
        """The method's mean absolute error over that of its best rival, by the latest truths."""
        columns = [s // step_s - 1 for s in self.options.judged_s]
        furthest = self.walk.options.num_steps - 1
        columns = [each for each in columns if 0 <= each <= furthest] or [furthest]
        first = max(0, place + 1 - self.options.judge_s // step_s)
        seen = {n: np.abs(e[first : place + 1, columns]) for n, e in self._errors.items()}
        own = seen.pop(self._method)
        found = _Compared()
        for name, theirs in seen.items():
            both = ~np.isnan(own) & ~np.isnan(theirs)
            if not both.any():
                continue
            mine, rival = float(own[both].mean()), float(theirs[both].mean())
            of_this = mine / rival if rival else (math.inf if mine else 1.0)
            if not found.rival or of_this > found.ratio:
                found = _Compared(name, of_this)
        return found


@dataclass(frozen=True, slots=True)
class _Compared:
    """The best rival, and the method's error over that of it; 1 where nothing can be compared."""

    rival: str = ""
    ratio: float = 1.0

    def told(self) -> dict[str, JsonValue]:
        ratio = round(self.ratio, 4) if math.isfinite(self.ratio) else None
        return {"rival": self.rival, "error_ratio": ratio}


@dataclass(frozen=True, slots=True)
class _Bounds:
    """By how much the truth may lie below and above, a value a step ahead."""

    below: Floats
    above: Floats
    peak: Floats

    @classmethod
    def of(cls, errors: Floats, peaks: Floats, options: ForecastOptions) -> _Bounds | None:
        tail = (1 - options.level) / 2
        below, few = _quantile(-errors, 1 - tail, options.needed_errors)
        above, _ = _quantile(errors, 1 - tail, options.needed_errors)
        peak, too_few = _quantile(peaks, options.level, options.needed_errors)
        return None if few or too_few else cls(-below, above, peak)

    def around(
        self, mean: Floats, series: DemandSeries, row: int, level: float, method: str
    ) -> DemandForecast:
        low = np.clip(mean + self.below, 0.0, mean)
        high = np.maximum(mean + self.above, mean)
        peak = np.maximum.accumulate(np.maximum.accumulate(mean) + self.peak)
        return DemandForecast(
            made_at=series.start + series.step_s * (row + 1),
            step_s=series.step_s,
            mean=tuple(mean.tolist()),
            low=tuple(low.tolist()),
            high=tuple(high.tolist()),
            peak=tuple(np.maximum(peak, 0.0).tolist()),
            level=level,
            method=method,
        )


def _by_truth(errors: Floats) -> Floats:
    """Errors in the row of the step that came true then, not of that which told it.

    Rows up to i hold what is known at the end of step i.
    """
    moved = np.full_like(errors, np.nan)
    for column in range(errors.shape[1]):
        steps = column + 1
        moved[steps:, column] = errors[: max(len(errors) - steps, 0), column]
    return moved


def _quantile(errors: Floats, share: float, least: int) -> tuple[Floats, bool]:
    """The error that the share of all did not exceed, with one more to come; by column.

    The share is no more than ``n / (n + 1)`` where n are known. And whether a column has fewer
    than `least` known errors.
    """
    ordered = np.sort(errors, axis=0)  # NaN last
    number = (~np.isnan(errors)).sum(axis=0)
    if not len(errors) or int(number.min()) < max(least, 1):
        return np.zeros(errors.shape[1]), True
    place = np.ceil((number + 1) * share - _ROUNDING).astype(np.int64) - 1
    return ordered[place, np.arange(errors.shape[1])], False
