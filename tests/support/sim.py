"""Small jobs and clusters for tests of the engine and the simulator."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from gsched.model.job import (
    CountRange,
    Exclusion,
    GpuRange,
    JobKey,
    JobState,
    JobView,
    Prediction,
    PredictionKind,
    Request,
)
from gsched.sim.backend import SimBackend
from gsched.sim.cluster import SimCluster
from gsched.sim.jobs import SimJobs
from gsched.sim.rules import SimRules
from support.sim_jobs import sim_jobs


@dataclass(frozen=True, slots=True)
class SimJob:
    """A job to be simulated: what a policy sees of it, and its true run time in seconds."""

    view: JobView
    duration_s: int


def job(
    job_id: int,
    gpus: int = 1,
    duration_s: int = 10,
    submit: int = 100,
    user: str = "ann",
    exclusions: tuple[Exclusion, ...] = (),
    name: str = "",
    num_nodes: int = 1,
    attempt: int | None = None,
) -> SimJob:
    """A job of `gpus` GPUs over `num_nodes` nodes; its attempt begins with its first submit."""
    view = JobView(
        key=JobKey("c", job_id, epoch=submit),
        attempt=submit if attempt is None else attempt,
        state=JobState.PENDING,
        user=user,
        tenant="lab",
        qos="",
        partitions=("gpu",),
        name=name or f"job-{job_id}",
        request=Request(CountRange(num_nodes, num_nodes), GpuRange(gpus, gpus), num_cpus=1),
        first_submit=submit,
        eligible=submit,
        time_limit_s=None,
        exclusions=exclusions,
    )
    return SimJob(view, duration_s)


def simulated(
    jobs: Iterable[SimJob], num_nodes: int = 1, gpus: int = 8
) -> tuple[SimJobs, SimCluster, SimRules, Sequence[JobView]]:
    """What a SimBackend is made of: these jobs on equal nodes, as plain as can be."""
    ordered = sorted(jobs, key=lambda j: (j.view.first_submit, j.view.key.job_id))
    views = [j.view for j in ordered]
    columns = sim_jobs(
        [v.first_submit for v in views],
        [j.duration_s for j in ordered],
        origin=0,
        num_gpus=[v.request.gpus.minimum for v in views],
        num_nodes=[v.request.nodes.minimum for v in views],
    )
    return columns, SimCluster.uniform({"gpu": num_nodes}, gpus), SimRules(), views


def started(backend: SimBackend) -> dict[JobKey, int]:
    """When each job started for the first time (epoch seconds), as far as they have."""
    result = backend.result("")
    rows = np.flatnonzero(~np.isnan(result.start_s))
    return {backend.records[row].key: int(result.start_s[row]) + result.jobs.origin for row in rows}


class TruePredictor:
    """Knows the durations; remembers what it was asked."""

    def __init__(self, jobs: Sequence[SimJob], model_id: str = "true") -> None:
        self.model_id = model_id
        self._durations = {j.view.key: float(j.duration_s) for j in jobs}
        self.asked: list[JobKey] = []

    def predict(self, jobs: Sequence[JobView], now: int) -> list[Prediction | None]:
        self.asked += [j.key for j in jobs]
        return [
            Prediction(
                PredictionKind.DURATION, self._durations[j.key], (), "true", self.model_id, 1, now
            )
            for j in jobs
        ]
