"""A demand over time: one value a step, of even length, with gaps where nothing is known."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class DemandSeries:
    """Value i is the demand from ``start + i·step_s`` (epoch seconds) for `step_s` seconds.

    NaN where it is not known. A value is known when its step has ended, not before. `unit` is what
    is counted (``nodes``, ``GPUs``).
    """

    start: int
    step_s: int
    values: Floats
    unit: str = "nodes"

    def __post_init__(self) -> None:
        if self.step_s <= 0:
            raise ValueError(f"a step of {self.step_s} s")

    def __len__(self) -> int:
        return len(self.values)

    @property
    def end(self) -> int:
        """End of the last step, epoch seconds."""
        return self.start + self.step_s * len(self.values)

    def row_before(self, moment: float) -> int:
        """The last step that has ended by `moment`; -1 where none has."""
        ended = int((moment - self.start) // self.step_s)
        return min(max(ended, 0), len(self.values)) - 1

    def known_at(self, moment: float) -> DemandSeries:
        """What had been seen by `moment`: the steps that had ended."""
        return self.first(self.row_before(moment) + 1)

    def first(self, count: int) -> DemandSeries:
        """The first `count` steps."""
        return replace(self, values=self.values[: max(count, 0)])

    def coarser(self, step_s: int) -> DemandSeries:
        """The peaks of longer steps, which begin at whole multiples of `step_s` in epoch time.

        The peak is what was needed at the same time, so what has to be powered. A step has a value
        where any part of it has one. What comes after the last whole step is left out: it could
        still change. Raises ValueError where `step_s` is no multiple of the series' own.
        """
        parts, rest = divmod(step_s, self.step_s)
        if rest or self.start % self.step_s:
            raise ValueError(f"steps of {self.step_s} s do not fit into steps of {step_s} s")
        lead = (self.start % step_s) // self.step_s
        rows = (lead + len(self.values)) // parts
        padded = np.concatenate([np.full(lead, np.nan), self.values])[: rows * parts]
        peaks = np.fmax.reduce(padded.reshape(rows, parts), axis=1)  # NaN only where all are
        return DemandSeries(self.start - lead * self.step_s, step_s, peaks, self.unit)

    def filled(self) -> Floats:
        """The values with each gap filled by the last value before it (NaN before the first)."""
        known = ~np.isnan(self.values)
        last = np.maximum.accumulate(np.where(known, np.arange(len(self.values)), -1))
        return np.where(last >= 0, self.values[last], np.nan)
