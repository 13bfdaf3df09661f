"""The metric: what of it was asked for, did tenants and jobs receive of what was theirs?

r = GPU-time received over entitled to. A tenant is entitled to ∫ min(what its jobs ask for, its
quota), a job to ∫ min(what it asks for, its part of the quota, shared by weight among the tenant's
active jobs). Without that bound a lone small job would always be in loss. r < 1 is a loss; jobs and
intervals count as such below LOSS_BELOW. It never decides who comes next: see ``rule``.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gsched.fairness.books import Books, Steps, Stretches, ratio, sums
from gsched.model.jobtable import BoolColumn, FloatColumn, IntColumn

LOSS_BELOW = 0.95
"""Who received less than this part of the entitlement is in loss (ASTRAEA counts so)."""


@dataclass(frozen=True, eq=False)
class MetricAccount:
    """GPU-seconds in one window, by code of tenants and of jobs; 0 entitled: asked for nothing."""

    tenant_received: FloatColumn
    tenant_entitled: FloatColumn
    job_received: FloatColumn
    job_entitled: FloatColumn

    @property
    def r_tenant(self) -> FloatColumn:
        """Received over entitled; NaN where nothing was asked for."""
        return ratio(self.tenant_received, self.tenant_entitled)

    @property
    def r_job(self) -> FloatColumn:
        """Received over entitled; NaN where nothing was asked for."""
        return ratio(self.job_received, self.job_entitled)


@dataclass(frozen=True, eq=False)
class TenantIntervals:
    """The account of tenants in one interval after the other: a row a tenant, a column each."""

    received: FloatColumn
    entitled: FloatColumn

    @property
    def counts(self) -> BoolColumn:
        """Where a tenant asked for something."""
        asks: BoolColumn = self.entitled > 0
        return asks

    @property
    def is_unfair(self) -> BoolColumn:
        """Where it received less than LOSS_BELOW of what was its."""
        unfair: BoolColumn = self.counts & (self.received < LOSS_BELOW * self.entitled)
        return unfair

    @property
    def unfair_share(self) -> float | None:
        """Of the intervals in which tenants asked for something; None where none did."""
        counted = int(self.counts.sum())
        return float(self.is_unfair.sum()) / counted if counted else None


def metric_account(books: Books, begin_s: float, end_s: float) -> MetricAccount:
    """The account from `begin_s` to `end_s`."""
    edges = np.array([begin_s, end_s])
    jobs = len(books.tenant)
    held = books.held.disjoint().within(begin_s, end_s)
    gpu_s = held.gpus * (held.end_s - held.begin_s)
    received = sums(held.job, gpu_s, jobs)
    intervals = tenant_intervals(books, edges)
    entitled = np.zeros(jobs)
    asked = books.asked.disjoint().within(begin_s, end_s)
    for tenant, rows in _by_tenant(books, asked):
        mine = asked.of(rows)
        entitled += sums(mine.job, _job_entitled(books, tenant, mine, edges), jobs)
    return MetricAccount(intervals.received[:, 0], intervals.entitled[:, 0], received, entitled)


def tenant_intervals(books: Books, edges_s: FloatColumn) -> TenantIntervals:
    """The account of tenants between each two of `edges_s`, which rise."""
    shape = (len(books.tenants), len(edges_s) - 1)
    received, entitled = np.zeros(shape), np.zeros(shape)
    first, last = float(edges_s[0]), float(edges_s[-1])
    held = books.held.disjoint().within(first, last)
    for tenant, rows in _by_tenant(books, held):
        mine = held.of(rows)
        steps = Steps(np.concatenate((edges_s, mine.begin_s, mine.end_s)))
        reached = steps.reached(steps.level(mine, mine.gpus))
        received[tenant] = np.diff(reached[steps.place(edges_s)])
    asked = books.asked.disjoint().within(first, last)
    for tenant, rows in _by_tenant(books, asked):
        mine = asked.of(rows)
        steps, quota = _steps(books, tenant, mine, edges_s)
        reached = steps.reached(np.minimum(steps.level(mine, mine.gpus), quota))
        entitled[tenant] = np.diff(reached[steps.place(edges_s)])
    return TenantIntervals(received, entitled)


def _job_entitled(books: Books, tenant: int, mine: Stretches, edges_s: FloatColumn) -> FloatColumn:
    """Of each stretch of one tenant's jobs."""
    steps, quota = _steps(books, tenant, mine, edges_s)
    weight = books.weight[mine.job]
    total = steps.level(mine, weight)
    a_weight = np.divide(quota, total, out=np.zeros(len(quota)), where=total > 0)
    found = np.zeros(len(mine.job))
    kinds, kind = np.unique(np.stack((mine.gpus, weight)), axis=1, return_inverse=True)
    for number, (gpus, each) in enumerate(kinds.T.tolist()):
        rows = np.flatnonzero(kind.reshape(-1) == number)
        reached = steps.reached(np.minimum(gpus, each * a_weight))
        begin, end = steps.place(mine.begin_s[rows]), steps.place(mine.end_s[rows])
        found[rows] = reached[end] - reached[begin]
    return found


def _steps(
    books: Books, tenant: int, mine: Stretches, edges_s: FloatColumn
) -> tuple[Steps, FloatColumn]:
    """The moments at which anything changes for a tenant, and its quota after each."""
    since, gpus = books.quotas.of(tenant)
    inside = since[(since > edges_s[0]) & (since < edges_s[-1])]
    steps = Steps(np.concatenate((edges_s, inside, mine.begin_s, mine.end_s)))
    return steps, steps.latest(since, gpus)


def _by_tenant(books: Books, stretches: Stretches) -> list[tuple[int, IntColumn]]:
    """Each tenant that has some, with their rows."""
    tenant = books.tenant[stretches.job]
    return [(code, np.flatnonzero(tenant == code)) for code in np.unique(tenant).tolist()]
