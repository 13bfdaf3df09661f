"""What the GPUs of a cluster, and those of jobs, are worth where types differ.

What a job holds counts node by node. A node with GPUs of several types counts as the one that the
job asks for, or as their mean. What a job asks for that holds nothing counts as the least that it
could be given: the least type that it accepts in its pool.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from gsched.fairness.worth import weighted, worth_of
from gsched.model.cluster import ClusterState, NodeView
from gsched.model.job import JobView
from gsched.policy.pools import Pools


@dataclass(frozen=True, eq=False)
class Worth:
    """Of one snapshot. `weights` is the worth of a GPU by type, 1 where not named."""

    weights: Mapping[str, float]
    pools: Pools
    nodes: Mapping[str, NodeView]
    of_pool: Mapping[int, float]
    """All GPUs of a pool, those of nodes that are down or reserved as well."""
    types_of_pool: Mapping[int, frozenset[str]]

    @classmethod
    def of(cls, state: ClusterState, pools: Pools, weights: Mapping[str, float]) -> Worth:
        """As the nodes of a snapshot tell."""
        total: dict[int, float] = {}
        types: dict[int, frozenset[str]] = {}
        for node in state.nodes:
            if not node.partitions:
                continue
            pool = pools.of_partition[node.partitions[0]]
            total[pool] = total.get(pool, 0.0) + weighted(node.gpus, weights)
            here = frozenset(gpu_type for gpu_type, count in node.gpus if count)
            types[pool] = types.get(pool, frozenset()) | here
        return cls(weights, pools, {node.name: node for node in state.nodes}, total, types)

    def of_a_gpu(self, view: JobView) -> float:
        """Each GPU that a job holds, on average; where it holds none that are known, asks for."""
        held = view.allocation
        if not self.weights:
            return 1.0
        gpus = sum(held.gpus) if held is not None else 0
        if held is None or not (gpus and held.nodes and self.nodes.keys() >= set(held.nodes)):
            return self._asked(view)
        pieces = zip(held.nodes, held.gpus, strict=True)
        return sum(count * self._on_node(self.nodes[name], view) for name, count in pieces) / gpus

    def _on_node(self, node: NodeView, view: JobView) -> float:
        here = [kind for kind in node.gpus if kind[1]]
        asked = _types(view).intersection(gpu_type for gpu_type, _ in here)
        if asked:
            return min(worth_of(gpu_type, self.weights) for gpu_type in asked)
        return weighted(here, self.weights) / (sum(count for _, count in here) or 1)

    def _asked(self, view: JobView) -> float:
        accepted = _types(view) or self.types_of_pool.get(self.pools.of_job(view), frozenset())
        return min((worth_of(gpu_type, self.weights) for gpu_type in accepted), default=1.0)


def _types(view: JobView) -> frozenset[str]:
    return frozenset(o.gpu_type for o in view.request.gpu_options if o.gpu_type)
