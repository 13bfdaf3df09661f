"""A moment in a series as numbers for a regression: all from what had been seen by then.

What lies behind is told as a difference to the latest value, so that what is learnt at one level
holds at another. Lags, means and deviations at several scales, the hour, weekday, day and holidays
are those of Helios' CES (SC'21, section 4.3).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from gsched.demand.calendar import Calendar
from gsched.demand.methods import Rows
from gsched.demand.series import DemandSeries, Floats
from gsched.model.times import DAY_S

HOUR_S = 3600
LAGS_S = (600, 1800, HOUR_S, 3 * HOUR_S, DAY_S)
MEANS_S = (1800, HOUR_S, 3 * HOUR_S, DAY_S, 7 * DAY_S)
DEVIATIONS_S = (HOUR_S, 3 * HOUR_S, DAY_S)
MEDIANS_S = (3 * HOUR_S, DAY_S)
EXTREMES_S = (DAY_S,)

PAST = (
    *(f"lag_{s}s" for s in LAGS_S),
    *(f"mean_{s}s" for s in MEANS_S),
    *(f"deviation_{s}s" for s in DEVIATIONS_S),
    *(f"median_{s}s" for s in MEDIANS_S),
    *(f"{which}_{s}s" for s in EXTREMES_S for which in ("least", "greatest")),
)
_CHUNK_ROWS = 4096


def past_columns(series: DemandSeries, rows: Rows) -> Floats:
    """A row each, a column a name of PAST; NaN where the series does not reach back so far."""
    values, now = series.values, series.filled()[rows]

    def steps(seconds: int) -> int:
        return max(1, round(seconds / series.step_s))

    columns = [_lag(values, rows, steps(s)) - now for s in LAGS_S]
    sums = _Sums(values)
    columns += [sums.mean(rows, steps(s)) - now for s in MEANS_S]
    columns += [sums.deviation(rows, max(2, steps(s))) for s in DEVIATIONS_S]
    columns += [_of_windows(np.nanmedian, values, rows, steps(s)) - now for s in MEDIANS_S]
    for s in EXTREMES_S:
        columns.append(_of_windows(np.nanmin, values, rows, steps(s)) - now)
        columns.append(_of_windows(np.nanmax, values, rows, steps(s)) - now)
    return np.column_stack(columns)


def calendar_columns(
    series: DemandSeries, rows: Rows, steps_ahead: int, calendar: Calendar
) -> Floats:
    """A row each, a column a name of CALENDAR, of the step so many steps after each row."""
    return calendar.columns(series.start + series.step_s * (rows + steps_ahead))


def _lag(values: Floats, rows: Rows, steps: int) -> Floats:
    there = rows - steps
    return np.where(there >= 0, values[np.maximum(there, 0)], np.nan)


class _Sums:
    """Means and deviations of the last steps from sums over all before; gaps do not count.

    Counts of nodes and GPUs are whole numbers, or halves: their sums are exact.
    """

    def __init__(self, values: Floats) -> None:
        known = ~np.isnan(values)
        filled = np.where(known, values, 0.0)
        self._number, self._sum, self._squares = (
            np.concatenate([[0.0], np.cumsum(column)])
            for column in (known.astype(np.float64), filled, filled * filled)
        )

    def mean(self, rows: Rows, steps: int) -> Floats:
        number, total, _ = self._window(rows, steps)
        return np.where(number > 0, total / np.maximum(number, 1), np.nan)

    def deviation(self, rows: Rows, steps: int) -> Floats:
        number, total, squares = self._window(rows, steps)
        mean = total / np.maximum(number, 1)
        variance = np.maximum(squares / np.maximum(number, 1) - mean * mean, 0.0)
        return np.where(number > 1, np.sqrt(variance), np.nan)

    def _window(self, rows: Rows, steps: int) -> Iterator[Floats]:
        first = np.maximum(rows + 1 - steps, 0)
        return (each[rows + 1] - each[first] for each in (self._number, self._sum, self._squares))


def _of_windows(statistic: Callable[..., Floats], values: Floats, rows: Rows, steps: int) -> Floats:
    """A statistic of the last `steps` values up to each row; NaN where none of them is known."""
    padded = np.concatenate([np.full(steps - 1, np.nan), values])
    windows = np.lib.stride_tricks.sliding_window_view(padded, steps)
    found = np.full(len(rows), np.nan)
    for first in range(0, len(rows), _CHUNK_ROWS):
        chunk = slice(first, first + _CHUNK_ROWS)
        table = windows[rows[chunk]]
        some = ~np.isnan(table).all(axis=1)
        found[chunk][some] = statistic(table[some], axis=1)
    return found
