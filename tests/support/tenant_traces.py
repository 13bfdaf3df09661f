"""Philly and ITP as one cluster each that their virtual clusters share as tenants, with quotas.

Everything is fixed by a rule that looks at the past of the judged window alone, but for the number
of nodes: that follows from the load that is asked for. The judged window is the fortnight after the
first six weeks of the trace; one week before it is simulated as well, so that it does not begin
with an empty cluster. A tenant's quota is its part of the GPU-time that the jobs of the four weeks
before the window asked for, and no less than 1 % of the GPUs.
"""

from __future__ import annotations

import csv
import gzip
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from pathlib import Path

import numpy as np

from gsched.sim.cluster import SimCluster
from gsched.sim.jobs import Floats, SimJobs
from support.shared import SHARED
from support.sim_jobs import sim_jobs

DAY_S = 86400.0
SKIPPED_S, JUDGED_S, LEAD_IN_S, PAST_S = 42 * DAY_S, 14 * DAY_S, 7 * DAY_S, 28 * DAY_S
LEAST_QUOTA = 0.01
GPUS_A_NODE = 8


@dataclass(frozen=True, eq=False)
class Whole:
    """All jobs of a trace, by submission."""

    submit_s: Floats
    duration_s: Floats
    num_gpus: np.ndarray
    tenant: np.ndarray
    tenants: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class Case:
    """What is simulated, and what of it is judged. `quotas` are parts of the GPUs, by tenant."""

    jobs: SimJobs
    cluster: SimCluster
    quotas: Floats
    begin_s: float
    end_s: float
    left_out: int
    """Jobs wider than the cluster."""
    load: float
    """GPU-seconds of the jobs of the window over those of the GPUs."""

    @property
    def judged(self) -> np.ndarray:
        """Jobs that were submitted in the window."""
        return (self.jobs.submit_s >= self.begin_s) & (self.jobs.submit_s < self.end_s)

    @property
    def quota_by_name(self) -> dict[str, float]:
        """For a policy that takes quotas."""
        return dict(zip(self.jobs.tenants, self.quotas.tolist(), strict=True))


@cache
def philly() -> Whole:
    """The jobs of all virtual clusters."""
    rows = list(_rows(SHARED / "traces" / "philly" / "philly.csv.gz"))
    submit = [datetime.fromisoformat(r["timestamp"]).replace(tzinfo=UTC).timestamp() for r in rows]
    return _whole(submit, rows, "num_gpus", [row["cluster"] for row in rows])


@cache
def itp() -> Whole:
    """The jobs of ten clusters, which become tenants of one."""
    rows, names = [], []
    for path in sorted((SHARED / "traces" / "itp").glob("cluster*.csv.gz")):
        mine = list(_rows(path))
        rows += mine
        names += [path.name.removesuffix(".csv.gz")] * len(mine)
    return _whole([float(row["submission_time"]) for row in rows], rows, "num_gpu", names)


def case(trace: Whole, load: float, skipped_s: float = SKIPPED_S) -> Case:
    """The fortnight after `skipped_s` and its lead-in, on as many nodes as give this load."""
    begin_s = float(trace.submit_s[0]) + skipped_s
    end_s = begin_s + JUDGED_S
    work = trace.duration_s * trace.num_gpus
    in_window = (trace.submit_s >= begin_s) & (trace.submit_s < end_s)
    nodes = round(float(work[in_window].sum()) / (load * JUDGED_S * GPUS_A_NODE))
    past = (trace.submit_s >= begin_s - PAST_S) & (trace.submit_s < begin_s)
    asked = np.bincount(trace.tenant[past], work[past], len(trace.tenants))
    quotas = np.maximum(asked / asked.sum(), LEAST_QUOTA)
    taken = (trace.submit_s >= begin_s - LEAD_IN_S) & (trace.submit_s < end_s)
    fits = trace.num_gpus <= nodes * GPUS_A_NODE
    rows = np.flatnonzero(taken & fits)
    start = np.floor(trace.submit_s[rows[0]])
    jobs = sim_jobs(
        trace.submit_s[rows] - start,
        trace.duration_s[rows],
        num_gpus=trace.num_gpus[rows],
        tenant=trace.tenant[rows],
    )
    jobs = _named(jobs, trace.tenants)
    judged_s = float(work[in_window & fits].sum())
    return Case(
        jobs,
        SimCluster.uniform({"all": nodes}, GPUS_A_NODE),
        quotas / quotas.sum(),
        begin_s - start,
        end_s - start,
        int((taken & ~fits).sum()),
        judged_s / (nodes * GPUS_A_NODE * JUDGED_S),
    )


def _named(jobs: SimJobs, tenants: tuple[str, ...]) -> SimJobs:
    columns = {name: getattr(jobs, name) for name in jobs.__dataclass_fields__}
    return SimJobs(**{**columns, "tenants": tenants})


def _whole(submit: list[float], rows: list[dict[str, str]], gpus: str, names: list[str]) -> Whole:
    tenants = tuple(sorted(set(names)))
    duration = np.array([float(row["duration"]) for row in rows])
    kept = np.flatnonzero(duration > 0)
    order = kept[np.argsort(np.array(submit)[kept], kind="stable")]
    return Whole(
        np.array(submit)[order],
        duration[order],
        np.array([int(row[gpus]) for row in rows])[order],
        np.array([tenants.index(name) for name in names])[order],
        tenants,
    )


def _rows(path: Path) -> list[dict[str, str]]:
    with gzip.open(path, "rt", encoding="utf-8", newline="") as lines:
        return list(csv.DictReader(lines))
