"""One pool's series and its forecaster, kept up step by step."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from gsched.app.ces.messages import STEP_S, SeriesOptions, ToldPool, told_pool
from gsched.app.ces.zone import zone_of
from gsched.demand.boosted import BoostedChange
from gsched.demand.calendar import Calendar
from gsched.demand.forecaster import NO_METHOD, DemandForecaster, Outlook
from gsched.demand.series import DemandSeries, Floats
from gsched.demand.walk import WalkOptions
from gsched.model.decision import Reason
from gsched.model.times import DAY_S

WALKED_S = 22 * DAY_S
"""So far back forecasts are made after the fact, whose errors give the bounds: those of the last
21 days count."""
MOST_WALKED_S = 82 * DAY_S
"""After so long all is made anew, from a younger history: what is kept would grow for ever."""
REBUILT_S = 6 * 3600
"""A pool that gains or loses nodes is made anew, but not more often than this."""

UNNAMED = "demand.nodes-not-named"
_MOST_UNNAMED = 0.5
"""Beyond this share of steps it is told as the reason why too little is known."""

_CHUNK = DAY_S // STEP_S


def method_of(options: SeriesOptions) -> BoostedChange:
    """The method in use. Raises ConfigError for a zone or a country that is not known."""
    calendar = Calendar(zone_of(options.zone), options.country, options.subdivision)
    return BoostedChange(calendar, history_s=options.history_days * DAY_S)


@dataclass(frozen=True, slots=True)
class Origin:
    """What a pool was made of: when (epoch), from which nodes, and how much of it is not known.

    `unnamed` is the share of steps in which jobs ran whose nodes are not known.
    """

    made_at: int
    nodes: frozenset[str]
    unnamed: float


class KeptPool:
    """Its forecasts are those that were made when a step had ended, never made again."""

    def __init__(self, name: str, origin: Origin, series: DemandSeries, method: BoostedChange,
                 options: SeriesOptions) -> None:  # fmt: skip
        """`series` is what the history knows up to the last step that has ended."""
        self.name = name
        self.origin = origin
        self._start = series.start
        self._values = series.values
        self._method = method
        self._options = options
        self._forecaster: DemandForecaster | None = None
        self._begin()

    @property
    def end(self) -> int:
        """The end of the last step (epoch)."""
        return self._start + STEP_S * len(self._values)

    @property
    def steps_left(self) -> int:
        """Steps for which the forecast has still to be made."""
        return 0 if self._forecaster is None else len(self._values) - self._forecaster.walk.next_row

    def must_be_renewed(self, nodes: frozenset[str], now: int) -> bool:
        """Whether it is about other nodes by now, or has become too long, or the clock jumped."""
        if self._forecaster is not None:
            walked_s = STEP_S * (len(self._values) - self._forecaster.walk.first_row)
            if walked_s > MOST_WALKED_S:
                return True
        if self.end - now > DAY_S:  # what it has was from a clock that went wrong
            return True
        return nodes != self.origin.nodes and now - self.origin.made_at >= REBUILT_S

    def extend(self, until: int, seen: Mapping[int, int], others: DemandSeries | None) -> None:
        """Take in the steps that have ended by `until`: peaks that were `seen`, by their start,
        else what `others` say, else nothing.
        """
        starts = range(self.end, until, STEP_S)
        news = [float(seen[at]) if at in seen else _value(others, at) for at in starts]
        self._values = np.concatenate([self._values, np.array(news, dtype=np.float64)])
        if self._forecaster is None:
            self._begin()

    def unseen(self, until: int, seen: Mapping[int, int]) -> int | None:
        """The first step up to `until` that nobody has seen; None where all were."""
        return next((at for at in range(self.end, until, STEP_S) if at not in seen), None)

    def advance(self) -> None:
        """Make the forecasts of at most a day of steps, with one fit or two."""
        if self._forecaster is not None:
            count = min(len(self._values), self._forecaster.walk.next_row + _CHUNK)
            self._forecaster.observe(self._series().first(count))

    def told(self) -> ToldPool:
        """What is known now. Only once no steps are left."""
        outlook = self._too_short() if self._forecaster is None else self._forecaster.latest()
        return told_pool(self.name, self.end, self._past(), outlook.forecast, outlook.reason)

    def _series(self) -> DemandSeries:
        return DemandSeries(self._start, STEP_S, self._values)

    def _begin(self) -> None:
        """Walk as soon as the method can learn from what lies before."""
        least = self._method.least_history_s // STEP_S
        known = np.cumsum(~np.isnan(self._values))
        first = int(np.searchsorted(known, least))  # the row at which so many are known
        if first < len(self._values):
            first = max(first, len(self._values) - WALKED_S // STEP_S)
            walk = WalkOptions(self._options.steps_ahead)
            self._forecaster = DemandForecaster(self._method, walk, first)

    def _too_short(self) -> Outlook:
        known_s = STEP_S * int(np.sum(~np.isnan(self._values)))
        if self.origin.unnamed > _MOST_UNNAMED:
            share = round(self.origin.unnamed, 3)
            return Outlook(None, Reason(UNNAMED, {"share": share, "known_s": known_s}))
        needed_s = self._method.least_history_s
        return Outlook(None, Reason(NO_METHOD, {"known_s": known_s, "needed_s": needed_s}))

    def _past(self) -> tuple[float, ...]:
        """The newest steps, a gap as the step before it; those after the last gap without one."""
        newest: Floats = self._series().filled()[-self._options.past_steps :]
        return tuple(newest[~np.isnan(newest)].tolist())


def _value(series: DemandSeries | None, at: int) -> float:
    row = -1 if series is None else (at - series.start) // STEP_S
    if series is None or not 0 <= row < len(series):
        return float("nan")
    return float(series.values[row])
