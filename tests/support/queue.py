"""Rows of squeue, made by hand, and a Slurm that answers from them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gsched.model.cluster import NodeView, PartitionView, ReservationView
from gsched.model.job import JobState
from gsched.slurm.parse_limits import NodeDemand
from gsched.slurm.records import FreeText, PriorityRow, QueueListing, QueueRow, SlurmConfig


def row(raw_id: int, **facts: Any) -> QueueRow:
    """A job that waits for two GPUs, unless `facts` differ."""
    waiting: dict[str, Any] = {
        "raw_id": raw_id,
        "job_id": raw_id,
        "array_task": None,
        "het_offset": None,
        "array_tasks": "",
        "is_unsplit_array": False,
        "state": JobState.PENDING,
        "state_text": "PENDING",
        "reason": "Priority",
        "user": "alice",
        "tenant": "lab1",
        "qos": "normal",
        "partitions": ("gpu",),
        "priority": 1,
        "nice": 0,
        "submit_time": 1000,
        "eligible_time": 1000,
        "start_time": None,
        "end_time": None,
        "time_limit_s": 60,
        "min_nodes": 1,
        "max_nodes": 1,
        "num_cpus": 1,
        "num_gpus": 2,
        "gpu_options": (),
        "shards": 0,
        "mem_bytes": 0,
        "features": "",
        "licences": "",
        "reservation": "",
        "dependency": "",
        "restarts": 0,
        "is_batch": True,
        "node_list": "",
    }
    return QueueRow(**(waiting | facts))


def node(name: str, gpus: int = 8, partition: str = "gpu", **facts: Any) -> NodeView:
    """An idle node."""
    idle: dict[str, Any] = {"num_cpus": 64, "mem_bytes": 2**39}
    kinds = facts.pop("kinds", (("", gpus),))
    return NodeView(name, "idle", (), gpus=kinds, partitions=(partition,), **(idle | facts))


def partition(
    name: str = "gpu", nodes: Sequence[str] = ("n1", "n2"), **limits: Any
) -> PartitionView:
    """A partition that is up."""
    return PartitionView(name, True, True, tuple(nodes), **limits)


class StandInSlurm:
    """What ``gsched show`` and ``why`` ask of Slurm, from lists; counts the readings of squeue."""

    def __init__(self, *rows: QueueRow) -> None:
        self.rows = rows
        self.readings = 0

    def config(self) -> SlurmConfig:
        return SlurmConfig({"ClusterName": "alpha"})

    def queue(self, states: str = "live") -> QueueListing:
        self.readings += 1
        return QueueListing(self.rows, ())

    def free_text(self, raw_ids: Sequence[int]) -> dict[int, FreeText]:
        return {raw_id: FreeText(f"name {raw_id}", "") for raw_id in raw_ids}

    def priorities(self) -> dict[int, PriorityRow]:
        return {}

    def nodes(self) -> tuple[NodeView, ...]:
        return (node("n1"), node("n2"))

    def partitions(self) -> tuple[PartitionView, ...]:
        return (partition(),)

    def reservations(self) -> tuple[ReservationView, ...]:
        return ()

    def node_demand(self, raw_id: int) -> NodeDemand:
        return NodeDemand(1, 2**30, None)

    def job_detail(self, raw_id: int) -> None:
        return None
