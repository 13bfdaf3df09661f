"""The nodes of a simulation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gsched.sim.jobs import Floats, Ints


@dataclass(frozen=True, eq=False)
class SimCluster:
    """Nodes with GPUs in pools that share nothing (virtual clusters, partitions of their own).

    The nodes of pool p are the rows ``first_node[p]:first_node[p + 1]``. Nodes of one switch (a
    number that is unique over the pools) are near each other. A job runs `type_speed` times as
    fast on a GPU of that type as on the reference. A job whose type is ``len(gpu_types) + k`` may
    use GPUs of any of the types ``type_sets[k]``.
    """

    pools: tuple[str, ...]
    first_node: NDArray[np.int64]
    node_names: Sequence[str]
    node_gpus: Ints
    node_switch: Ints
    node_type: Ints
    gpu_types: tuple[str, ...]
    type_speed: Floats
    type_sets: tuple[tuple[int, ...], ...] = ()

    @classmethod
    def uniform(
        cls, nodes: Mapping[str, int], gpus_a_node: int = 8, nodes_a_switch: int = 0
    ) -> SimCluster:
        """Equal nodes, so many in each pool; `nodes_a_switch` = 0: one switch a pool."""
        counts = np.fromiter(nodes.values(), dtype=np.int64, count=len(nodes))
        first = np.concatenate(([0], np.cumsum(counts)))
        within = np.arange(first[-1]) - np.repeat(first[:-1], counts)
        group = within // nodes_a_switch if nodes_a_switch else np.zeros_like(within)
        pool = np.repeat(np.arange(len(counts)), counts)
        switches = np.unique(np.stack((pool, group)), axis=1, return_inverse=True)[1]
        total = int(first[-1])
        return cls(
            pools=tuple(nodes),
            first_node=first,
            node_names=[f"{name}-{n}" for name, many in nodes.items() for n in range(many)],
            node_gpus=np.full(total, gpus_a_node, dtype=np.int32),
            node_switch=switches.reshape(-1).astype(np.int32),
            node_type=np.zeros(total, dtype=np.int32),
            gpu_types=("",),
            type_speed=np.ones(1),
        )

    @property
    def num_nodes(self) -> int:
        """All nodes."""
        return len(self.node_gpus)

    @property
    def num_gpus(self) -> int:
        """All GPUs."""
        return int(self.node_gpus.sum())
