"""The jobs of a simulation, by column."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int32]

ANY = -1
"""In an index column: none in particular."""


@dataclass(frozen=True, eq=False)
class SimJobs:
    """Jobs in order of submission, one element a job in every column.

    Rows rise with (submit_s, the source's own order of simultaneous jobs), so that a row number
    breaks ties. Times are seconds from `origin` (epoch), durations seconds. `duration_s` is the
    true run time, alone on a GPU of speed 1; policies see it only as a declared oracle. Missing
    floats are NaN. Index columns point into the tuples beside them, ANY where nothing is told.
    """

    cluster: str
    origin: int
    ids: Sequence[str]  # as the source spells them
    submit_s: Floats
    duration_s: Floats  # > 0
    num_gpus: Ints  # ≥ 1
    num_nodes: Ints  # 0: on as few as possible
    num_cpus: Ints
    pool: Ints  # of SimCluster.pools
    tenant: Ints
    tenants: tuple[str, ...]
    user: Ints
    users: tuple[str, ...]
    name: Ints
    names: Sequence[str]
    time_limit_s: Floats
    deadline_s: Floats  # from origin
    weight: Floats  # of the deadline, 1 where nothing is told
    predicted_duration_s: Floats
    share_class: Ints  # row of Sharing.speeds; ANY: never shares a GPU
    gpu_type: Ints  # of SimCluster.gpu_types; ANY: runs on each
    soft_deadlines: Mapping[int, tuple[tuple[float, float], ...]] = field(default_factory=dict)
    """By row, of jobs that have several: (seconds from origin, reward), in rising order.

    `deadline_s` of such a job is the first of them, which is what counts as missed.
    """

    def __len__(self) -> int:
        return len(self.submit_s)
