"""One pass over an order, node by node: who gets GPUs, keeps them, or makes room for whom.

Counting GPUs alone is not enough for jobs that fill nodes: small ones that are spread over all of
them would keep such a job out for ever, though its turn has come. So each job that begins is put on
nodes, where it fits with the least GPUs taken from others, on the fullest of these; whoever comes
later in the order and does not fit beside it there leaves. Who stays stays where it is.

Live, giving way takes longer than a round. Who has been told to do so, and the waiting job for
which it is, stay chosen until the GPUs are free or the revoke has come to nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from gsched.model.cluster import ClusterState, NodeView
from gsched.model.job import JobState, JobView
from gsched.policy.pools import Pools
from gsched.policy.turns import Turns

if TYPE_CHECKING:
    from gsched.model.jobtable import JobTable

Parts = Mapping[str, int]
"""GPUs by name of the node."""


@dataclass(slots=True)
class _Node:
    """GPUs that are not given yet (`room`), and how many of these are held by jobs that come
    later, `laters` by their place in the order.
    """

    view: NodeView
    place: int
    room: int
    later: int = 0
    laters: list[int] = field(default_factory=list)

    @property
    def free(self) -> int:
        """GPUs for which nobody has to leave."""
        return self.room - self.later

    def cost(self, gpus: int) -> tuple[int, int, int, int]:
        """Of so many of its GPUs: those that are taken from others, the later in the order the
        better; then how much is left on the node.
        """
        taken = max(0, gpus - self.free)
        return taken, -min(self.laters) if taken else 0, self.room, self.place


@dataclass(slots=True)
class NodePass:
    """`rows` are waiting jobs and those running ones that may have to give way, in order; `ready`
    are the waiting ones that could start now. `takers` are by node who has been put there.
    For a row of `first` that finds no room yet nodes are `kept`, as leases end at different times:
    nobody begins there, and who runs there goes on without a new lease until it fits. `cells` are
    where a waiting job is to be put if it fits there; `given` is what each row got.
    """

    jobs: JobTable
    rows: list[int]
    ready: list[bool]
    nodes: dict[str, _Node]
    takers: dict[str, list[int]] = field(default_factory=dict)
    places: dict[int, int] = field(default_factory=dict)
    first: frozenset[int] = frozenset()
    kept: set[str] = field(default_factory=set)
    cells: Mapping[int, Parts] = field(default_factory=dict)
    given: dict[int, Parts] = field(default_factory=dict)

    @staticmethod
    def parts_of(view: JobView) -> dict[str, int]:
        """What a running job holds, by node."""
        held = view.allocation
        if held is None:
            return {}
        return {name: gpus for name, gpus in zip(held.nodes, held.gpus, strict=True) if gpus}

    @classmethod
    def of(
        cls,
        state: ClusterState,
        pools: Pools,
        rows: list[int],
        ready: list[bool],
        first: frozenset[int] = frozenset(),
    ) -> NodePass:
        """Over the usable nodes of a snapshot. What is being cleaned up is as good as free."""
        usable = [node for node in state.nodes if node.name in pools.usable]
        nodes = {
            node.name: _Node(node, number, max(0, node.num_gpus - node.gpus_used))
            for number, node in enumerate(usable)
        }
        self = cls(state.jobs, rows, ready, nodes)
        self.first = first
        self.places = {row: number for number, row in enumerate(rows)}
        for view in state.jobs.holders():
            if view.state is JobState.COMPLETING and pools.could_free(view):
                self._give(self.parts_of(view))
        for number, row in enumerate(rows):
            if state.jobs.running[row]:
                parts = self.parts_of(state.jobs.views[row])
                self._give(parts)
                for name, gpus in parts.items():
                    nodes[name].later += gpus
                    nodes[name].laters.append(number)
        return self

    def turns(self) -> Turns:
        """Who begins, stays and leaves; `ordered` are all rows, those under way first."""
        done = Turns()
        under_way = self._under_way()
        for row, victims in under_way.items():
            for victim in victims:
                self._no_longer_later(victim)
            parts = self._parts_for(row)
            if parts is not None:
                self._take(parts, row)
            done.begins.append(row)
            done.leaves += [(victim, row) for victim in victims]
        going = {victim for victims in under_way.values() for victim in victims}
        done.ordered = [*under_way, *(row for row in self.rows if row not in under_way)]
        for row in self.rows:
            if row in under_way or row in going:
                continue
            if self.jobs.running[row]:
                self._keep_or_leave(row, done)
            elif self.ready[row]:
                parts = self._parts_for(row)
                if parts is not None:
                    self._take(parts, row)
                    done.begins.append(row)
                elif row in self.first:
                    self._keep_nodes(self.jobs.views[row])
        return done

    def _keep_nodes(self, view: JobView) -> None:
        """Those nodes for a job on which it has most room already."""
        gpus, left = view.request.gpus.minimum, list[_Node]()
        for node in self.nodes.values():
            if _suits(node.view, view) and node.view.name not in self.kept:
                left.append(node)
        for node in sorted(left, key=lambda n: (-n.room, n.place)):
            if gpus <= 0:
                break
            gpus -= node.view.num_gpus
            self.kept.add(node.view.name)

    def _under_way(self) -> dict[int, list[int]]:
        """The waiting jobs for which GPUs are being freed, with those that give way for them."""
        named: dict[str, list[int]] = {}
        for row in self.rows:
            lease = self.jobs.views[row].lease if self.jobs.running[row] else None
            if lease is not None and lease.beneficiary:
                named.setdefault(lease.beneficiary, []).append(row)
        if not named:
            return {}
        return {
            row: named[self.jobs.keys[row].slurm_id]
            for row in self.rows
            if self.ready[row] and self.jobs.keys[row].slurm_id in named
        }

    def _keep_or_leave(self, row: int, done: Turns) -> None:
        parts = self.parts_of(self.jobs.views[row])
        self._no_longer_later(row)
        if all(self.nodes[name].room >= gpus for name, gpus in parts.items()):
            for name, gpus in parts.items():
                self.nodes[name].room -= gpus
            self.given[row] = parts
            if self.kept.isdisjoint(parts):
                done.stays.append(row)
            return
        whom = [taker for name in parts for taker in self.takers.get(name, ())]
        place = {taker: number for number, taker in enumerate(done.begins)}
        done.leaves.append((row, min(whom, key=place.__getitem__)))

    def _give(self, parts: Parts) -> None:
        for name, gpus in parts.items():
            self.nodes[name].room += gpus

    def _take(self, parts: Parts, row: int) -> None:
        self.given[row] = parts
        for name, gpus in parts.items():
            self.nodes[name].room -= gpus
            self.takers.setdefault(name, []).append(row)

    def _no_longer_later(self, row: int) -> None:
        """A running job whose turn it is, or that leaves already."""
        place = self.places[row]
        for name, gpus in self.parts_of(self.jobs.views[row]).items():
            self.nodes[name].later -= gpus
            self.nodes[name].laters.remove(place)

    # -- where a job fits ----------------------------------------------------------------------

    def _parts_for(self, row: int) -> Parts | None:
        """In the cell that was chosen for it, where it still fits there."""
        cell = self.cells.get(row)
        if cell and all(
            self.nodes[name].room >= gpus and self._is_open(self.nodes[name])
            for name, gpus in cell.items()
        ):
            return cell
        return self._place(self.jobs.views[row])

    def _is_open(self, node: _Node) -> bool:
        return node.room > 0 and node.view.name not in self.kept

    def _place(self, view: JobView) -> Parts | None:
        """On as few nodes as it may have; None where it does not fit."""
        gpus, request = view.request.gpus.minimum, view.request
        own = [
            node for node in self.nodes.values() if self._is_open(node) and _suits(node.view, view)
        ]
        if sum(node.room for node in own) < gpus:
            return None
        largest = max(node.view.num_gpus for node in own)
        fewest = max(1, request.nodes.minimum, -(-gpus // largest))
        most = max(fewest, min(request.nodes.maximum, len(own)))
        for num_nodes in range(fewest, most + 1):
            found = _on(own, _shares(gpus, num_nodes, largest, request.nodes.minimum))
            if found is not None:
                return found
        return None


def _shares(gpus: int, num_nodes: int, largest: int, asked_nodes: int) -> list[int]:
    """GPUs on each node: nodes that are filled and what is left, where the job leaves it open."""
    if asked_nodes <= 1 and gpus > largest and -(-gpus // largest) == num_nodes:
        rest = gpus % largest
        return [largest] * (gpus // largest) + ([rest] if rest else [])
    share, more = divmod(gpus, num_nodes)
    return [share + 1] * more + [share] * (num_nodes - more)


def _on(nodes: Iterable[_Node], shares: list[int]) -> dict[str, int] | None:
    """A node for each share: the fewest GPUs taken from others, then the fullest node."""
    left, found = list(nodes), dict[str, int]()
    for share in shares:
        fitting = [node for node in left if node.room >= share]
        if not fitting:
            return None
        best = min(fitting, key=lambda node: node.cost(share))
        found[best.view.name] = share
        left.remove(best)
    return found


def _suits(node: NodeView, view: JobView) -> bool:
    """Whether the node is of one of the job's partitions and has the GPUs that it asks for."""
    if not set(view.partitions[:1]) & set(node.partitions):
        return False
    types = {option.gpu_type for option in view.request.gpu_options} - {None}
    return not types or any(gpu_type in types for gpu_type, _ in node.gpus)
