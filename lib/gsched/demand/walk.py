"""Walking forward through a series: what each step would have been told of those after it.

A method learns from the steps that have ended, forecasts until its next fit is due, and learns
again. Nothing is used that was not known at the step from which a forecast is made.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gsched.demand.methods import FittedMethod, Method, Rows
from gsched.demand.series import DemandSeries, Floats
from gsched.model.times import DAY_S


@dataclass(frozen=True, slots=True)
class WalkOptions:
    """How far ahead forecasts look, and how often a method learns anew."""

    num_steps: int
    refit_s: int = DAY_S


class Walk:
    """The forecasts of one method, kept up as a series grows.

    `predicted` has a row a forecast (made at the end of step ``first_row + i`` of the series) and a
    column a step ahead, NaN where the method knew nothing.
    """

    def __init__(self, method: Method, options: WalkOptions, first_row: int) -> None:
        if first_row < 0:
            raise ValueError("a walk begins within its series")
        self.method = method
        self.options = options
        self.first_row = first_row
        self.predicted: Floats = np.zeros((0, options.num_steps))
        self.num_fits = 0
        self._fitted: FittedMethod | None = None
        self._grid: tuple[int, int] | None = None
        self._fit_due = first_row

    @property
    def next_row(self) -> int:
        """The step after which the next forecast is made."""
        return self.first_row + len(self.predicted)

    def extend(self, series: DemandSeries) -> None:
        """Make the forecasts of all steps of `series` that have none yet.

        What it says of earlier steps must be what it said before. Raises ValueError where it does
        not begin where it did, or has other steps.
        """
        grid = series.start, series.step_s
        if self._grid not in (None, grid):
            raise ValueError("the series that is walked through has another beginning or step")
        self._grid = grid
        parts = [self.predicted]
        row = self.next_row
        while row < len(series):
            if row >= self._fit_due:
                self._learn(series, row)
            until = min(len(series), self._fit_due)
            parts.append(self._forecasts(series, np.arange(row, until)))
            row = until
        self.predicted = np.concatenate(parts)

    def told_of(self, rows: Rows, steps: int) -> Floats:
        """What was forecast of each of `rows` so many steps before it; NaN where nothing was."""
        places = rows - steps - self.first_row
        inside = (places >= 0) & (places < len(self.predicted))
        found = np.full(len(rows), np.nan)
        found[inside] = self.predicted[places[inside], steps - 1]
        return found

    def _learn(self, series: DemandSeries, row: int) -> None:
        """From the steps up to and with `row`, which have ended."""
        self._fitted = self.method.fit(series.first(row + 1), self.options.num_steps)
        self._fit_due = row + max(1, self.options.refit_s // series.step_s)
        self.num_fits += self._fitted is not None

    def _forecasts(self, series: DemandSeries, rows: Rows) -> Floats:
        if self._fitted is None:
            return np.full((len(rows), self.options.num_steps), np.nan)
        return self._fitted.predict(series.first(int(rows[-1]) + 1), rows)


def walk_forward(
    series: DemandSeries, method: Method, options: WalkOptions, first_row: int
) -> Walk:
    """All forecasts from `first_row` to the end of a series."""
    walk = Walk(method, options, first_row)
    walk.extend(series)
    return walk


def truth_after(values: Floats, first_row: int, count: int, num_steps: int) -> Floats:
    """What came true: the `num_steps` values after each of `count` rows; NaN beyond the end."""
    padded = np.concatenate([values, np.full(num_steps, np.nan)])
    windows = np.lib.stride_tricks.sliding_window_view(padded, num_steps)
    return np.array(windows[first_row + 1 : first_row + 1 + count])
