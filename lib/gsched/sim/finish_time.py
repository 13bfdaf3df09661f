"""What a job could have had of its own share: finish-time fairness and sharing loss.

Finish-time fairness (Themis, NSDI'20, §3): ρ = JCT over the finish time in an own 1/N of the pool,
where N is how many jobs were active (submitted and not ended) in the pool, on average over the
job's own life, itself included. A job that asks for g of G GPUs needs max(1, g·N / G) times its
run time there. ρ > 1 is worse than that share.

Sharing loss (Astraea, long-term GPU-time fairness): r = GPU time received over GPU time entitled
to from submission to end; the entitlement at a moment is the tenant's quota over its active jobs,
and no more than the job asks for. The quota of a tenant is what somebody says, else an equal part
of the pool among the tenants that have jobs in it. GPU time received is GPU time held from first
start to end, costs and lost work included; the clean-up after the end is neither received nor
entitled to.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gsched.policy.registry import SiteFacts
from gsched.sim.classes import by_tenant
from gsched.sim.held import held_s, left_s
from gsched.sim.jobs import Floats
from gsched.sim.quotas import pool_gpus, quota_gpus, worth_asked, worth_held
from gsched.sim.result import SimResult

Rows = NDArray[np.int64]


def finish_time_ratio(result: SimResult, until_s: float) -> Floats:
    """ρ of each job that has ended by `until_s`, the end of the simulation; NaN of the others."""
    jobs = result.jobs
    leave_s = left_s(result, until_s)
    gpus = pool_gpus(result.cluster)
    isolated_s = np.full(len(jobs), np.nan)
    for pool, rows in _groups(jobs.pool.astype(np.int64)):
        lives = _Lives(jobs.submit_s[rows], leave_s[rows])
        lengths_s = np.where(result.finished[rows], lives.lengths_s, np.nan)
        contention = lives.within(lives.level(np.ones(len(rows)))) / lengths_s
        needed = jobs.num_gpus[rows] * contention / gpus[pool]
        isolated_s[rows] = jobs.duration_s[rows] * np.maximum(needed, 1.0)
    ratio: Floats = (result.end_s - jobs.submit_s) / isolated_s
    return ratio


@dataclass(frozen=True, eq=False)
class SharesReceived:
    """GPU time received over entitled.

    `job` goes by row (NaN: has not ended), `tenant` by code of `classes.by_tenant` (NaN: asked for
    nothing). A tenant is entitled to what its jobs ask for, and no more than its quota.
    """

    job: Floats
    tenant: Floats


def shares_received(
    result: SimResult, until_s: float, site: SiteFacts | None = None
) -> SharesReceived:
    """The share that jobs and tenants got of what they were entitled to, up to `until_s`.

    Quotas and the worth of GPUs are those of the `site` (``quotas.quota_gpus``).
    """
    jobs = result.jobs
    leave_s = left_s(result, until_s)
    gpus = quota_gpus(jobs, result.cluster, site)
    weights = site.gpu_weights if site else None
    wanted = jobs.num_gpus * worth_asked(result, weights)
    tenants = by_tenant(jobs)
    number = len(tenants.names)
    pair = jobs.pool.astype(np.int64) * number + tenants.code
    received = held_s(result, until_s, worth_held(result, weights)) * jobs.num_gpus
    entitled = np.full(len(jobs), np.nan)
    of_tenant = np.zeros(number)
    for code, rows in _groups(pair):
        pool, tenant = divmod(code, number)
        quota = float(gpus[pool, tenant])
        lives = _Lives(jobs.submit_s[rows], leave_s[rows])
        asked = wanted[rows]
        entitled[rows] = _entitled(lives, asked, quota)
        demand = lives.level(asked)
        of_tenant[tenant] += lives.total(np.minimum(demand, quota))
    with np.errstate(invalid="ignore", divide="ignore"):
        got = np.bincount(tenants.code, weights=received, minlength=number) / of_tenant
        of_jobs = np.where(result.finished, received / entitled, np.nan)
    return SharesReceived(of_jobs, np.where(of_tenant > 0, got, np.nan))


def _entitled(lives: _Lives, asked: Floats, quota: float) -> Floats:
    """GPU-seconds that each job of one tenant is entitled to in one pool."""
    active = lives.level(np.ones(len(asked)))
    share = quota / np.maximum(active, 1.0)
    found = np.empty(len(asked))
    for size in np.unique(asked):
        rows = np.flatnonzero(asked == size)
        found[rows] = lives.within(np.minimum(share, size), rows)
    return found


class _Lives:
    """From when to when some jobs are active, and integrals over these times."""

    def __init__(self, begin_s: Floats, end_s: Floats) -> None:
        moments = np.concatenate((begin_s, end_s))
        self._order = np.argsort(moments, kind="stable")
        place = np.empty_like(self._order)
        place[self._order] = np.arange(len(place))
        self._begins, self._ends = place[: len(begin_s)], place[len(begin_s) :]
        self._steps_s = np.diff(moments[self._order])
        self.lengths_s = end_s - begin_s

    def level(self, weight: Floats) -> Floats:
        """The sum of the weights of those that are active, after each moment."""
        return np.cumsum(np.concatenate((weight, -weight))[self._order])

    def within(self, rate: Floats, rows: Rows | slice = slice(None)) -> Floats:
        """∫ rate over the lives of some jobs, where ``rate[k]`` holds after moment k."""
        reached = np.concatenate(([0.0], np.cumsum(rate[:-1] * self._steps_s)))
        found: Floats = reached[self._ends[rows]] - reached[self._begins[rows]]
        return found

    def total(self, rate: Floats) -> float:
        """∫ rate from the first moment to the last."""
        return float(np.sum(rate[:-1] * self._steps_s))


def _groups(code: Rows) -> Iterator[tuple[int, Rows]]:
    """Each code that occurs, with its rows."""
    order = np.argsort(code, kind="stable")
    values, first = np.unique(code[order], return_index=True)
    yield from zip(values.tolist(), np.split(order, first[1:]), strict=True)
