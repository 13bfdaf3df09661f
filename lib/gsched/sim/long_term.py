"""A simulation in the books of long-term fairness: what tenants asked for and received.

`finish_time` judges jobs as they end; here is the account of tenants over time
(``gsched.fairness``), each with its quota, whether it has jobs or not.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from gsched.fairness.books import Books, Quotas, Stretches
from gsched.fairness.metric import LOSS_BELOW, tenant_intervals
from gsched.policy.registry import SiteFacts
from gsched.sim.classes import by_tenant
from gsched.sim.held import left_s
from gsched.sim.jobs import Floats
from gsched.sim.occupancy import horizon_s
from gsched.sim.quotas import quota_gpus, worth_asked, worth_held
from gsched.sim.result import SimResult


def books_of(
    result: SimResult,
    quotas: Quotas,
    until_s: float,
    weights: Mapping[str, float] | None = None,
) -> Books:
    """The books up to `until_s`, in seconds from the jobs' origin.

    `quotas` go by the codes of ``classes.by_tenant``, `weights` are the worth of GPUs by type. A
    job asks for its GPUs from submission to end and holds them from start to end of each attempt,
    costs and lost work included; the clean-up after its end is neither.
    """
    jobs, told = result.jobs, result.segments
    tenants = by_tenant(jobs)
    leave_s = left_s(result, until_s)
    asked: Floats = jobs.num_gpus * worth_asked(result, weights)
    held: Floats = jobs.num_gpus[told.job] * worth_held(result, weights)
    rows = np.arange(len(jobs))
    begin_s: Floats = np.fmax(told.start_s, result.start_s[told.job])
    stop_s: Floats = np.fmin(told.end_s, leave_s[told.job])
    holder = told.job.astype(np.int64)
    return Books(
        tenants=tuple(tenants.names),
        tenant=tenants.code.astype(np.int64),
        weight=np.ones(len(jobs)),
        asked=Stretches(rows, jobs.submit_s, leave_s, asked),
        held=Stretches(holder, begin_s, stop_s, held),
        quotas=quotas,
    )


def unfair_share(result: SimResult, site: SiteFacts | None, length_s: float) -> float | None:
    """Of the intervals in which a tenant asked for GPUs, in how many it received less than
    LOSS_BELOW of what was its; None where none did.

    Intervals are whole ones of `length_s`, from the first submission to the last: while work still
    comes. What is a tenant's is what it asks for in each pool, and no more than its quota there.
    """
    jobs = result.jobs
    names = by_tenant(jobs).names
    first_s, last_s = float(jobs.submit_s[0]), float(jobs.submit_s[-1])
    count = int((last_s - first_s) // length_s) + 1
    edges: Floats = (first_s + length_s * np.arange(count)).astype(np.float64)
    if len(edges) < 2:
        return None
    gpus = quota_gpus(jobs, result.cluster, site)
    quotas, weights = Quotas.fixed(gpus.ravel()), site.gpu_weights if site else None
    by_pool = books_of(result, quotas, horizon_s(result), weights)
    pools = range(len(gpus))
    pairs = replace(
        by_pool,
        tenants=tuple(f"{pool} {name}" for pool in pools for name in names),
        tenant=jobs.pool.astype(np.int64) * len(names) + by_pool.tenant,
    )
    told = tenant_intervals(pairs, edges)
    shape = (len(gpus), len(names), len(edges) - 1)
    received = told.received.reshape(shape).sum(axis=0)
    entitled = told.entitled.reshape(shape).sum(axis=0)
    asked = entitled > 0
    unfair = asked & (received < LOSS_BELOW * entitled)
    return float(unfair.sum() / asked.sum()) if asked.any() else None
