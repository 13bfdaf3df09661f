"""Cells: where on a cluster's own topology a job can be put (UniSched).

A cell is a number of GPUs on each of some nodes: a part of a node, whole nodes, nodes of one switch
where switches are known. Of jobs up to ENUMERATED GPUs all numbers of nodes that they may have are
tried, wider ones get whole nodes alone. What several switches share counts a little less.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gsched.model.cluster import NodeView
from gsched.model.job import JobView

ENUMERATED = 16
"""GPUs of the widest jobs of which all cells are tried."""

ACROSS, FURTHER = 5, 2
"""Percent of its value that a cell over several switches loses, and one for each node more than it
needs."""

MOST_CELLS = 64
"""Of one kind of job."""

Parts = Mapping[str, int]
"""GPUs by name of the node."""


@dataclass(frozen=True, slots=True)
class Ground:
    """A node with the GPUs that are to be given; `place` is its number."""

    view: NodeView
    place: int
    room: int


@dataclass(frozen=True, slots=True)
class Kind:
    """What of a job says where it can be put: jobs of one kind are alike for the model."""

    partition: str
    gpu_types: frozenset[str]
    gpus: int
    least_nodes: int
    most_nodes: int

    @classmethod
    def of(cls, view: JobView) -> Kind:
        """That of a job."""
        request = view.request
        types = frozenset(o.gpu_type for o in request.gpu_options if o.gpu_type is not None)
        partition = view.partitions[0] if view.partitions else ""
        nodes = request.nodes
        return cls(partition, types, request.gpus.minimum, nodes.minimum, nodes.maximum)

    def suits(self, node: NodeView) -> bool:
        """Whether such a job may use the node."""
        if self.partition not in node.partitions:
            return False
        return not self.gpu_types or any(name in self.gpu_types for name, _ in node.gpus)


@dataclass(frozen=True, slots=True)
class Cell:
    """So many GPUs on each of so many nodes (`shares`), all of one `switch` or, None, of any.

    `part` is the percentage of a job's value that counts here.
    """

    partition: str
    gpu_types: frozenset[str]
    shares: tuple[tuple[int, int], ...]
    switch: str | None = None
    part: int = 100

    @property
    def needs_distinct(self) -> bool:
        """Whether two shares of a job could come to lie on one node."""
        return len(self.shares) == 1 and self.shares[0][1] > 1

    def suits(self, node: NodeView) -> bool:
        """Whether the node can be a part of it."""
        if self.partition not in node.partitions:
            return False
        if self.switch is not None and node.topology != self.switch:
            return False
        return not self.gpu_types or any(name in self.gpu_types for name, _ in node.gpus)


def cells_of(kind: Kind, grounds: Sequence[Ground]) -> tuple[Cell, ...]:
    """All cells for such a job, on the nodes as they are; () where it never fits, nor has a GPU
    for each of its nodes.
    """
    if kind.least_nodes > kind.gpus:
        return ()
    own = [g for g in grounds if kind.suits(g.view) and g.view.num_gpus]
    if not own or not kind.gpus or sum(g.room for g in own) < kind.gpus:
        return ()
    largest = max(g.view.num_gpus for g in own)
    fewest = max(1, kind.least_nodes, -(-kind.gpus // largest))
    most = max(fewest, min(kind.most_nodes, len(own), kind.gpus))
    if kind.gpus > ENUMERATED:
        most = fewest
    found: list[Cell] = []
    for num_nodes in range(fewest, most + 1):
        shares = _shares(kind, num_nodes, largest)
        found += _in_switches(kind, shares, num_nodes, own, FURTHER * (num_nodes - fewest))
    return tuple(found[:MOST_CELLS])


def _in_switches(
    kind: Kind, shares: tuple[tuple[int, int], ...], num_nodes: int, own: list[Ground], less: int
) -> list[Cell]:
    """One cell a switch that could hold it, and one over all of them."""
    part = max(50, 100 - less)
    anywhere = Cell(kind.partition, kind.gpu_types, shares, None, part)
    switches = sorted({g.view.topology for g in own})
    if num_nodes == 1 or len(switches) < 2:
        return [anywhere]
    room = dict.fromkeys(switches, 0)
    for ground in own:
        room[ground.view.topology] += ground.room
    within = [
        Cell(kind.partition, kind.gpu_types, shares, switch, part)
        for switch in switches
        if switch and room[switch] >= kind.gpus
    ]
    across = Cell(kind.partition, kind.gpu_types, shares, None, part - ACROSS)
    return [*within[: MOST_CELLS - 1], across]


def _shares(kind: Kind, num_nodes: int, largest: int) -> tuple[tuple[int, int], ...]:
    """Whole nodes and what is left over, where the job leaves it open; else the same on each."""
    gpus = kind.gpus
    if kind.least_nodes <= 1 and gpus > largest and -(-gpus // largest) == num_nodes:
        rest = gpus % largest
        whole = ((largest, gpus // largest),)
        return (*whole, (rest, 1)) if rest else whole
    return ((-(-gpus // num_nodes), num_nodes),)


def parts_of(gpus: int, taken: Sequence[tuple[str, int]]) -> dict[str, int]:
    """What a job holds of the shares that were taken for it, of which the last may be too large."""
    left, found = gpus, dict[str, int]()
    for number, (name, share) in enumerate(taken):
        own = min(share, left - (len(taken) - number - 1))
        found[name] = own
        left -= own
    return found
