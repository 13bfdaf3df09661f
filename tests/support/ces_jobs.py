"""Philly's and ITP's jobs on nodes that sleep, for the CES bench by jobs: what is run, and on what.

Neither trace tells its nodes. Each cluster has nodes of 8 GPUs, so few that under first come, first
served no more than WAITING of the inner split's jobs wait for GPUs. All of a cluster is one pool.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from gsched.app.evaluation.inputs import read_past_jobs, submit_order
from gsched.app.trace_formats import TraceOptions
from gsched.demand.boosted import BoostedChange
from gsched.demand.calendar import Calendar
from gsched.demand.forecaster import DemandForecaster, ForecastOptions, Outlook
from gsched.demand.series import DemandSeries
from gsched.demand.walk import WalkOptions
from gsched.model.demand_forecast import DemandForecast
from gsched.model.times import DAY_S
from gsched.policy.ces_state import CesSettings
from gsched.policy.fifo import Fifo
from gsched.sim.cluster import SimCluster
from gsched.sim.job_saving import Saver, SavingRules, SavingRun, run_saving
from gsched.sim.jobs import SimJobs
from gsched.sim.run import simulate
from gsched.sim.saving_figures import SavingFigures, figures
from support.ces_series import STEP_S, STEPS, moment, own_outlooks, simple_outlooks
from support.shared import SHARED
from support.sim_jobs import sim_jobs

TRACES = SHARED / "traces"
GPUS_A_NODE = 8
WAITING = 0.05
POOL = "all"
WARM_UP_S = DAY_S
WAKE_S = 300

Outlooks = Mapping[int, Outlook]


@dataclass(frozen=True, slots=True)
class Days:
    """From when until when figures count, epoch seconds."""

    since: int
    until: int


@dataclass(frozen=True, slots=True)
class Trace:
    """One cluster's jobs: where from, and which days choose and judge."""

    name: str
    kind: str
    file: Path
    first_forecast: int
    inner: Days
    judged: Days
    country: str


PHILLY = Trace(
    name="philly",
    kind="philly",
    file=TRACES / "philly" / "philly.csv.gz",
    first_forecast=moment("2017-10-08"),
    inner=Days(moment("2017-11-01"), moment("2017-12-01")),
    judged=Days(moment("2017-12-01"), moment("2017-12-15")),
    country="US",
)
ITP = tuple(
    Trace(
        name=f"itp-{number}",
        kind="itp",
        file=TRACES / "itp" / f"cluster{number}.csv.gz",
        first_forecast=16 * DAY_S,
        inner=Days(21 * DAY_S, 42 * DAY_S),
        judged=Days(42 * DAY_S, 56 * DAY_S),
        country="",
    )
    for number in ("03", "04", "07")
)
"""The three of the ten clusters whose jobs need more than 50 nodes. Times are seconds from the
beginning of the trace, whose weekday nobody tells: of the calendar only periods mean anything."""


def refilled(idle_s: int, spare: int) -> CesSettings:
    """A timeout that keeps `spare` idle nodes, and wakes as many beyond those that jobs wake: CES
    without a forecast, a hold or a cap.
    """
    return CesSettings(
        sigma=spare, wake_sigma=spare, needs_forecast=False, hold_s=0, max_sleep=0,
        min_idle_s=idle_s, period_s=60,
    )  # fmt: skip


class World:
    """One trace on its cluster, and the same without sleep."""

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        self.jobs = _jobs(trace)
        self.cluster = _cluster(self.jobs, trace)
        self.plain = self._run(trace.inner.since, trace.judged.until + 2 * DAY_S, None, {})
        self.busy = self.plain.busy(0, STEP_S)
        self.made = self.forecaster()
        self.made_of = self.busy.known_at(trace.judged.until)
        self._own: Outlooks = {}

    def nodes(self, share: float) -> int:
        """That share of all nodes, rounded up."""
        return math.ceil(share * self.cluster.num_nodes - 1e-9)

    def _run(self, since: int, until: int, saver: Saver, told: Outlooks) -> SavingRun:
        rules = SavingRules(since, until, wake_s=WAKE_S, step_s=STEP_S)
        return run_saving(self.jobs, self.cluster, Fifo(), saver, {POOL: told}, rules)

    def run(self, days: Days, saver: Saver, told: Outlooks) -> SavingRun:
        """Nodes may sleep from a day before on."""
        return self._run(days.since - WARM_UP_S, days.until, saver, told)

    def measure(self, days: Days, saver: Saver, told: Outlooks | None = None) -> SavingFigures:
        """The figures of such a run."""
        return figures(self.run(days, saver, told or {}), self.plain, days.since, days.until)

    def plain_figures(self, days: Days) -> SavingFigures:
        """Of no sleep."""
        return figures(self.plain, self.plain, days.since, days.until)

    def forecaster(self, busy: DemandSeries | None = None) -> DemandForecaster:
        """The forecast in use, walking forward through `busy` (the demand without sleep)."""
        known = self.busy if busy is None else busy
        made = DemandForecaster(
            BoostedChange(Calendar(country=self.trace.country)),
            WalkOptions(STEPS),
            known.row_before(self.trace.first_forecast),
            ForecastOptions(),
        )
        made.observe(known.known_at(self.trace.judged.until))
        return made

    def outlooks(self, kind: str) -> Outlooks:
        """``causal``, ``oracle``, ``persistence``, ``shuffled`` or ``shuffled-change``."""
        if kind in {"oracle", "persistence"}:
            return simple_outlooks(self.busy, kind)
        if not self._own:
            self._own = own_outlooks(self.made, self.made_of)
        if kind == "causal":
            return self._own
        return shuffled(self._own, self.busy, keeps_level=kind == "shuffled-change")

    def outlooks_of(self, run: SavingRun) -> Outlooks:
        """The causal ones of the demand in a run with sleep, as all of it had been seen there."""
        seen, values = run.busy(0, STEP_S), self.busy.values.copy()
        first = (seen.start - self.busy.start) // STEP_S + 1
        values[first : first + len(seen) - 1] = seen.values[1:]
        busy = replace(self.busy, values=values)
        made = self.forecaster(busy)
        return own_outlooks(made, busy.known_at(self.trace.judged.until))


def shuffled(told: Outlooks, busy: DemandSeries, keeps_level: bool, seed: int = 0) -> Outlooks:
    """Each moment gets the outlook of another one, drawn from all.

    With `keeps_level` it gets that one's change against the demand that was known then, on top of
    its own: what is forecast is as likely as before, but at another time.
    """
    moments = sorted(told)
    drawn = np.random.default_rng(seed).permutation(len(moments))
    values = busy.filled()

    def level(at: int) -> float:
        return float(values[busy.row_before(at)])

    found = {}
    for at, number in zip(moments, drawn.tolist(), strict=True):
        other = moments[number]
        outlook = told[other]
        if outlook.forecast is None:
            found[at] = outlook
            continue
        shift = level(at) - level(other) if keeps_level else 0.0
        found[at] = replace(outlook, forecast=_moved(outlook.forecast, at, shift))
    return found


def _moved(forecast: DemandForecast, at: int, shift: float) -> DemandForecast:
    columns = {
        name: tuple(max(value + shift, 0.0) for value in getattr(forecast, name))
        for name in ("mean", "low", "high", "peak")
    }
    return replace(forecast, made_at=at, **columns)


def _jobs(trace: Trace) -> SimJobs:
    options = TraceOptions(trace.kind, trace.name)
    past = [job for job in read_past_jobs([str(trace.file)], options).jobs if job.duration_s > 0]
    past.sort(key=submit_order)
    origin = past[0].submit_time
    return sim_jobs(
        [job.submit_time - origin for job in past],
        [job.duration_s for job in past],
        origin=origin,
        num_gpus=[job.num_gpus for job in past],
    )


def _cluster(jobs: SimJobs, trace: Trace) -> SimCluster:
    """The fewest nodes that keep the share of waiting jobs of the inner split within WAITING."""
    submit = jobs.submit_s + jobs.origin
    inner = (submit >= trace.inner.since) & (submit < trace.inner.until)
    few = -(-int(jobs.num_gpus.max()) // GPUS_A_NODE)
    many = -(-int(jobs.num_gpus.sum()) // GPUS_A_NODE)
    while few < many:
        nodes = (few + many) // 2
        cluster = SimCluster.uniform({POOL: nodes}, GPUS_A_NODE)
        waits = simulate(jobs, cluster, Fifo()).start_s > jobs.submit_s
        few, many = (few, nodes) if waits[inner].mean() <= WAITING else (nodes + 1, many)
    return SimCluster.uniform({POOL: few}, GPUS_A_NODE)
