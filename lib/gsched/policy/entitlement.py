"""What jobs have been entitled to of their tenants' quotas, counted from look to look.

The quota of a tenant is a part of its pool's GPUs. It is shared evenly by the tenant's active jobs,
those that wait for GPUs or run on some, and no job is entitled to more than it asks for. Who is
active is seen at each look, and counts until the next one; a job that is met for the first time is
taken to have had its present share since its first submission.

This is the account that the rule of ltgf goes by. The metric by which fairness is judged afterwards
is another one (``gsched.fairness``).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING

from gsched.model.cluster import ClusterState
from gsched.model.decision import JsonValue
from gsched.model.job import JobKey
from gsched.policy.pools import Pools
from gsched.policy.tenant_use import held_gpus

if TYPE_CHECKING:
    from gsched.model.jobtable import FloatColumn

MEMORY_KEY = "entitled"


def entitled_gpu_s(
    state: ClusterState, quotas: FloatColumn | None, memory: Mapping[str, JsonValue]
) -> tuple[FloatColumn, dict[str, JsonValue]]:
    """By row of ``state.jobs``: GPU-seconds entitled to so far, and what is to be remembered.

    `quotas` as in ``order_form.JobShares``, `memory` is the policy's of before (its ``as_of`` and
    its MEMORY_KEY).
    """
    import numpy as np

    jobs = state.jobs
    shares = _shares(state, quotas)
    as_of, known = _remembered(memory)
    passed_s = max(0, state.as_of - as_of)
    entitled = np.zeros(len(jobs))
    kept: dict[str, JsonValue] = {}
    for row, (key, submit) in enumerate(zip(jobs.keys, jobs.first_submit.tolist(), strict=True)):
        name = _name(key)
        before = known.get(name)
        if before is None:
            entitled[row] = shares[row] * max(0, state.as_of - submit)
        else:
            entitled[row] = before[0] + before[1] * passed_s
        if jobs.num_gpus[row] > 0:
            kept[name] = [float(entitled[row]), float(shares[row])]
    return entitled, {MEMORY_KEY: dict(sorted(kept.items()))}


def _shares(state: ClusterState, quotas: FloatColumn | None) -> FloatColumn:
    """By row: the GPUs that are each job's from now on; 0 where it is not active."""
    import numpy as np

    jobs = state.jobs
    pools = Pools.of(state)
    gpus = _gpus(state, pools)
    waits = jobs.pending & ~np.isnan(jobs.waiting_since)
    active = jobs.select((waits | jobs.running) & (jobs.num_gpus > 0))
    group = {row: (pools.of_job(jobs.views[row]), int(jobs.tenant[row])) for row in active.tolist()}
    jobs_of = Counter(group.values())
    tenants_in = Counter(pool for pool, _ in jobs_of)
    shares = np.zeros(len(jobs))
    for row, (pool, tenant) in group.items():
        equal = gpus.get(pool, 0) / tenants_in[pool]
        quota = equal if quotas is None else gpus.get(pool, 0) * float(quotas[tenant])
        shares[row] = min(float(held_gpus(jobs.views[row])), quota / jobs_of[pool, tenant])
    return shares


def _gpus(state: ClusterState, pools: Pools) -> Counter[int]:
    """By pool: all its GPUs, those of nodes that are down or reserved as well."""
    gpus: Counter[int] = Counter()
    for node in state.nodes:
        if node.partitions:
            gpus[pools.of_partition[node.partitions[0]]] += node.num_gpus
    return gpus


def _name(key: JobKey) -> str:
    return f"{key.slurm_id}@{key.epoch}"


def _remembered(memory: Mapping[str, JsonValue]) -> tuple[int, dict[str, tuple[float, float]]]:
    """As of when, and entitlement and share by job; nothing from damaged memory."""
    as_of, stored = memory.get("as_of"), memory.get(MEMORY_KEY)
    if not isinstance(as_of, int) or not isinstance(stored, dict):
        return 0, {}
    known = {}
    for name, pair in stored.items():
        amounts = [_amount(each) for each in pair] if isinstance(pair, list) else []
        if len(amounts) == 2 and min(amounts) >= 0:
            known[name] = (amounts[0], amounts[1])
    return as_of, known


def _amount(value: JsonValue) -> float:
    """Below 0: it is none."""
    is_one = isinstance(value, int | float) and math.isfinite(value)
    return float(value) if is_one else -1.0  # type: ignore[arg-type]
