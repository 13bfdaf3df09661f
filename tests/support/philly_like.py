"""As many jobs as wanted, drawn from Philly's, on a cluster of 25 pools with 24 nodes of 8 GPUs.

Sizes and durations are pairs of the public trace, drawn with replacement; pools are equally likely,
and arrivals are a Poisson stream that asks for 85 % of the GPUs, however many jobs there are.
"""

from __future__ import annotations

import numpy as np

from gsched.sim.cluster import SimCluster
from gsched.sim.jobs import ANY, SimJobs

from .shared import SHARED

POOLS, NODES, GPUS = 25, 24, 8
LOAD = 0.85


def philly_like(count: int, seed: int = 1) -> tuple[SimJobs, SimCluster]:
    """So many jobs and their cluster; estimates of durations err by a factor of 2."""
    draw = np.random.default_rng(seed)
    duration, gpus = np.genfromtxt(
        SHARED / "traces" / "philly" / "philly.csv.gz", delimiter=",", skip_header=1, usecols=(1, 2)
    ).T
    usable = np.flatnonzero((duration > 0) & (gpus > 0) & (gpus <= NODES * GPUS))
    row = draw.choice(usable, count)
    duration, num_gpus = np.rint(duration[row]), gpus[row].astype(np.int32)
    pools = {f"vc{number:02}": NODES for number in range(POOLS)}
    cluster = SimCluster.uniform(pools, GPUS)
    span_s = float(duration @ num_gpus) / (LOAD * cluster.num_gpus)
    zeros = np.zeros(count, dtype=np.int32)
    pool = draw.integers(POOLS, size=count, dtype=np.int32)
    jobs = SimJobs(
        cluster="philly-like",
        origin=1_506_816_000,
        ids=range(count),  # type: ignore[arg-type]  # 10⁷ texts would be most of the memory
        submit_s=np.sort(np.floor(draw.uniform(0.0, span_s, count))),
        duration_s=duration,
        num_gpus=num_gpus,
        num_nodes=zeros,
        num_cpus=zeros,
        pool=pool,
        tenant=pool,
        tenants=tuple(pools),
        user=zeros,
        users=("u",),
        name=zeros,
        names=("n",),
        time_limit_s=np.full(count, np.nan),
        deadline_s=np.full(count, np.nan),
        weight=np.ones(count),
        predicted_duration_s=duration * np.exp(draw.normal(0.0, 0.7, count)),
        share_class=np.full(count, ANY, dtype=np.int32),
        gpu_type=np.full(count, ANY, dtype=np.int32),
    )
    return jobs, cluster
