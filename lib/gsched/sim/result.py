"""What a simulation gives, by column."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gsched.sim.cluster import SimCluster
from gsched.sim.jobs import Floats, Ints, SimJobs
from gsched.sim.rules import SimRules

ADMITTED, REFUSED = 1, -1


@dataclass(frozen=True, eq=False)
class Segments:
    """Every stretch of time in which a job held GPUs, in order of its start.

    `job` is the row, `node` the first node that it held; `end_s` is NaN where it still runs. The
    GPUs are those of the job. `shared` is the row of the job beside it at its start, ANY if alone.
    """

    job: Ints
    start_s: Floats
    end_s: Floats
    node: Ints
    shared: Ints


@dataclass(frozen=True, eq=False)
class Samples:
    """The cluster every `sample_s` seconds, from the first submission to the last end.

    `gpus_free` counts GPUs of nodes that are up, `gpus_free_whole` those on wholly free nodes:
    what lies between is fragmented. `gpus_wanted` is what waiting jobs ask for.
    """

    time_s: Floats
    gpus_used: Ints
    gpus_free: Ints
    gpus_free_whole: Ints
    gpus_wanted: Ints
    jobs_waiting: Ints
    jobs_running: Ints
    nodes_asleep: Ints
    nodes_down: Ints


@dataclass(frozen=True, eq=False)
class SimResult:
    """Columns go by the rows of `jobs`.

    `start_s` is the first start and `end_s` the end, from the jobs' origin; NaN where it did not
    come to that before the simulation ended. `run_s` is for how long a job held GPUs over all its
    attempts, `lost_s` how much of that was no progress (costs, work lost in failures, a slower GPU
    or a partner). `preemptions` and `failures` count what ended its attempts; it is requeued after
    each, but given up after a failure more than the rules allow. `energy_wh` is of all nodes from
    first submission to last end. `path` tells which loop ran: static, ordered or rounds;
    `interrupted` that somebody ended it before its end. `answers` is of a policy that admits and
    refuses deadlines: ADMITTED, REFUSED (the first answer holds) or 0, by row; else None.
    """

    policy: str
    jobs: SimJobs
    cluster: SimCluster
    rules: SimRules
    start_s: Floats
    end_s: Floats
    run_s: Floats
    lost_s: Floats
    preemptions: Ints
    failures: Ints
    segments: Segments
    samples: Samples
    energy_wh: float
    wakes: int
    path: str
    interrupted: bool = False
    answers: Ints | None = None

    @property
    def finished(self) -> NDArray[np.bool_]:
        """Whether each job has ended."""
        return ~np.isnan(self.end_s)
