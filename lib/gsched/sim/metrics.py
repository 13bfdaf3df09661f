"""What a simulation is judged by.

What JCT, queueing and the others are, `gsched.sim.job_figures` says. Queueing is of jobs that have
started, all else of jobs that have ended; each figure tells of how many.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gsched.policy.registry import SiteFacts
from gsched.sim import classes
from gsched.sim.classes import Classes
from gsched.sim.curves import Curves, curves
from gsched.sim.daily import DailyMetrics
from gsched.sim.deadlines import Deadlines, deadlines
from gsched.sim.job_figures import JobFigures
from gsched.sim.jobs import Floats, SimJobs
from gsched.sim.long_term import unfair_share
from gsched.sim.occupancy import Occupancy, occupancies
from gsched.sim.result import SimResult
from gsched.sim.spread import SortedColumn, Spread

_HOUR_S = 3600.0
_SPREAD = ("jct_s", "queueing_s", "waiting_s", "bounded_slowdown", "finish_time_ratio")


@dataclass(frozen=True, slots=True)
class ClassMetrics:
    """The figures of one class of jobs, or of all."""

    name: str
    jobs: int
    started: int
    finished: int
    gpu_hours: float
    """Held, costs and lost work included."""
    lost_gpu_hours: float
    """Of these without progress: costs, work lost in failures, a slower GPU or a partner."""
    jct_s: Spread
    queueing_s: Spread
    waiting_s: Spread
    bounded_slowdown: Spread
    finish_time_ratio: Spread
    unfair_share: float | None
    """Of the ended jobs, how many would have been better off on an own share."""
    sharing_loss_share: float | None
    """Of the ended jobs, how many received less than LOSS_BELOW of their entitlement."""
    preemptions: int
    preempted_jobs: int
    failures: int

    def document(self) -> dict[str, Any]:
        """Stable keys; null where there is nothing to tell."""
        return {
            name: value.document() if isinstance(value, Spread) else value
            for name in self.__slots__
            for value in [getattr(self, name)]
        }


@dataclass(frozen=True, eq=False)
class Metrics:
    """All figures of one simulation, and those of its jobs one by one for `paired`."""

    policy: str
    path: str
    seed: int
    interrupted: bool
    origin: int
    """Epoch seconds, from which curves count; so are the next two."""
    first_submit: float
    last_submit: float
    offered_load: float | None
    """GPU-seconds that the jobs need, over those of the cluster between these two moments."""
    num_gpus: int
    all_jobs: ClassMetrics
    by_size: Sequence[ClassMetrics]
    by_duration: Sequence[ClassMetrics]
    by_tenant: Sequence[ClassMetrics]
    by_pool: Sequence[ClassMetrics]
    tenant_shares: dict[str, float]
    """By tenant: GPU time received over entitled."""
    unfair_intervals: dict[str, float | None]
    """``tenant_hours``, ``tenant_days``: of those with demand, which part was unfair."""
    most_tenants: int
    """That one pool has jobs of; those without a tenant count as one."""
    makespan_s: float | None
    """From the first submission to the last end; None where the simulation was interrupted."""
    whole: Occupancy
    submitting: Occupancy
    deadlines: Deadlines
    energy_kwh: float
    wakes: int
    daily: DailyMetrics
    curves: Curves
    jobs: SimJobs
    figures: JobFigures

    def document(self) -> dict[str, Any]:
        """Stable keys, times in seconds; null where there is nothing to tell."""
        told = self.all_jobs.document()
        del told["name"]
        return {
            "policy": self.policy,
            "path": self.path,
            "seed": self.seed,
            "interrupted": self.interrupted,
            "first_submit": self.first_submit,
            "last_submit": self.last_submit,
            "offered_load": self.offered_load,
            **told,
            "makespan_s": self.makespan_s,
            "gpus": {
                "number": self.num_gpus,
                "whole": self.whole.document(),
                "submitting": self.submitting.document(),
            },
            "deadlines": self.deadlines.document(),
            "energy_kwh": self.energy_kwh,
            "wakes": self.wakes,
            "by_size": [found.document() for found in self.by_size],
            "by_duration": [found.document() for found in self.by_duration],
            "by_tenant": [
                {**found.document(), "share_received": self.tenant_shares.get(found.name)}
                for found in self.by_tenant
            ],
            "by_pool": [found.document() for found in self.by_pool],
            "over_time": {name: c.tolist() for name, c in self.curves.over_time.items()},
            "unfair_intervals": self.unfair_intervals,
        }


def summarise(result: SimResult, site: SiteFacts | None = None) -> Metrics:
    """The figures of a result, complete or interrupted; ValueError where it has no jobs.

    Shares of GPU time are judged by quotas and the worth of GPUs of the `site` (``quotas``).
    """
    jobs = result.jobs
    if not len(jobs):
        raise ValueError("a simulation without jobs has no figures")
    figures = JobFigures.of(result, site)
    columns = {name: SortedColumn(getattr(figures, name)) for name in _SPREAD}
    table = _Table(result, figures, columns)
    tenants = classes.by_tenant(jobs)
    whole, submitting = occupancies(result)
    return Metrics(
        policy=result.policy,
        path=result.path,
        seed=result.rules.seed,
        interrupted=result.interrupted,
        origin=jobs.origin,
        first_submit=float(jobs.origin + jobs.submit_s[0]),
        last_submit=float(jobs.origin + jobs.submit_s[-1]),
        offered_load=_offered_load(result),
        num_gpus=result.cluster.num_gpus,
        all_jobs=table.by(classes.everything(jobs))[0],
        by_size=table.by(classes.by_size(jobs)),
        by_duration=table.by(classes.by_duration(jobs)),
        by_tenant=table.by(tenants),
        by_pool=table.by(classes.by_pool(jobs, result.cluster)),
        tenant_shares={
            name: float(share)
            for name, share in zip(tenants.names, figures.tenant_share, strict=True)
            if not np.isnan(share)
        },
        unfair_intervals={
            "tenant_hours": unfair_share(result, site, _HOUR_S),
            "tenant_days": unfair_share(result, site, 24 * _HOUR_S),
        },
        most_tenants=_most_tenants(jobs),
        makespan_s=_makespan_s(result),
        whole=whole,
        submitting=submitting,
        deadlines=deadlines(jobs, figures.missed_deadline, result.answers),
        energy_kwh=result.energy_wh / 1000,
        wakes=result.wakes,
        daily=DailyMetrics(jobs, figures),
        curves=curves(result.samples, columns),
        jobs=jobs,
        figures=figures,
    )


class _Table:
    """Figures of the jobs, to be told by several kinds of classes."""

    def __init__(
        self, result: SimResult, figures: JobFigures, columns: Mapping[str, SortedColumn]
    ) -> None:
        self._result = result
        self._figures = figures
        self._columns = columns
        gpu_hours = result.jobs.num_gpus / _HOUR_S
        self._gpu_hours = np.nan_to_num(result.run_s) * gpu_hours
        self._lost_gpu_hours = np.nan_to_num(result.lost_s) * gpu_hours

    def by(self, kinds: Classes) -> list[ClassMetrics]:
        """The classes that have jobs, in the order of their names."""
        counts = {name: self._sums(kinds, each) for name, each in self._counted().items()}
        hours = self._sums(kinds, self._gpu_hours)
        lost = self._sums(kinds, self._lost_gpu_hours)
        spreads = {name: column.spreads(kinds) for name, column in self._columns.items()}
        return [
            self._one(
                name,
                {key: int(sums[code]) for key, sums in counts.items()},
                (float(hours[code]), float(lost[code])),
                {key: told[code] for key, told in spreads.items()},
            )
            for code, name in enumerate(kinds.names)
            if counts["jobs"][code]
        ]

    @staticmethod
    def _one(
        name: str,
        number: dict[str, int],
        hours: tuple[float, float],
        spreads: dict[str, Spread],
    ) -> ClassMetrics:
        ended = number["finished"]
        return ClassMetrics(
            name=name,
            jobs=number["jobs"],
            started=number["started"],
            finished=ended,
            gpu_hours=hours[0],
            lost_gpu_hours=hours[1],
            unfair_share=number["unfair"] / ended if ended else None,
            sharing_loss_share=number["in_loss"] / ended if ended else None,
            preemptions=number["preemptions"],
            preempted_jobs=number["preempted_jobs"],
            failures=number["failures"],
            **spreads,
        )

    def _counted(self) -> dict[str, Floats]:
        result = self._result
        columns = {
            "jobs": np.ones(len(result.jobs)),
            "started": ~np.isnan(result.start_s),
            "finished": result.finished,
            "unfair": self._figures.is_unfair,
            "in_loss": self._figures.has_loss,
            "preemptions": result.preemptions,
            "preempted_jobs": result.preemptions > 0,
            "failures": result.failures,
        }
        return {name: column.astype(np.float64) for name, column in columns.items()}

    @staticmethod
    def _sums(kinds: Classes, column: Floats) -> Floats:
        return np.bincount(kinds.code, column, len(kinds.names)).astype(np.float64)


def _most_tenants(jobs: SimJobs) -> int:
    pairs = np.unique(np.stack((jobs.pool, jobs.tenant)), axis=1)
    return int(np.bincount(pairs[0]).max())


def _makespan_s(result: SimResult) -> float | None:
    if result.interrupted or not result.finished.any():
        return None
    return float(np.nanmax(result.end_s) - result.jobs.submit_s[0])


def _offered_load(result: SimResult) -> float | None:
    jobs = result.jobs
    length_s = float(jobs.submit_s[-1] - jobs.submit_s[0])
    if not length_s:
        return None
    return float(np.sum(jobs.duration_s * jobs.num_gpus)) / (length_s * result.cluster.num_gpus)
