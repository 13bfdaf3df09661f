"""Jobs to come: those of past days once more, at the same hours.

Each sample draws, for every day ahead, one of the recent days: of the same kind (a working day or
the weekend) where three are known. A day is taken whole: bursts, batches and who comes after whom
stay together. Days are counted back from the forecast, so that none of them is cut short.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gsched.forecast.sampling import Floats, mixed, name_hashes, stratified

DAY_S = 86_400.0
_THURSDAY = 3  # the first day of 1970, Monday = 0
_SATURDAY = 5
_FEWEST_ALIKE = 3
"""Where fewer days of a kind are known, any day may come: one day again and again is no chance."""


@dataclass(frozen=True, slots=True)
class Arrivals:
    """Jobs of one sample: rows of the past ones, and seconds from the forecast at which they come
    (rising). `numbers` tell the same past job apart when it comes on several days.
    """

    rows: NDArray[np.int64]
    submit_s: Floats
    numbers: NDArray[np.uint64]


class PastDays:
    """The recent days before `as_of`, with the jobs of each."""

    def __init__(self, as_of: float, submitted_at: Floats, begin: float | None) -> None:
        """`submitted_at` are epoch times between `begin` and `as_of`."""
        self._as_of = as_of
        ago_s = as_of - submitted_at
        span_s = 0.0 if begin is None else as_of - begin
        self.length_s = min(DAY_S, span_s)  # of a day, or of what there is
        self.count = int(span_s / self.length_s) if self.length_s > 0 and len(ago_s) else 0
        day = np.ceil(ago_s / self.length_s).astype(np.int64) - 1 if self.count else ago_s
        order = np.argsort(submitted_at, kind="stable")
        self._days = [order[day[order] == number] for number in range(self.count)]
        self._into_s = [  # seconds from the day's beginning
            (number + 1) * self.length_s - ago_s[rows] for number, rows in enumerate(self._days)
        ]
        begins = as_of - self.length_s * np.arange(1, self.count + 1)
        self._is_weekend = _is_weekend(np.asarray(begins, dtype=np.float64))

    def draw(self, samples: int, horizon_s: float, seed: int) -> list[Arrivals]:
        """What comes within the horizon, once a sample."""
        ahead = int(np.ceil(horizon_s / self.length_s)) if self.count else 0
        hashes = name_hashes([f"day {number}" for number in range(ahead)], seed)
        chances = stratified(hashes, samples)
        choices = np.zeros((ahead, samples), dtype=np.int64)
        for number in range(ahead):
            alike = self._alike(number)
            choices[number] = alike[(chances[number] * len(alike)).astype(np.int64)]
        return [self._of(choices[:, sample], sample) for sample in range(samples)]

    def _alike(self, ahead: int) -> NDArray[np.int64]:
        """The past days that are of the kind of a day ahead."""
        is_weekend = bool(_is_weekend(np.array([self._as_of + ahead * self.length_s]))[0])
        alike = np.flatnonzero(self._is_weekend == is_weekend)
        return alike if len(alike) >= _FEWEST_ALIKE else np.arange(self.count)

    def _of(self, choice: NDArray[np.int64], sample: int) -> Arrivals:
        rows = [self._days[day] for day in choice]
        times = [number * self.length_s + self._into_s[day] for number, day in enumerate(choice)]
        all_rows = np.concatenate(rows) if rows else np.zeros(0, dtype=np.int64)
        ahead = np.repeat(np.arange(len(rows)), [len(each) for each in rows])
        code = (np.uint64(sample) << np.uint64(48)) + (ahead.astype(np.uint64) << np.uint64(32))
        return Arrivals(
            rows=all_rows,
            submit_s=np.concatenate(times) if times else np.zeros(0),
            numbers=mixed(code + all_rows.astype(np.uint64)),
        )


def _is_weekend(at: Floats) -> NDArray[np.bool_]:
    """Whether days that begin then (UTC) lie on a weekend."""
    weekend: NDArray[np.bool_] = (at // DAY_S + _THURSDAY) % 7 >= _SATURDAY
    return weekend
