"""Philly's nodes and Helios Earth's GPUs over time, and what sleeps when, for the CES bench."""

from __future__ import annotations

import gzip
import hashlib
import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from gsched.demand.boosted import BoostedChange, Trees
from gsched.demand.calendar import Calendar
from gsched.demand.forecaster import DemandForecaster, ForecastOptions, Outlook
from gsched.demand.methods import Method
from gsched.demand.node_series import NodeSeries, read_node_series
from gsched.demand.scores import smape_terms
from gsched.demand.series import DemandSeries
from gsched.demand.walk import Walk, WalkOptions, walk_forward
from gsched.model.decision import Reason
from gsched.model.demand_forecast import DemandForecast, constant_forecast, known_forecast
from gsched.model.times import DAY_S
from gsched.policy.ces import Ces
from gsched.policy.ces_state import CesSettings
from gsched.resampling import BlockMeans, draw, expanded_tail, interval, once
from gsched.sim.node_series import SeriesResult, SeriesRules, run_series
from support.shared import SHARED

PHILLY = SHARED / "traces" / "helios_ces" / "philly_node_sequence.csv.gz"
EARTH = SHARED / "traces" / "helios_earth"
STEP_S = 600
STEPS = 36  # six hours: twice the window of the paper
DISTANCES_S = (3600, 3 * 3600, 5 * 3600)

REACTIVE = CesSettings(needs_forecast=False, hold_s=0, max_sleep=0, min_idle_s=0)
PAPER_RULE = CesSettings(xi_h=0, xi_p=0, max_rise=0, min_idle_s=0, max_sleep=0)
PUBLISHED_RULE = CesSettings(
    past_window_s=1200, future_window_s=18000, xi_h=0.1, xi_p=0, max_rise=0, hold_s=6000,
    min_idle_s=0, max_sleep=0,
)  # fmt: skip
"""The parameters of the published code for Philly, σ 20 besides."""


def moment(text: str) -> int:
    """Epoch seconds of an ISO date or time; the traces name no zone."""
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp())


def digest(files: Iterable[Path]) -> str:
    """Of the bytes of all files."""
    found = hashlib.sha256()
    for file in files:
        found.update(file.read_bytes())
    return found.hexdigest()


@dataclass(frozen=True, eq=False)
class World:
    """A node series up to a moment, and the demand in the policy's steps."""

    busy: DemandSeries
    total: DemandSeries
    known: DemandSeries

    def run(
        self,
        outlooks: Mapping[int, Outlook],
        settings: CesSettings,
        rules: SeriesRules,
    ) -> SeriesResult:
        """One policy over it; in the published accounting over steps of ten minutes."""
        busy, total = self.busy, self.total
        if rules.is_instant:
            busy, total = self.known, total.coarser(STEP_S)
        return run_series(busy, total, self.known, outlooks, Ces(settings), rules)


def philly(until: str) -> World:
    """Philly's nodes by the minute, as if they ended then."""
    with gzip.open(PHILLY) as stream:
        series = read_node_series(stream)
    end = moment(until)
    busy = series.busy.known_at(end)
    return World(busy, series.total.known_at(end), busy.coarser(STEP_S))


def earth() -> DemandSeries:
    """GPUs in use on Helios Earth by ten minutes: the sum over its virtual clusters."""
    clusters: list[NodeSeries] = []
    for file in sorted(EARTH.glob("vc*.csv.gz")):
        with gzip.open(file) as stream:
            clusters.append(
                read_node_series(stream, busy="running_gpu_num", total="total_gpu_num", unit="GPUs")
            )
    first = clusters[0].busy
    if any((each.busy.start, len(each.busy)) != (first.start, len(first)) for each in clusters):
        raise ValueError("the virtual clusters' files tell of different times")
    summed = np.sum([each.busy.values for each in clusters], axis=0)
    return replace(first, values=summed).coarser(STEP_S)


def method_settings(country: str) -> dict[str, object]:
    """The parameters of the method in use."""
    told = asdict(BoostedChange(trees=Trees()))
    return {**told, "calendar": {"zone": "as the trace has it", "country": country}}


def forecaster(known: DemandSeries, since: str, country: str) -> DemandForecaster:
    """The forecast in use from `since` on."""
    made = DemandForecaster(
        BoostedChange(Calendar(country=country)),
        WalkOptions(STEPS),
        known.row_before(moment(since)),
        ForecastOptions(),
    )
    made.observe(known)
    return made


def other_walks(known: DemandSeries, since: str, methods: Iterable[Method]) -> dict[str, Walk]:
    """Walks of further methods over the same steps."""
    row = known.row_before(moment(since))
    return {m.name: walk_forward(known, m, WalkOptions(STEPS), row) for m in methods}


def against_persistence(
    made: DemandForecaster, known: DemandSeries, since: str, until: str
) -> list[dict[str, float | int | None]]:
    """By how much SMAPE is below that of persistence, with an interval over whole days.

    Where nothing was wanted is left out, as `smape_nonzero_pct` does: by the same pairs for both.
    """
    rows = np.arange(known.row_before(moment(since) + STEP_S), known.row_before(moment(until)) + 1)
    truth, told = np.where(known.values[rows] > 0, known.values[rows], np.nan), []
    day = (rows - rows[0]) * STEP_S // DAY_S
    num_days = int(day[-1]) + 1
    for ahead_s in DISTANCES_S:
        own, last = (
            smape_terms(walk.told_of(rows, ahead_s // STEP_S), truth)
            for walk in (made.walk, made.walks["last-value"])
        )
        means = BlockMeans(last - own, day, num_days)
        drawn = means.at(draw(np.random.default_rng(0), num_days))
        low, high = interval(drawn, expanded_tail(num_days))
        gain = float(means.at(once(num_days))[0])
        told.append({"ahead_s": ahead_s, "days": num_days, "gain": gain, "low": low, "high": high})
    return told


def own_outlooks(made: DemandForecaster, known: DemandSeries) -> dict[int, Outlook]:
    """What the forecaster says at the end of each step, by that moment."""
    rows = range(made.walk.first_row, len(known))
    return {known.start + STEP_S * (row + 1): made.outlook(row) for row in rows}


def simple_outlooks(known: DemandSeries, kind: str, steps: int = STEPS) -> dict[int, Outlook]:
    """``oracle``: the truth; ``persistence``: it stays. Where the latest value is known."""
    values, filled = known.values, known.filled()
    found = {}
    for row in range(len(values)):
        ended = known.start + STEP_S * (row + 1)
        if math.isnan(values[row]):
            continue
        forecast: DemandForecast | None = constant_forecast(filled[row], ended, STEP_S, steps, kind)
        if kind == "oracle":
            ahead = filled[row + 1 : row + 1 + steps].tolist()
            forecast = known_forecast(ahead, ended, STEP_S, kind) if len(ahead) == steps else None
        found[ended] = Outlook(forecast, Reason(f"bench.{kind}"))
    return found


def bounds_kept(
    outlooks: Mapping[int, Outlook], known: DemandSeries, since: float
) -> dict[str, Any]:
    """How often the truth lay within the bounds from `since` on, by distance."""
    told = {}
    for ahead_s in DISTANCES_S:
        steps, inside, below = ahead_s // known.step_s, [], []
        for when, each in outlooks.items():
            row = known.row_before(when)
            came = known.values[row + 1 : row + 1 + steps]
            if each.forecast is None or when < since or len(came) < steps:
                continue
            low, high = each.forecast.low[steps - 1], each.forecast.high[steps - 1]
            inside.append(bool(low <= came[-1] <= high))
            below.append(bool(came.max() <= each.forecast.peak[steps - 1]))
        told[f"{ahead_s}"] = {
            "forecasts": len(inside),
            "nominal": 0.9,
            "within_bounds": sum(inside) / len(inside) if inside else None,
            "peak_below_bound": sum(below) / len(below) if below else None,
        }
    return told


def with_sigma(settings: CesSettings, sigma: int) -> CesSettings:
    """The same with σ nodes of spare, asleep and at a wake-up alike."""
    return replace(settings, sigma=sigma, wake_sigma=sigma)


def timeout(idle_s: int, spare: int = 0) -> CesSettings:
    """Slurm's SuspendTime: nodes sleep after `idle_s` of idleness, but for `spare` idle ones."""
    return replace(with_sigma(REACTIVE, spare), min_idle_s=idle_s, period_s=60)
