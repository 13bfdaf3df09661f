"""Forecasts by the classical models of statsmodels: exponential smoothing and ARIMA, for the bench.

Parameters are learnt from the last two weeks of the history. A forecast filters what has come since
the beginning of those weeks with them, and lets the state go on. Both are state-space models, which
know what to do in gaps.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from gsched.demand.methods import Rows
from gsched.demand.series import DemandSeries, Floats
from gsched.model.times import DAY_S

LEARN_S = 14 * DAY_S
LEAST_STEPS = 48

_MOST_ITERATIONS = 100


@dataclass(frozen=True, slots=True)
class Ets:
    """Exponential smoothing with a damped trend (ETS A,Ad,N)."""

    name: str = "ets"

    def fit(self, history: DemandSeries, num_steps: int) -> _Filter | None:
        """Learn from the last `LEARN_S`."""
        return _learnt(_damped_trend, history, num_steps)


@dataclass(frozen=True, slots=True)
class Arima:
    """ARIMA of the given order, without a season."""

    order: tuple[int, int, int] = (2, 1, 2)
    name: str = "arima"

    def fit(self, history: DemandSeries, num_steps: int) -> _Filter | None:
        """Learn from the last `LEARN_S`."""

        def model(values: Floats) -> Any:
            from statsmodels.tsa.statespace.sarimax import SARIMAX

            return SARIMAX(values, order=self.order)

        return _learnt(model, history, num_steps)


def _damped_trend(values: Floats) -> Any:
    from statsmodels.tsa.statespace.exponential_smoothing import ExponentialSmoothing

    return ExponentialSmoothing(values, trend=True, damped_trend=True)


def _learnt(
    model: Callable[[Floats], Any], history: DemandSeries, num_steps: int
) -> _Filter | None:
    """None where too little is known, or no parameters could be found."""
    first = max(0, len(history) - LEARN_S // history.step_s)
    values = history.values[first:]
    if np.count_nonzero(~np.isnan(values)) < LEAST_STEPS:
        return None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a search that has not converged shows in the forecasts
        try:
            results = model(values).fit(maxiter=_MOST_ITERATIONS, disp=False)
        except (np.linalg.LinAlgError, ValueError):
            return None
    return _Filter(results, num_steps, first)


@dataclass(frozen=True, slots=True)
class _Filter:
    results: Any
    num_steps: int
    first_row: int

    def predict(self, series: DemandSeries, rows: Rows) -> Floats:
        """From the state expected after each row, which the transition takes on step by step.

        Rows lie behind the first that was learnt from.
        """
        if not len(rows):
            return np.zeros((0, self.num_steps))
        first = self.first_row
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            filtered = self.results.apply(series.values[first : int(rows.max()) + 1])
        states = filtered.predicted_state[:, rows - first + 1]
        design, transition = (filtered.model.ssm[name] for name in ("design", "transition"))
        found = np.empty((len(rows), self.num_steps))
        for step in range(self.num_steps):
            found[:, step] = (design @ states)[0]
            states = transition @ states
        return np.maximum(found, 0.0)
