"""Series of demand for tests: a day's pattern, a random walk, and one with another future."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from gsched.demand.series import DemandSeries

MONDAY = 1_699_833_600  # 2023-11-13 00:00 UTC
STEP_S = 3600
A_DAY = 86400 // STEP_S


def daily(days: int, *, noise: float = 0.0, seed: int = 0) -> DemandSeries:
    """Forty nodes by night, a hundred by day; half of that at weekends. A step an hour."""
    hours = np.arange(days * A_DAY)
    is_day = (hours % 24 >= 8) & (hours % 24 < 20)
    is_weekend = (hours // 24) % 7 >= 5
    level = np.where(is_day, 100.0, 40.0) * np.where(is_weekend, 0.5, 1.0)
    added = noise * np.random.default_rng(seed).standard_normal(len(level))
    return DemandSeries(MONDAY, STEP_S, np.maximum(np.round(level + added), 0.0))


def random_walk(days: int, seed: int = 0) -> DemandSeries:
    """Demand that goes up or down at every step and remembers nothing else."""
    steps = np.random.default_rng(seed).integers(-20, 21, days * A_DAY)
    return DemandSeries(MONDAY, STEP_S, np.abs(2000.0 + np.cumsum(steps)))


def another_future(series: DemandSeries, rows: int, seed: int = 9) -> DemandSeries:
    """The same up to and without step `rows`, and anything from there on."""
    values = series.values.copy()
    values[rows:] = np.random.default_rng(seed).integers(0, 900, len(values) - rows)
    return replace(series, values=values)
