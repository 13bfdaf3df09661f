"""Which part of each pool is a tenant's, where a simulation is judged by that."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from gsched.sim.classes import by_tenant
from gsched.sim.cluster import SimCluster
from gsched.sim.jobs import Floats, SimJobs


def quota_gpus(
    jobs: SimJobs, cluster: SimCluster, quotas: Mapping[str, float] | None = None
) -> Floats:
    """GPUs by pool and by code of `classes.by_tenant`.

    Each tenant has its part of the sum of `quotas` of every pool, as ``policy.ltgf`` has it; who is
    not named has none. Without quotas the tenants that have jobs in a pool have equal parts of it.
    """
    tenants = by_tenant(jobs)
    gpus = pool_gpus(cluster)
    if quotas:
        total = math.fsum(quotas.values())
        parts = np.array([quotas.get(name, 0.0) / total for name in tenants.names])
        parts[-1] = 0.0  # of jobs without a tenant, whatever somebody calls so
        return np.outer(gpus, parts)
    has_jobs = np.zeros((len(gpus), len(tenants.names)))
    has_jobs[jobs.pool, tenants.code] = 1.0
    equal: Floats = has_jobs * gpus[:, None] / np.maximum(has_jobs.sum(axis=1, keepdims=True), 1.0)
    return equal


def pool_gpus(cluster: SimCluster) -> Floats:
    """All GPUs of each pool."""
    reached = np.concatenate(([0], np.cumsum(cluster.node_gpus)))
    gpus: Floats = np.diff(reached[cluster.first_node]).astype(np.float64)
    return gpus
