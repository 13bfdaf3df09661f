"""Running and waiting jobs of several tenants on nodes, for tests of policies with order forms."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from gsched.model.cluster import ClusterState, NodeView
from gsched.model.job import Allocation, JobState, JobView, Lease, LeaseState, Wants
from support.jobs import T0, snapshot, view

NOW = T0 + 1000
"""When tests decide."""


def waits(
    job_id: int,
    gpus: int = 1,
    tenant: str = "lab",
    *,
    duration_s: float | None = None,
    submit: int = T0,
    deadline: int | None = None,
    attained_gpu_s: float | None = None,
    partition: str = "gpu",
) -> JobView:
    """A job that waits."""
    return replace(
        view(job_id, gpus=gpus, duration_s=duration_s, submit=submit, partitions=(partition,)),
        tenant=tenant,
        wants=Wants(deadline=deadline),
        attained_gpu_s=attained_gpu_s,
    )


def runs(
    waiting: JobView,
    *,
    start: int = T0,
    lease_end: int | None = None,
    lease_state: LeaseState = LeaseState.GRANTED,
    node: str = "",
) -> JobView:
    """The same, running since `start`, by a lease until `lease_end`."""
    gpus = waiting.request.gpus.minimum
    lease = None
    if lease_end is not None:
        lease = Lease(f"l{waiting.key.job_id}", lease_state, start, lease_end - start)
    attained = waiting.attained_gpu_s
    return replace(
        waiting,
        state=JobState.RUNNING,
        allocation=Allocation((node or waiting.partitions[0],), (gpus,), start),
        attained_gpu_s=(NOW - start) * gpus if attained is None else attained,
        lease=lease,
    )


def cluster(views: Iterable[JobView], **gpus: int) -> ClusterState:
    """A snapshot at NOW with one node a partition, of its name, with so many GPUs."""
    jobs = list(views)
    held = dict.fromkeys(gpus, 0)
    for one in jobs:
        if one.allocation is not None:
            for name, count in zip(one.allocation.nodes, one.allocation.gpus, strict=True):
                held[name] += count
    nodes = tuple(
        NodeView(name, "mixed", (), 64, 0, (("", count),), (name,), gpus_used=held[name])
        for name, count in gpus.items()
    )
    return replace(snapshot(jobs), nodes=nodes, as_of=NOW)
