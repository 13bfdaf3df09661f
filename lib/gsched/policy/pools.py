"""Which jobs compete for the same GPUs, and how many of those are free."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from gsched.model.cluster import ClusterState, NodeView
from gsched.model.job import JobState, JobView
from gsched.policy.tenant_use import held_gpus

NOWHERE = -1
"""Pool of a job whose partition has no nodes."""


@dataclass(frozen=True, slots=True)
class Pools:
    """Partitions that share nodes are one pool; a job belongs to that of its first partition.

    `free_gpus` by pool counts nodes that can start jobs and are not reserved (`usable` are their
    names), with what jobs that are being cleaned up hold there still.
    """

    of_partition: Mapping[str, int]
    free_gpus: Mapping[int, int]
    usable: frozenset[str]

    @classmethod
    def of(cls, state: ClusterState) -> Pools:
        """As the nodes of a snapshot tell."""
        pool_of = _joined(state.nodes)
        reserved = {name for r in state.reservations for name in r.nodes}
        nodes = [n for n in state.nodes if n.partitions and n.is_usable and n.name not in reserved]
        free = dict.fromkeys([NOWHERE, *pool_of.values()], 0)
        for node in nodes:
            free[pool_of[node.partitions[0]]] += max(0, node.num_gpus - node.gpus_used)
        pools = cls(pool_of, free, frozenset(n.name for n in nodes))
        for view in state.jobs.holders():
            if view.state is JobState.COMPLETING and pools.could_free(view):
                free[pools.of_job(view)] += held_gpus(view)
        return pools

    def names(self) -> dict[int, str]:
        """By number of the pool the first of its partitions' names."""
        found: dict[int, str] = {}
        for name, number in sorted(self.of_partition.items()):
            found.setdefault(number, name)
        return found

    def of_job(self, view: JobView) -> int:
        """NOWHERE where its partition has no nodes."""
        return self.of_partition.get(view.partitions[0], NOWHERE) if view.partitions else NOWHERE

    def could_free(self, view: JobView) -> bool:
        """Whether the GPUs of a job that runs could be given to others: all are on usable nodes."""
        return view.allocation is not None and self.usable.issuperset(view.allocation.nodes)


def _joined(nodes: tuple[NodeView, ...]) -> dict[str, int]:
    """By partition the number of its pool."""
    root: dict[str, str] = {}

    def find(name: str) -> str:
        while root.setdefault(name, name) != name:
            name = root[name]
        return name

    for node in nodes:
        for name in node.partitions:
            root[find(name)] = find(node.partitions[0])
    numbers: dict[str, int] = {}
    return {name: numbers.setdefault(find(name), len(numbers)) for name in sorted(root)}
