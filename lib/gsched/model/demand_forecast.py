"""What is expected to be wanted, step by step, in the hours that come."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise


@dataclass(frozen=True, slots=True)
class DemandForecast:
    """Demand (nodes or GPUs) in the steps after `made_at` (epoch seconds), the next step first.

    `low` and `high` bound the demand of one step, each with a chance of `level` (0 to 1) that both
    hold; `peak` bounds from above the greatest demand from the next step up to this one with that
    chance, so it never falls. `method` says what made the forecast. Raises ValueError where the
    columns differ in length, a bound is on the wrong side, or a mean or peak is no number.

    Who asks later than `made_at` says so by `age_s`, seconds since then: the steps that have passed
    are left out. An age below 0 (a clock that was set back) counts as 0.
    """

    made_at: int
    step_s: int
    mean: tuple[float, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]
    peak: tuple[float, ...]
    level: float
    method: str

    def __post_init__(self) -> None:
        if not self.mean or self.step_s <= 0:
            raise ValueError("a forecast has one step at least, of a second or more")
        if not len(self.mean) == len(self.low) == len(self.high) == len(self.peak):
            raise ValueError("the columns of a forecast differ in length")
        bounds = zip(self.low, self.mean, self.high, strict=True)
        if not all(low <= mean <= high for low, mean, high in bounds):
            raise ValueError("a forecast's mean lies outside its bounds")
        if not all(math.isfinite(each) for each in (*self.mean, *self.peak)):
            raise ValueError("a mean or peak of a forecast is no number")
        if any(after < before for before, after in pairwise(self.peak)):
            raise ValueError("the bound of a peak so far cannot fall")

    @property
    def length_s(self) -> int:
        """How far ahead it looks, in seconds."""
        return self.step_s * len(self.mean)

    def mean_until(self, ahead_s: float, age_s: float = 0) -> float:
        """Mean demand over the next `ahead_s` seconds, to the nearest whole step, one at least."""
        passed = min(int(max(age_s, 0) // self.step_s), len(self.mean) - 1)
        steps = max(1, round(ahead_s / self.step_s))
        ahead = self.mean[passed : passed + steps]
        return sum(ahead) / len(ahead)

    def peak_until(self, ahead_s: float, age_s: float = 0) -> float:
        """Upper bound of the demand in the next `ahead_s` seconds: of all steps that begin in them.

        Where it does not look so far, of all there are: ask `covers` first.
        """
        steps = math.ceil((ahead_s + max(age_s, 0)) / self.step_s)
        return self.peak[min(max(steps, 1), len(self.peak)) - 1]

    def covers(self, ahead_s: float, age_s: float = 0) -> bool:
        """Whether it looks `ahead_s` seconds ahead."""
        return ahead_s + max(age_s, 0) <= self.length_s


def constant_forecast(
    value: float, made_at: int, step_s: int, num_steps: int, method: str
) -> DemandForecast:
    """Demand stays as it is, for certain: persistence without an interval."""
    return known_forecast([value] * num_steps, made_at, step_s, method)


def known_forecast(
    values: Sequence[float], made_at: int, step_s: int, method: str
) -> DemandForecast:
    """These values, for certain: what an oracle would say."""
    column, peak = tuple(values), list(values[:1])
    for value in values[1:]:
        peak.append(max(peak[-1], value))
    return DemandForecast(made_at, step_s, column, column, column, tuple(peak), 1.0, method)
