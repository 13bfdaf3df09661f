"""Gradient-boosted trees that forecast by how much demand will differ from what it is now.

One regression a distance (direct forecasting): at distances that grow, and in between by straight
lines. Demand is close to a random walk, where the best guess is the latest value; so the trees
learn the change, by its median (a few outages must not teach them), and only part of what they
say is believed (`trust`), as the mean of the regression and persistence would.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from gsched.demand.calendar import Calendar
from gsched.demand.features import calendar_columns, past_columns
from gsched.demand.methods import Rows
from gsched.demand.series import DemandSeries, Floats
from gsched.model.times import DAY_S
from gsched.one_thread import one_thread

if TYPE_CHECKING:
    from sklearn.ensemble import HistGradientBoostingRegressor

KNOTS_S = (600, 1800, 3600, 7200, 10800, 14400, 18000, 25200, 36000, 57600, 86400)
"""Distances with a regression of their own, besides the furthest."""

LEAST_ROWS = 20
"""Moments with a known truth at a distance; with fewer nothing is learnt of it."""

RANDOM_STATE = 0


@dataclass(frozen=True, slots=True)
class Trees:
    """How the trees are grown; chosen on Philly's October and November 2017."""

    number: int = 60
    learning_rate: float = 0.05
    leaves: int = 8
    rows_a_leaf: int = 100
    share_of_features: float = 0.5


@dataclass(frozen=True, slots=True)
class BoostedChange:
    """`trust` is the weight of the trees against persistence, 0 to 1."""

    calendar: Calendar = field(default_factory=Calendar)
    trees: Trees = field(default_factory=Trees)
    trust: float = 0.7
    history_s: int = 180 * DAY_S
    least_history_s: int = 4 * DAY_S
    name: str = "boosted"

    def fit(self, history: DemandSeries, num_steps: int) -> _Fitted | None:
        """Learn from the last `history_s`; the same history gives the same trees.

        None where less than `least_history_s` is known, or less than `LEAST_ROWS` of a distance.
        """
        length = min(len(history), self.history_s // history.step_s)
        known = np.flatnonzero(~np.isnan(history.values[-length:])) + len(history) - length
        if len(known) * history.step_s < self.least_history_s:
            return None
        knots = _knots(num_steps, history.step_s)
        past = past_columns(history, known)
        models: list[HistGradientBoostingRegressor] = []
        for steps in knots:
            model = self._fit_one(history, known, past, steps)
            if model is None:
                return None
            models.append(model)
        return _Fitted(self, knots, models, num_steps)

    def _fit_one(
        self, history: DemandSeries, known: Rows, past: Floats, steps: int
    ) -> HistGradientBoostingRegressor | None:
        from sklearn.ensemble import HistGradientBoostingRegressor

        usable = known + steps < len(history)
        usable[usable] = ~np.isnan(history.values[known[usable] + steps])
        rows = known[usable]
        if len(rows) < LEAST_ROWS:
            return None
        dates = calendar_columns(history, rows, steps, self.calendar)
        table = np.column_stack([past[usable], dates])
        regressor = HistGradientBoostingRegressor(
            loss="absolute_error",
            max_iter=self.trees.number,
            learning_rate=self.trees.learning_rate,
            max_leaf_nodes=self.trees.leaves,
            min_samples_leaf=max(2, min(self.trees.rows_a_leaf, len(rows) // 20)),
            max_features=self.trees.share_of_features,
            early_stopping=False,
            random_state=RANDOM_STATE,
        )
        # a column of which nothing is known at all cannot be cut into bins
        table = np.where(np.isnan(table).all(axis=0), 0.0, table)
        with one_thread():
            regressor.fit(table, history.values[rows + steps] - history.values[rows])
        return regressor


@dataclass(frozen=True, slots=True)
class _Fitted:
    method: BoostedChange
    knots: Sequence[int]
    models: Sequence[HistGradientBoostingRegressor]
    num_steps: int

    def predict(self, series: DemandSeries, rows: Rows) -> Floats:
        """The latest value and the change; none while the latest value is not known."""
        now = series.values[rows]
        if not len(rows):
            return np.zeros((0, self.num_steps))
        past = past_columns(series, rows)
        changes = np.zeros((len(rows), len(self.knots) + 1))
        for column, (steps, model) in enumerate(zip(self.knots, self.models, strict=True), 1):
            dates = calendar_columns(series, rows, steps, self.method.calendar)
            with one_thread():
                changes[:, column] = model.predict(np.column_stack([past, dates]))
        ahead = np.arange(1, self.num_steps + 1)
        change = _between((0, *self.knots), changes, ahead)
        return np.maximum(now[:, None] + self.method.trust * change, 0.0)


def _knots(num_steps: int, step_s: int) -> list[int]:
    steps = {round(seconds / step_s) for seconds in KNOTS_S} | {num_steps}
    return sorted(each for each in steps if 1 <= each <= num_steps)


def _between(knots: Sequence[int], table: Floats, wanted: Rows) -> Floats:
    """Each row's values at the steps `wanted`, on straight lines between those at `knots`."""
    places = np.asarray(knots)
    right = np.clip(np.searchsorted(places, wanted), 1, len(places) - 1)
    share = (wanted - places[right - 1]) / (places[right] - places[right - 1])
    found: Floats = table[:, right - 1] * (1 - share) + table[:, right] * share
    return found
