"""Forecasts that need no model, and that a model must beat: as now, or as a day or a week ago."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gsched.demand.methods import Rows
from gsched.demand.series import DemandSeries, Floats
from gsched.model.times import DAY_S

WEEK_S = 7 * DAY_S


@dataclass(frozen=True, slots=True)
class LastValue:
    """Demand stays as it is (persistence). Across a gap, as it was before it."""

    name: str = "last-value"

    def fit(self, history: DemandSeries, num_steps: int) -> _Last:
        """There is nothing to learn."""
        return _Last(num_steps)


@dataclass(frozen=True, slots=True)
class SeasonalNaive:
    """Demand is as it was one season before: a day, or a week."""

    season_s: int = DAY_S
    name: str = "seasonal-naive"

    def fit(self, history: DemandSeries, num_steps: int) -> _Season | None:
        """Too short is a history of less than a season."""
        season = self.season_s // history.step_s
        return _Season(season, num_steps) if 0 < season <= len(history) else None


@dataclass(frozen=True, slots=True)
class _Last:
    num_steps: int

    def predict(self, series: DemandSeries, rows: Rows) -> Floats:
        return np.repeat(series.filled()[rows][:, None], self.num_steps, axis=1)


@dataclass(frozen=True, slots=True)
class _Season:
    season: int
    num_steps: int

    def predict(self, series: DemandSeries, rows: Rows) -> Floats:
        """Further ahead than a season it is the same season again."""
        ahead = np.arange(1, self.num_steps + 1)
        back = -(-ahead // self.season) * self.season
        wanted = rows[:, None] + ahead - back
        return np.where(wanted >= 0, series.filled()[np.maximum(wanted, 0)], np.nan)
