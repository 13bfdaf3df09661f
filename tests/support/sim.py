"""Small jobs and clusters for tests of the engine and the simulator."""

from __future__ import annotations

from collections.abc import Sequence

from gsched.model.cluster import NodeView
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
from gsched.sim.backend import SimJob


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


def nodes(count: int = 1, gpus: int = 8) -> list[NodeView]:
    return [
        NodeView(f"n{i}", "idle", (), 64, 2**39, (("a100", gpus),), ("gpu",)) for i in range(count)
    ]


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
