"""Which partitions' waiting jobs Slurm may give the same GPUs, and whose come first. Pure.

Slurm takes waiting jobs by the PriorityTier of their partition, then by their sum, and gives nodes
that several partitions share to whoever comes first, whatever partition that is in.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from gsched.model.cluster import NodeView, PartitionView


@dataclass(frozen=True, slots=True)
class Rivals:
    """Partitions in which jobs may get the GPUs that a job waits for.

    Who waits in `equal` comes before it by a higher sum, who waits in `above` in any case.
    """

    equal: frozenset[str]
    above: frozenset[str]


class GpuLines:
    """The partitions of a cluster by the nodes with GPUs that they share."""

    def __init__(self, nodes: Iterable[NodeView], partitions: Iterable[PartitionView]) -> None:
        self._tiers = {p.name: p.tier for p in partitions}
        self._sharing: dict[str, set[str]] = {}
        for together in {node.partitions for node in nodes if node.num_gpus}:
            for name in together:
                self._sharing.setdefault(name, {name}).update(together)
        self._known: dict[tuple[str, ...], Rivals] = {}

    def rivals(self, partitions: Sequence[str]) -> Rivals:
        """Of a job that waits in all of `partitions`: where it shares nodes with another partition
        by several of its own, the one of the highest tier counts.
        """
        asked = tuple(partitions)
        if asked not in self._known:
            mine: dict[str, int] = {}
            for name in asked:
                for other in self._sharing.get(name, {name}):
                    mine[other] = max(mine.get(other, 0), self._tier(name))
            self._known[asked] = Rivals(
                frozenset(other for other, tier in mine.items() if self._tier(other) == tier),
                frozenset(other for other, tier in mine.items() if self._tier(other) > tier),
            )
        return self._known[asked]

    def _tier(self, name: str) -> int:
        return self._tiers.get(name, 1)


def highest(sums: Mapping[str, int], partitions: Collection[str]) -> int:
    """Of these partitions; 0 where none has a sum."""
    return max((sums.get(name, 0) for name in partitions), default=0)
