"""For which promised jobs nodes are to be reserved, and which nodes. Pure.

Only whole nodes can be reserved for GPUs: a job smaller than a node gets none.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from gsched.daemon.ces_wanted import READY
from gsched.model.cluster import ClusterState, NodeView
from gsched.model.decision import Admit, Decision
from gsched.model.job import Capability, JobKey, JobState, JobView, PredictionKind

_PLAIN = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.")


_TAKEN = ("ReqNodeNotAvail", "Nodes required for job are")
"""What Slurm says where others, or their reservations, have the nodes that a job could have."""


@dataclass(frozen=True, slots=True)
class Due:
    """A promised job that waits for GPUs and is due, and how many nodes of `node_gpus` it fills."""

    view: JobView
    num_nodes: int
    node_gpus: int


def waiting_targets(state: ClusterState, decision: Decision) -> dict[JobKey, Due]:
    """The jobs that the policy has promised something, and whose GPUs they are to have now."""
    promised = {a.key for a in decision.actions if isinstance(a, Admit)}
    found: dict[JobKey, Due] = {}
    for view in state.jobs.views:
        if view.key not in promised or not _waits(view, state.as_of):
            continue
        reason = decision.reasons.get(view.key)
        if reason is None or reason.params.get("is_due") is not True:
            continue
        due = _whole_nodes(view, state)
        if due is not None:
            found[view.key] = due
    return found


def nodes_for(
    due: Due, state: ClusterState, own: Collection[str], taken: Collection[str], until: int
) -> tuple[str, ...]:
    """The nodes that are to be reserved: those that are free first. () where there are not enough.

    Nodes of reservations that are not among `own` and begin before `until` (epoch) are left out,
    and so are those that are `taken`.
    """
    others = {
        name
        for one in state.reservations
        if one.name not in own and one.start_time < until and one.end_time > state.as_of
        for name in one.nodes
    }
    fitting = [n for n in _suited(due.view, state) if n.num_gpus == due.node_gpus]
    left = [n.name for n in fitting if n.name not in others and n.name not in taken]
    busy = _busy_until(due.view, state)
    left.sort(key=lambda name: (busy.get(name, 0.0), name))
    return tuple(left[: due.num_nodes]) if len(left) >= due.num_nodes else ()


def freed_for(view: JobView, state: ClusterState) -> frozenset[str]:
    """Nodes on which others give way for this job."""
    return frozenset(
        name
        for other in state.jobs.views
        if other.lease is not None
        and other.lease.beneficiary == view.key.slurm_id
        and other.allocation is not None
        for name in other.allocation.nodes
    )


def usable_nodes(state: ClusterState) -> frozenset[str]:
    """Nodes on which a job can start."""
    return frozenset(n.name for n in state.nodes if n.partitions and n.is_usable)


def _waits(view: JobView, now: int) -> bool:
    """Whether it waits for nodes and for nothing else, and gsched may do something about it."""
    return (
        view.state is JobState.PENDING
        and view.exclusion(Capability.REORDER) is None
        and view.eligible is not None
        and view.eligible <= now
        and view.waiting_tasks <= 1
        and view.key.het_offset is None
        and (view.pending_reason in READY or view.pending_reason.startswith(_TAKEN))
    )


def _whole_nodes(view: JobView, state: ClusterState) -> Due | None:
    """None for a job that does not fill a node, or may not be as few nodes as its GPUs fill."""
    gpus = view.request.gpus.minimum
    largest = max((n.num_gpus for n in _suited(view, state)), default=0)
    if largest < 1 or gpus < largest:
        return None
    num_nodes = -(-gpus // largest)
    asked = view.request.nodes
    if not asked.minimum <= num_nodes <= max(asked.maximum, asked.minimum):
        return None
    return Due(view, num_nodes, largest)


def _suited(view: JobView, state: ClusterState) -> list[NodeView]:
    """Nodes of the job's first partition that have the GPUs and the features that it asks for."""
    wanted = view.request.features
    features = set(wanted.split("&")) if wanted else set[str]()
    if any(not one or not _PLAIN.issuperset(one) for one in features):
        return []  # a grammar of its own: no node is known to fit
    types = {option.gpu_type for option in view.request.gpu_options} - {None}
    return [
        node
        for node in state.nodes
        if node.is_usable
        and node.num_gpus
        and view.partitions[:1]
        and view.partitions[0] in node.partitions
        and features <= set(node.features)
        and (not types or any(gpu_type in types for gpu_type, _ in node.gpus))
    ]


def _busy_until(beneficiary: JobView, state: ClusterState) -> Mapping[str, float]:
    """Until when (epoch) others hold each node, as far as is known; not those that give way."""
    found: dict[str, float] = {}
    for view in state.jobs.views:
        if view.allocation is None or not view.holds_gpus:
            continue
        end = _end(view, beneficiary, state.as_of)
        for name in view.allocation.nodes:
            found[name] = max(found.get(name, 0.0), end)
    return found


def _end(view: JobView, beneficiary: JobView, now: int) -> float:
    """When a job's nodes can be had: its lease's end, else its own as predicted, or its limit."""
    if view.state is JobState.COMPLETING or view.allocation is None:
        return now
    lease = view.lease
    if lease is not None and lease.beneficiary == beneficiary.key.slurm_id:
        return now
    if lease is not None:
        return max(now, lease.end_time)
    begun = view.allocation.start_time
    limit = math.inf if view.time_limit_s is None else begun + view.time_limit_s
    predicted = view.prediction(PredictionKind.DURATION)
    if predicted is None or begun + predicted.mean <= now:
        return max(now, limit)
    return min(limit, begun + predicted.mean)
