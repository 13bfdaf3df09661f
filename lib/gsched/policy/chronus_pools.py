"""A snapshot as `chronus` plans with it: the free GPUs of each pool over time.

Jobs that cannot give way hold theirs until their safe end, those with a lease until its end.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field

from gsched.model.cluster import ClusterState, NodeView
from gsched.model.job import Capability, JobState, JobView
from gsched.policy.chronus_calendar import FOREVER, Calendar, rounded_up
from gsched.policy.pools import NOWHERE, Pools


@dataclass(frozen=True, slots=True)
class PoolView:
    """GPUs of a pool that can be used now, all that it has, those of its largest node, and its
    calendar, which does not tell types of GPU apart. `types` are, by type, those that can be
    used and all.
    """

    num_gpus: int
    all_gpus: int
    node_gpus: int
    free: Calendar
    types: Mapping[str, tuple[int, int]] = field(default_factory=dict)

    def rounded(self, gpus: int) -> int:
        """What is set aside for a job of so many GPUs."""
        up = rounded_up(gpus, max(1, self.node_gpus))
        return up if up <= self.num_gpus else gpus

    def of_types(self, types: Collection[str]) -> tuple[int, int]:
        """GPUs that can be used and all that there are, of these types; of any where none is
        named.
        """
        if not types:
            return self.num_gpus, self.all_gpus
        own = [self.types.get(name, (0, 0)) for name in types]
        return sum(usable for usable, _ in own), sum(there for _, there in own)


def pool_views(
    state: ClusterState,
    pools: Pools,
    now: int,
    lease_s: int,
    safe_end: Callable[[JobView], float],
    targets: Collection[int],
) -> dict[int, PoolView]:
    """By number of the pool. Rows in `targets` hold nothing: they are planned.

    `safe_end` is when a job that cannot give way has surely ended (epoch); `lease_s` is the lease
    that one without gets now.
    """
    reserved_now, sizes = _reserved(state, now), pool_sizes(state, pools)
    nodes = {n.name: n for n in state.nodes if n.partitions and n.is_usable}
    found: dict[int, PoolView] = {}
    members: dict[int, list[NodeView]] = {NOWHERE: []}
    members |= {number: [] for number in pools.of_partition.values()}
    for node in nodes.values():
        members[pools.of_partition[node.partitions[0]]].append(node)
    for number, own in members.items():
        num_gpus = sum(n.num_gpus for n in own if n.name not in reserved_now)
        free = Calendar(now, sum(n.num_gpus for n in own))
        for reservation in state.reservations:
            inside = sum(n.num_gpus for n in own if n.name in reservation.nodes)
            span = (max(now, reservation.start_time), min(FOREVER, reservation.end_time))
            if inside and span[1] > now:
                free.take([span], inside)
        all_gpus = sizes.get(number, 0)
        largest = max((n.num_gpus for n in own), default=1)
        types = _by_type(state, pools, number, nodes.keys() - reserved_now)
        found[number] = PoolView(num_gpus, all_gpus, largest, free, types)
    for row, view in enumerate(state.jobs.views):
        if view.holds_gpus and row not in targets:
            end = held_until(view, pools, now, lease_s, safe_end)
            _hold(view, nodes, reserved_now, found, pools, (now, end))
    return found


def pool_sizes(state: ClusterState, pools: Pools) -> dict[int, int]:
    """By number of the pool the GPUs of its nodes, whether they can be used now or not."""
    found = dict.fromkeys(pools.of_partition.values(), 0)
    for node in state.nodes:
        if node.partitions:
            found[pools.of_partition[node.partitions[0]]] += node.num_gpus
    return found


def _by_type(
    state: ClusterState, pools: Pools, number: int, usable: Collection[str]
) -> dict[str, tuple[int, int]]:
    found: dict[str, tuple[int, int]] = {}
    for node in state.nodes:
        if node.partitions and pools.of_partition[node.partitions[0]] == number:
            for gpu_type, gpus in node.gpus:
                now, there = found.get(gpu_type, (0, 0))
                found[gpu_type] = (now + gpus * (node.name in usable), there + gpus)
    return found


def types_of(view: JobView) -> tuple[str, ...]:
    """The types of GPU that a job takes; () where it takes any."""
    names = [option.gpu_type for option in view.request.gpu_options]
    return tuple([name for name in names if name]) if all(names) else ()


def held_until(
    view: JobView,
    pools: Pools,
    now: int,
    lease_s: int,
    safe_end: Callable[[JobView], float],
) -> int:
    """Until when (epoch) a job that holds GPUs keeps them, whoever else would need them."""
    if view.state is JobState.COMPLETING:
        return now
    if not gives_way(view, pools):
        end = safe_end(view)
        return FOREVER if math.isinf(end) else max(now, math.ceil(end))
    if view.lease is None:
        return now + lease_s
    return max(now, view.lease.end_time)


def gives_way(view: JobView, pools: Pools) -> bool:
    """Whether its GPUs can be had before it ends."""
    return (
        view.state is JobState.RUNNING
        and view.exclusion(Capability.PREEMPT) is None
        and pools.could_free(view)
    )


def _hold(
    view: JobView,
    nodes: dict[str, NodeView],
    reserved: frozenset[str],
    found: dict[int, PoolView],
    pools: Pools,
    span: tuple[int, int],
) -> None:
    """Take what a job holds, on nodes that count."""
    if view.allocation is None or span[1] <= span[0]:
        return
    for name, gpus in zip(view.allocation.nodes, view.allocation.gpus, strict=False):
        if name in nodes and name not in reserved and gpus:
            found[pools.of_partition[nodes[name].partitions[0]]].free.take([span], gpus)


def _reserved(state: ClusterState, now: int) -> frozenset[str]:
    """Nodes of reservations that have begun."""
    return frozenset(
        name for r in state.reservations if r.start_time <= now < r.end_time for name in r.nodes
    )
