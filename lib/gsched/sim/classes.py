"""Classes of jobs by which figures are told: GPU size, duration, tenant, pool."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gsched.sim.cluster import SimCluster
from gsched.sim.jobs import SimJobs

SIZE_BOUNDS = (1, 4, 8, 16, 64)
"""Most GPUs of each size class but the last."""
SIZE_NAMES = ("1", "2-4", "5-8", "9-16", "17-64", "over 64")
DURATION_BOUNDS_S = (600.0, 3600.0, 6 * 3600.0, 86_400.0)
"""True run times from which on the next duration class begins."""
DURATION_NAMES = ("under 10 min", "10 min-1 h", "1-6 h", "6-24 h", "from 1 day")
NO_TENANT = "-"
"""The class of jobs of which no tenant is told."""


@dataclass(frozen=True, eq=False)
class Classes:
    """The class of each job: ``names[code]``."""

    names: Sequence[str]
    code: NDArray[np.int64]


def everything(jobs: SimJobs) -> Classes:
    """One class with all jobs."""
    return Classes(("all",), np.zeros(len(jobs), dtype=np.int64))


def by_size(jobs: SimJobs) -> Classes:
    """By number of GPUs."""
    return Classes(SIZE_NAMES, np.searchsorted(SIZE_BOUNDS, jobs.num_gpus, side="left"))


def by_duration(jobs: SimJobs) -> Classes:
    """By true run time."""
    return Classes(
        DURATION_NAMES, np.searchsorted(DURATION_BOUNDS_S, jobs.duration_s, side="right")
    )


def by_tenant(jobs: SimJobs) -> Classes:
    """By tenant; jobs without one make a class of their own at the end."""
    none = len(jobs.tenants)
    code = np.where(jobs.tenant < 0, none, jobs.tenant).astype(np.int64)
    return Classes((*jobs.tenants, NO_TENANT), code)


def by_pool(jobs: SimJobs, cluster: SimCluster) -> Classes:
    """By pool of nodes."""
    return Classes(cluster.pools, jobs.pool.astype(np.int64))
