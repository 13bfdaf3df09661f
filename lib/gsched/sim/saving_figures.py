"""What sleep saved on simulated jobs and what it cost them, in the days that count."""

from __future__ import annotations

from dataclasses import asdict, dataclass

import numpy as np
from numpy.typing import NDArray

from gsched.demand.energy import EnergyAssumptions, energy_saved
from gsched.model.times import DAY_S
from gsched.sim.job_saving import SavingRun
from gsched.sim.jobs import Floats


@dataclass(frozen=True, slots=True)
class SavingFigures:
    """Figures over `days` days.

    `jobs_started` got their nodes in these days, `jobs_delayed` of them had to wait until one had
    woken up; the sum of that in hours, the quantiles in seconds over the delayed jobs. The mean
    job completion time is over jobs submitted in these days; `jct_added_s` is by how much it
    exceeds that of the same jobs where no node sleeps, and `jobs_later` of them started later than
    there, be it because others had been delayed. Wake-ups count looks in which nodes woke, for a
    job or by the policy. Utilisation is of nodes, running over awake or waking, time for time.
    Energy is by assumption.
    """

    days: float
    nodes: int
    jobs_started: int
    jobs_delayed: int
    delay_hours: float
    delay_p50_s: float
    delay_p99_s: float
    delay_max_s: float
    jobs_submitted: int
    jct_mean_s: float
    jct_added_s: float
    jobs_later: int
    asleep_node_hours: float
    mean_asleep: float
    before_pct: float
    utilisation_pct: float
    wake_ups_a_day: float
    nodes_woken_a_day: float
    nodes_woken_by_jobs_a_day: float
    kwh: float

    def document(self) -> dict[str, float | int]:
        """With the names of the fields as keys."""
        return asdict(self)


def waking_delays_s(run: SavingRun) -> Floats:
    """For how long each job held its nodes before the last of them was awake; NaN: never started.

    The jobs are not preempted, so each held its nodes once.
    """
    held_from: Floats = np.full(len(run.result.jobs), np.nan)
    held_from[run.result.segments.job] = run.result.segments.start_s
    return np.asarray(run.result.start_s - held_from)


def figures(
    run: SavingRun,
    plain: SavingRun,
    since: int,
    until: int,
    assumptions: EnergyAssumptions | None = None,
) -> SavingFigures:
    """Those of [since, until), epoch seconds, against `plain`, in which no node sleeps."""
    result, looks = run.result, run.looks
    origin = result.jobs.origin
    delay_s = waking_delays_s(run)
    held_from = result.start_s - delay_s + origin
    started = (held_from >= since) & (held_from < until)
    delayed = delay_s[started & (delay_s > 0)]
    submit = result.jobs.submit_s + origin
    submitted = (submit >= since) & (submit < until)
    added = (result.end_s - plain.result.end_s)[submitted]
    rows = (looks.time >= since) & (looks.time < until)
    days = (until - since) / DAY_S
    look_h = int(looks.time[1] - looks.time[0]) / 3600
    running = int(looks.running[rows].sum())
    asleep = int((looks.asleep - looks.woken + looks.slept)[rows].sum())
    nodes = result.cluster.num_nodes
    woken, by_jobs = looks.woken[rows], looks.woken_by_jobs[rows]
    hours, number = asleep * look_h, int(woken.sum() + by_jobs.sum())
    return SavingFigures(
        days=days,
        nodes=nodes,
        jobs_started=int(started.sum()),
        jobs_delayed=len(delayed),
        delay_hours=float(delayed.sum() / 3600),
        delay_p50_s=_quantile(delayed, 0.5),
        delay_p99_s=_quantile(delayed, 0.99),
        delay_max_s=float(delayed.max(initial=0.0)),
        jobs_submitted=int(submitted.sum()),
        jct_mean_s=float((result.end_s - result.jobs.submit_s)[submitted].mean()),
        jct_added_s=float(added.mean()),
        jobs_later=int((added > 0).sum()),
        asleep_node_hours=hours,
        mean_asleep=asleep / int(rows.sum()),
        before_pct=100 * running / (nodes * int(rows.sum())),
        utilisation_pct=100 * running / (nodes * int(rows.sum()) - asleep),
        wake_ups_a_day=float((woken + by_jobs).any(axis=1).sum() / days),
        nodes_woken_a_day=number / days,
        nodes_woken_by_jobs_a_day=float(by_jobs.sum() / days),
        kwh=energy_saved(hours, number, assumptions or EnergyAssumptions()).kwh,
    )


def _quantile(values: NDArray[np.float64], share: float) -> float:
    """0 where there are no values."""
    return float(np.quantile(values, share)) if len(values) else 0.0
