"""Which part of each pool is a tenant's, and what its GPUs are worth, where a simulation is judged.

What a job holds is worth what the GPUs of the first node of each attempt are: only a job that
spans nodes of several types counts otherwise than for the policy.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from gsched.fairness.worth import worth_of
from gsched.policy.registry import SiteFacts
from gsched.sim.classes import by_tenant
from gsched.sim.cluster import SimCluster
from gsched.sim.jobs import ANY, Floats, SimJobs
from gsched.sim.result import SimResult


def quota_gpus(jobs: SimJobs, cluster: SimCluster, site: SiteFacts | None = None) -> Floats:
    """GPUs by pool and by code of `classes.by_tenant`, by their worth.

    Each tenant has its part of the sum of the quotas of every pool, as ``policy.ltgf`` has it; who
    is not named has none. Without quotas the tenants that have jobs in a pool have equal parts.
    """
    tenants = by_tenant(jobs)
    gpus = pool_gpus(cluster, site.gpu_weights if site else None)
    quotas = (site.quotas if site else None) or {}
    total = math.fsum(quotas.values())
    if total > 0:
        parts = np.array([quotas.get(name, 0.0) / total for name in tenants.names])
        parts[-1] = 0.0  # of jobs without a tenant, whatever somebody calls so
        return np.outer(gpus, parts)
    has_jobs = np.zeros((len(gpus), len(tenants.names)))
    has_jobs[jobs.pool, tenants.code] = 1.0
    equal: Floats = has_jobs * gpus[:, None] / np.maximum(has_jobs.sum(axis=1, keepdims=True), 1.0)
    return equal


def pool_gpus(cluster: SimCluster, weights: Mapping[str, float] | None = None) -> Floats:
    """All GPUs of each pool, by their worth."""
    each = cluster.node_gpus * _type_worth(cluster, weights)[cluster.node_type]
    reached = np.concatenate(([0.0], np.cumsum(each)))
    gpus: Floats = np.diff(reached[cluster.first_node]).astype(np.float64)
    return gpus


def worth_held(result: SimResult, weights: Mapping[str, float] | None) -> Floats:
    """Of each GPU, by row of the segments."""
    cluster = result.cluster
    worth: Floats = _type_worth(cluster, weights)[cluster.node_type[result.segments.node]]
    return worth


def worth_asked(result: SimResult, weights: Mapping[str, float] | None) -> Floats:
    """Of each GPU that a job asks for, by row of the jobs: as of what it held first; where it has
    held none, the least that it accepts in its pool.
    """
    jobs, told = result.jobs, result.segments
    asked = np.ones(len(jobs))
    if not weights:
        return asked
    worth = _type_worth(result.cluster, weights)
    kinds, kind = np.unique(np.stack((jobs.pool, jobs.gpu_type)), axis=1, return_inverse=True)
    least = [_least(result.cluster, pool, gpu_type, worth) for pool, gpu_type in kinds.T.tolist()]
    asked[:] = np.array(least)[kind.reshape(-1)]
    asked[told.job[::-1]] = worth_held(result, weights)[::-1]  # of several the first is set last
    return asked


def _least(cluster: SimCluster, pool: int, gpu_type: int, worth: Floats) -> float:
    types = len(worth)
    here = set(cluster.node_type[cluster.first_node[pool] : cluster.first_node[pool + 1]].tolist())
    if gpu_type >= types:
        here &= set(cluster.type_sets[gpu_type - types])
    elif gpu_type != ANY:
        here &= {gpu_type}
    return min((float(worth[kind]) for kind in here), default=1.0)


def _type_worth(cluster: SimCluster, weights: Mapping[str, float] | None) -> Floats:
    return np.array([worth_of(name, weights or {}) for name in cluster.gpu_types], dtype=np.float64)
