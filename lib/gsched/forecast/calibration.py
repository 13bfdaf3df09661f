"""Intervals that hold what they say: corrections learnt from earlier forecasts.

The samples know what the situation says; they do not know cancelled jobs, limits of users, or how
wrong predictions are all together. What has come of earlier forecasts tells. Each of the three
numbers of a forecast (median, low, high) is shifted, on a logarithmic scale of waiting, by a
quantile of how far the truth lay beyond that number before: conformalised quantile regression
(Romano et al. 2019) at each end. Queues change, so that the latest forecasts count most, by weights
that halve (Barber et al. 2023); those of one hour share one fate, so that together they count as a
few.

The jobs of many earlier forecasts still wait, and the sooner a job starts, the sooner it is known:
to learn from those alone would be to learn from short waits. A job that still waits says that it
lies beyond where it stands, which is what the quantiles of Kaplan and Meier (1958) are for. Where
so many wait that a quantile is not known, where they stand makes a wait longer and never shorter.
"""

from __future__ import annotations

import bisect
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from gsched.forecast.outlook import Interval
from gsched.model.times import DAY_S

HALF_LIFE = 150
HALF_LIFE_S = float(DAY_S)
"""One counts half as much when it is older by so many forecasts (as they count) and by so long. A
site that makes thousands an hour learns from days like any other: of what it said within the last
hours of jobs that wait for hours, nothing is known yet.
"""

HALVINGS = 6
"""After so many one counts for nothing."""

WINDOW = HALVINGS * HALF_LIFE

MOST_ALIKE = 6.0
"""Forecasts of one class made in one hour count as so many at most: the jobs of a burst wait for
the same thing, and are hardly more than one case.
"""

LEAST = 30
"""Fewer of one class (as they count) tell nothing of it: all classes together count."""

SCALE_S = 60.0
"""Waits well below a minute are equal: Slurm itself looks for jobs to start only so often."""

CLASSES_S = (60.0, 3_600.0, 6 * 3_600.0)
"""Predicted medians up to these differ in kind: at once, soon, today, later."""


@dataclass(frozen=True, slots=True)
class PastForecast:
    """A forecast of earlier, as the samples gave it, and when the job started; None: it had not
    when this was written down.
    """

    as_of: float
    raw: Interval
    start: float | None


@dataclass(frozen=True, slots=True)
class Shifts:
    """What is added to the median, the low and the high end, on the logarithmic scale."""

    median: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Calibration:
    """Shifts by class of the predicted wait, and how many forecasts they were learnt from."""

    by_class: tuple[Shifts, ...]
    learnt_from: int

    @classmethod
    def learn(cls, past: Sequence[PastForecast], now: float, coverage: float = 0.8) -> Calibration:
        """From what is known at `now` of the forecasts made before; later starts are not looked at.

        `past` rises with `as_of`.
        """
        misses = _misses([one for one in past if one.as_of < now], now)
        if not _tell_enough(misses):
            return NO_CALIBRATION
        everything = _shifts(misses, coverage)
        by_class: list[list[_Miss]] = [[] for _ in NO_CALIBRATION.by_class]
        for miss in misses:
            by_class[miss.wait_class].append(miss)
        return cls(
            tuple(
                _shifts(mine, coverage) if _tell_enough(mine) else everything for mine in by_class
            ),
            len(misses),
        )

    def apply(self, begin: float, raw: Interval) -> Interval:
        """The forecast as it is told of a job that can start from `begin` on (when the forecast is
        made, or its begin time): only the wait from then on is corrected, and the median stays
        within the interval.
        """
        shifts = self.by_class[_class_of(raw.median - begin)]
        if shifts == _NO_SHIFTS:
            return raw
        median, low, high = (
            _seconds(_log(end - begin) + shift)
            for end, shift in (
                (raw.median, shifts.median),
                (raw.low, shifts.low),
                (raw.high, shifts.high),
            )
        )
        low, high = min(low, high), max(low, high)
        return Interval(begin + min(max(median, low), high), begin + low, begin + high)


_NO_SHIFTS = Shifts(0.0, 0.0, 0.0)
_ROUNDING = 1e-6
_HOUR_S = 3_600.0

NO_CALIBRATION = Calibration((_NO_SHIFTS,) * (len(CLASSES_S) + 1), 0)
"""Leaves forecasts as they are."""


@dataclass(frozen=True, slots=True)
class _Miss:
    """How far the truth lay above each number of a forecast, on the logarithmic scale; where the
    job still waits, `is_known` is False and it lies further above.

    `share` is as how much of a forecast it counts among those of its hour, `weight` what of that
    its age has left.
    """

    wait_class: int
    is_known: bool
    share: float
    weight: float
    median: float
    low: float
    high: float

    @classmethod
    def of(cls, one: PastForecast, now: float, share: float, weight: float) -> _Miss:
        """As known at `now`: a job that starts later has waited until then."""
        is_known = one.start is not None and one.start <= now
        truth = _log((one.start if is_known and one.start is not None else now) - one.as_of)
        return cls(
            wait_class=_class_of(one.raw.median - one.as_of),
            is_known=is_known,
            share=share,
            weight=weight,
            median=truth - _log(one.raw.median - one.as_of),
            low=truth - _log(one.raw.low - one.as_of),
            high=truth - _log(one.raw.high - one.as_of),
        )


def _misses(made: Sequence[PastForecast], now: float) -> list[_Miss]:
    """Of those that still count, with what each counts for, the newest first."""
    alike = [(_class_of(one.raw.median - one.as_of), one.as_of // _HOUR_S) for one in made]
    crowd = Counter(alike)
    found: list[_Miss] = []
    later = 0.0  # of forecasts, as they count
    for one, key in zip(reversed(made), reversed(alike), strict=True):
        halvings = min(later / HALF_LIFE, (now - one.as_of) / HALF_LIFE_S)
        if halvings >= HALVINGS - _ROUNDING:
            break  # those before are older still
        share = min(1.0, MOST_ALIKE / crowd[key])
        found.append(_Miss.of(one, now, share, share * 0.5**halvings))
        later += share
    return found


def _tell_enough(misses: Sequence[_Miss]) -> bool:
    return math.fsum(miss.share for miss in misses) >= LEAST - _ROUNDING


class _Distance(NamedTuple):
    """Sorts those that are known before those that lie beyond."""

    value: float
    is_beyond: bool
    weight: float


def _shifts(misses: Sequence[_Miss], coverage: float) -> Shifts:
    tail = (1.0 - coverage) / 2.0

    def quantile(name: str, level: float) -> float:
        distances = [_Distance(getattr(m, name), not m.is_known, m.weight) for m in misses]
        return _quantile(sorted(distances), level)

    return Shifts(quantile("median", 0.5), quantile("low", tail), quantile("high", 1.0 - tail))


def _quantile(distances: Sequence[_Distance], level: float) -> float:
    """Kaplan and Meier's quantile of weighted distances.

    The forecast to be told counts as one more, which lies outside: above all others for a level in
    the upper half, below them in the lower one. Where the quantile is not reached, it lies beyond
    all that is known: the wait is no shorter than that says, nor than was forecast, and its high
    end no sooner than where those stand who wait.
    """
    at_risk = 1.0 + math.fsum(distance.weight for distance in distances)
    survive = 1.0
    if level < 0.5:
        survive -= 1.0 / at_risk
        at_risk -= 1.0
    for distance in distances:
        if not distance.is_beyond:
            survive *= 1.0 - min(1.0, distance.weight / at_risk)
        at_risk -= distance.weight
        if 1.0 - survive >= level:
            return distance.value
        if at_risk <= 0.0:  # nobody is left, but for what rounding has left
            break
    reached = [d.value for d in distances if level > 0.5 or not d.is_beyond]
    return max([0.0, *reached[-1:]])


def _class_of(wait_s: float) -> int:
    return bisect.bisect_left(CLASSES_S, wait_s)


def _log(wait_s: float) -> float:
    return math.log1p(max(wait_s, 0.0) / SCALE_S)


def _seconds(log: float) -> float:
    return math.expm1(max(log, 0.0)) * SCALE_S
