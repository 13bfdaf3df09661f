"""Results of simulations that nobody simulated: starts and ends as a test wants them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gsched.sim.cluster import SimCluster
from gsched.sim.jobs import ANY, SimJobs
from gsched.sim.result import Samples, Segments, SimResult
from gsched.sim.rules import SimRules

from .sim_jobs import sim_jobs


def sim_result(
    jobs: SimJobs,
    start_s: Sequence[float],
    end_s: Sequence[float],
    cluster: SimCluster | None = None,
    **told: Any,
) -> SimResult:
    """Each job runs once, from its start to its end; NaN where it does not come to that.

    `told` are fields of SimResult; by default there are no samples, and one node of 4 GPUs.
    """
    start, end = np.asarray(start_s, dtype=np.float64), np.asarray(end_s, dtype=np.float64)
    zeros = np.zeros(len(jobs), dtype=np.int32)
    run_s = np.nan_to_num(end - start)
    defaults: dict[str, Any] = {
        "policy": "fifo",
        "rules": SimRules(),
        "run_s": run_s,
        "lost_s": np.zeros(len(jobs)),
        "preemptions": zeros,
        "failures": zeros,
        "segments": once_each(start, end),
        "samples": samples([]),
        "energy_wh": 0.0,
        "wakes": 0,
        "path": "static",
    }
    cluster = cluster or SimCluster.uniform({"p": 1}, gpus_a_node=4)
    return SimResult(jobs=jobs, cluster=cluster, start_s=start, end_s=end, **(defaults | told))


def once_each(start_s: np.ndarray, end_s: np.ndarray) -> Segments:
    """One stretch for each job that started."""
    rows = np.argsort(start_s, kind="stable")[: int(np.sum(~np.isnan(start_s)))].astype(np.int32)
    nothing = np.zeros(len(rows), dtype=np.int32)
    return Segments(rows, start_s[rows], end_s[rows], nothing, nothing + np.int32(ANY))


def samples(time_s: Sequence[float], **told: Sequence[int]) -> Samples:
    """Samples with the columns that are told; the others are 0."""
    names = [
        "gpus_used",
        "gpus_free",
        "gpus_free_whole",
        "gpus_wanted",
        "jobs_waiting",
        "jobs_running",
        "nodes_asleep",
        "nodes_down",
    ]
    zeros = [0] * len(time_s)
    columns = {name: np.asarray(told.get(name, zeros), dtype=np.int32) for name in names}
    return Samples(time_s=np.asarray(time_s, dtype=np.float64), **columns)


def queued(num_jobs: int, seed: int, factor: float = 1.0, days: float = 20.0) -> SimResult:
    """Chance jobs that wait by chance, `factor` times as long; the same jobs for each factor."""
    random = np.random.default_rng(seed)
    submit_s = np.sort(random.integers(0, int(days * 86_400), num_jobs))
    run_s = random.integers(1, 7200, num_jobs)
    jobs = sim_jobs(
        submit_s,
        run_s,
        num_gpus=random.choice([1, 2, 4], num_jobs),
        tenant=random.integers(0, 3, num_jobs),
    )
    wait_s = factor * random.integers(0, 3600, num_jobs)
    start_s = submit_s + wait_s
    seen = np.arange(0.0, days * 86_400, 3600)
    some = samples(seen, gpus_used=[3] * len(seen), gpus_free=[1] * len(seen))
    return sim_result(jobs, start_s, start_s + run_s, samples=some)
