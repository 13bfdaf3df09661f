"""Recorded run times on GPUs of several speeds → run times on GPUs of speed 1."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from gsched.app.sim.rows import Coded, PastColumns, Real
from gsched.sim.cluster import SimCluster
from gsched.sim.jobs import ANY, SimJobs


def types_of(column: Coded, cluster: SimCluster) -> NDArray[np.int32]:
    """The place of each named type among those of a cluster; ANY: it has none of that name."""
    places = {name: place for place, name in enumerate(cluster.gpu_types) if name}
    place_of = np.array([*(places.get(name, ANY) for name in column.values), ANY], dtype=np.int32)
    return place_of[column.codes]


def at_speed_one(
    past: PastColumns, jobs: SimJobs, cluster: SimCluster
) -> tuple[PastColumns, SimJobs, tuple[str, ...]]:
    """Past jobs (what is predicted from) and simulated jobs with run times on the reference.

    Where the source tells the type that a job ran on, else the one that it asked for, and the
    cluster has that type: as recorded × its speed; of others the recorded time is taken as it is.
    The last value says so.
    """
    if (cluster.type_speed == 1).all():
        return past, jobs, ()
    ran_on = types_of(past.ran_on, cluster)
    ran_on = np.where(ran_on == ANY, jobs.gpu_type, ran_on)
    speed: Real = np.array([*cluster.type_speed, 1.0])[ran_on]  # ANY finds the last
    run_s = past.run_s * speed
    whole = np.maximum(np.rint(run_s).astype(np.int64), 1)
    told, bound = int((ran_on != ANY).sum()), int((jobs.gpu_type != ANY).sum())
    words = (
        f"Run times at speed 1: of {told:,} of {len(past):,} jobs the GPU type that it ran "
        "on is known here, its recorded run time × the speed of that type counts; of "
        f"{len(past) - told:,} it is not, theirs count as recorded at speed 1. {bound:,} asked for "
        "a type and run on that alone, the others on any; time limits are as told."
    )
    return replace(past, run_s=whole), replace(jobs, duration_s=run_s), (words,)


def type_words(cluster: SimCluster) -> str:
    """The types and their speeds; nothing where all GPUs are alike and of speed 1."""
    speeds: Sequence[tuple[str, float]] = [
        (name or "untyped", speed)
        for name, speed in zip(cluster.gpu_types, cluster.type_speed.tolist(), strict=True)
    ]
    if len(speeds) == 1 and speeds[0][1] == 1:
        return ""
    return ", ".join(f"{name} {speed:g}" for name, speed in speeds)
