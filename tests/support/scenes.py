"""Scenes of a forecast, from rows of squeue made by hand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from gsched.app.forecast.situation import LEVELS, Scene, scene_of
from gsched.config.settings import PredictSettings
from gsched.model.cluster import ClusterState, NodeView, PartitionView, ReservationView
from gsched.model.job import JobKey, JobState, JobView, Prediction, PredictionKind, Wants
from gsched.model.jobtable import JobTable
from gsched.slurm.from_queue import to_view
from gsched.slurm.records import QueueRow, SlurmConfig
from support.queue import node, partition

NOW = 100_000
MULTIFACTOR = {
    "PriorityType": "priority/multifactor",
    "PriorityWeightAge": "1000",
    "PriorityMaxAge": "1-00:00:00",
}


def predicted(mean: float, **facts: Any) -> Prediction:
    """A run time with quantiles from half to twice the mean."""
    values = [mean * (0.5 + 1.5 * p) for p in LEVELS]
    known: dict[str, Any] = {
        "kind": PredictionKind.DURATION,
        "mean": mean,
        "quantiles": tuple(zip(LEVELS, values, strict=True)),
        "source": "similar-name",
        "model_id": "m",
        "similar_jobs": 50,
        "as_of": NOW,
    }
    return Prediction(**(known | facts))


def view_of(row: QueueRow, prediction: Prediction | None = None) -> JobView:
    key = JobKey("c", row.job_id, row.array_task, row.het_offset, row.submit_time)
    made = to_view(row, "train", key, Wants(), ())
    return replace(made, predictions=(prediction,)) if prediction else made


def running(raw_id: int, node_list: str, **facts: Any) -> dict[str, Any]:
    """The facts of a row of a running job."""
    state = {"state": JobState.RUNNING, "state_text": "RUNNING", "reason": "None"}
    return {"raw_id": raw_id, "node_list": node_list, "start_time": NOW - 600, **state, **facts}


def state_of(
    views: Sequence[JobView],
    nodes: Sequence[NodeView] = (),
    partitions: Sequence[PartitionView] = (),
    reservations: Sequence[ReservationView] = (),
) -> ClusterState:
    nodes = tuple(nodes) or (node("gn1"), node("gn2"))
    names = sorted({name for n in nodes for name in n.partitions})
    partitions = tuple(partitions) or tuple(
        partition(name, [n.name for n in nodes if name in n.partitions]) for name in names
    )
    table = JobTable.from_views(views)
    return ClusterState("c", NOW, 1, nodes, partitions, tuple(reservations), table)


def scene(
    jobs: Sequence[tuple[QueueRow, Prediction | None]],
    *,
    by_prediction: bool = False,
    config: dict[str, str] | None = None,
    **cluster: Any,
) -> Scene:
    """The scene of these rows with their predictions."""
    views = [view_of(*job) for job in jobs]
    rows = {v.key: row for v, (row, _) in zip(views, jobs, strict=True)}
    return scene_of(
        state_of(views, **cluster), rows, SlurmConfig(config or {}), PredictSettings(),
        by_prediction,
    )  # fmt: skip
