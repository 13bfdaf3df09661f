"""What a forecasting method is: learnt from the past of a series, asked at any later step of it."""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from gsched.demand.series import DemandSeries, Floats

Rows = NDArray[np.int64]


class FittedMethod(Protocol):
    """A method that has learnt."""

    def predict(self, series: DemandSeries, rows: Rows) -> Floats:
        """Demand in the steps after each of `rows`: a row each, a column a step ahead.

        Only what the series says up to and with that row may be used. NaN where the method does not
        know.
        """
        ...


class Method(Protocol):
    """A way to forecast, with its parameters."""

    @property
    def name(self) -> str:
        """What it is called in tables and reasons."""
        ...

    def fit(self, history: DemandSeries, num_steps: int) -> FittedMethod | None:
        """Learn from all of `history` to look `num_steps` ahead; None where it is too short."""
        ...
