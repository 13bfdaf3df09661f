"""The nodes of a cluster as a forecast sees them: fields in which jobs compete, kinds of nodes.

Partitions that share nodes, or that one waiting job names together, are one field; a job may use
those kinds of its nodes that its partitions, GPU types and features allow. Nodes that a reservation
to come takes from a field are kinds of their own: jobs whose limits reach into it leave them alone.

What this cannot express is left out, and said of the jobs that it concerns (`Asked.left_out`):
licences, a constraint of another form, more memory than goes with the GPUs or CPUs asked for, and
that nodes which a reservation will take close for what starts later and open again. Of no job is it
known here whether a generic resource beside GPUs, its switches (--switches), a partition's tier, or
nodes that it names or excludes (-w, -x) keep it waiting.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass, field, replace

from gsched.explain.features import parse_constraint
from gsched.forecast.situation import Blocked, Demand, Field, Node, Piece
from gsched.model.cluster import ClusterState, NodeView, PartitionView, ReservationView
from gsched.model.job import Allocation, Request

GPU, CPU = "GPU", "CPU"


@dataclass(frozen=True, slots=True)
class NodeKind:
    """What nodes of one kind have in common. `reserved` is from when and until when the next
    reservation to come takes them; of nodes that close with their whole field it is None.
    """

    partitions: frozenset[str]
    gpu_types: frozenset[str]
    features: frozenset[str]
    reserved: tuple[float, float] | None


@dataclass(frozen=True, slots=True)
class Asked:
    """What a job asks for of the ground. `left_out` are codes of what of it is not considered;
    `problem` is why no nodes are known for it, a code of ``no_start``, else "". Where a reservation
    takes all nodes that it could have until its limit, it cannot start before `begins_at`.
    """

    demands: tuple[Demand, ...] = ()
    left_out: tuple[str, ...] = ()
    problem: str = ""
    begins_at: float | None = None


@dataclass(frozen=True, eq=False)
class Ground:
    """Fields and nodes, and what of them jobs ask for and hold."""

    fields: tuple[Field, ...]
    nodes: tuple[Node, ...]
    blocked: tuple[Blocked, ...]
    _as_of: float
    _kinds: Sequence[NodeKind]
    _field_of: dict[tuple[str, str], int]  # (partition, unit) → row
    _largest: Sequence[dict[str, int]]  # by field: kind → units of its largest node
    _rows: dict[tuple[str, str], int]  # (node, unit) → row; without blocked nodes
    _mem_share: dict[tuple[str, str], float]  # (unit, kind) → the least bytes for each unit
    _lost: frozenset[str]  # partitions some of whose nodes cannot be used now
    _found: dict[object, Asked] = field(default_factory=dict)

    def asked(self, request: Request, partitions: tuple[str, ...], limit_s: float | None) -> Asked:
        """What a job with this request and this time limit (None: none) in these partitions asks
        for.
        """
        gpu_types = frozenset(o.gpu_type for o in request.gpu_options if o.gpu_type)
        end = math.inf if limit_s is None else self._as_of + limit_s
        reserved = frozenset(
            str(number)
            for number, kind in enumerate(self._kinds)
            if kind.reserved is not None and kind.reserved[0] < end
        )
        same = (
            partitions, request.gpus.minimum, request.num_cpus, request.nodes.minimum,
            gpu_types, request.features, bool(request.licences), request.mem_bytes, reserved,
        )  # fmt: skip
        found = self._found.get(same)
        if found is None:
            found = self._found[same] = self._asked(request, partitions, gpu_types, reserved)
        return found

    def _asked(
        self,
        request: Request,
        partitions: tuple[str, ...],
        gpu_types: frozenset[str],
        reserved: frozenset[str],
    ) -> Asked:
        constraint = parse_constraint(request.features) if request.features else None
        left_out = ["constraint"] if request.features and constraint is None else []
        left_out += ["licences"] if request.licences else []
        mine = {
            str(number)
            for number, kind in enumerate(self._kinds)
            if not kind.partitions.isdisjoint(partitions)
            and gpu_types <= kind.gpu_types
            and (constraint is None or constraint.takes(kind.features))
        }
        units = [(GPU, request.gpus.minimum), (CPU, request.num_cpus)]
        wanted = [(unit, number) for unit, number in units if number > 0]
        demands = self._demands(partitions, wanted, request, mine)
        if not demands:
            lost = not self._lost.isdisjoint(partitions)
            return Asked(problem="unknown-nodes" if lost or not wanted else "never")
        if self._lacks_memory(request, *wanted[0], mine):
            left_out.append("memory")
        barred = mine & reserved
        if any(self._kinds[int(kind)].reserved for kind in mine):
            left_out.append("reservation")
        if not barred:
            return Asked(demands, tuple(left_out))
        others = self._demands(partitions, wanted, request, mine - barred)
        if others and all(self._has_room(demand, mine - barred) for demand in others):
            return Asked(others, tuple(left_out))
        spans = [span for kind in barred if (span := self._kinds[int(kind)].reserved) is not None]
        return Asked(demands, tuple(left_out), begins_at=max(end for _, end in spans))

    def _lacks_memory(self, request: Request, unit: str, units: int, kinds: Set[str]) -> bool:
        """Whether on some of its nodes its share of the memory is less than it asks for."""
        shares = (self._mem_share.get((unit, kind), math.inf) for kind in kinds)
        return request.mem_bytes > units * min(shares)

    def _demands(
        self,
        partitions: tuple[str, ...],
        wanted: Sequence[tuple[str, int]],
        request: Request,
        kinds: Set[str],
    ) -> tuple[Demand, ...]:
        """On nodes of these kinds; none where one of those `wanted` has no such node."""
        demands = [
            self._demand(partitions, unit, units, request.nodes.minimum, kinds)
            for unit, units in wanted
        ]
        found = tuple(demand for demand in demands if demand is not None)
        return found if len(found) == len(demands) else ()

    def _demand(
        self, partitions: tuple[str, ...], unit: str, units: int, num_nodes: int, kinds: Set[str]
    ) -> Demand | None:
        rows = [self._field_of[name, unit] for name in partitions if (name, unit) in self._field_of]
        if not rows:
            return None
        largest = self._largest[rows[0]]
        mine = largest.keys() & kinds
        if not mine:
            return None
        fits = units <= num_nodes * max(largest[kind] for kind in mine)
        chosen = () if len(mine) == len(largest) else tuple(sorted(mine))
        # squeue shows 1 node of a job that left the number of nodes to Slurm
        return Demand(rows[0], units, max(1, num_nodes) if fits else 0, chosen)

    def _has_room(self, demand: Demand, kinds: Set[str]) -> bool:
        """Whether all nodes of these kinds together would do."""
        sizes = [n.units for n in self.nodes if n.field == demand.field and n.kind in kinds]
        return len(sizes) >= demand.nodes and sum(sizes) >= demand.units

    def has_lost(self, partitions: Iterable[str]) -> bool:
        """Whether some nodes of these partitions cannot be used now, but perhaps later."""
        return not self._lost.isdisjoint(partitions)

    def pieces(self, held: Allocation, num_cpus: int) -> tuple[Piece, ...]:
        """What a running job holds of the nodes that are there; CPUs in even shares."""
        gpus = [
            Piece(self._rows[name, GPU], units)
            for name, units in zip(held.nodes, held.gpus, strict=True)
            if units and (name, GPU) in self._rows
        ]
        share, rest = divmod(num_cpus, len(held.nodes))
        cpus = [
            Piece(self._rows[name, CPU], share + (number < rest))
            for number, name in enumerate(held.nodes)
            if share + (number < rest) and (name, CPU) in self._rows
        ]
        return (*gpus, *cpus)


def ground_of(state: ClusterState, together: Iterable[tuple[str, ...]]) -> Ground:
    """The ground of a snapshot; `together` are the partitions that jobs name with each other."""
    usable = [n for n in state.nodes if n.is_usable and n.partitions]
    up = {p.name for p in state.partitions if p.is_up}
    groups = _joined([*(n.partitions for n in usable), *together])
    kinds: dict[NodeKind, int] = {}
    fields: list[Field] = []
    nodes: list[Node] = []
    field_of: dict[tuple[str, str], int] = {}
    for unit in (GPU, CPU):
        for group in groups:
            here = [n for n in usable if n.partitions[0] in group and _units(n, unit)]
            if not here:
                continue
            field_of |= {(name, unit): len(fields) for name in group & up}
            made = Field(",".join(sorted(group)), unit)
            whole, parts = _to_come(here, state.reservations, state.as_of)
            fields.append(_with_closure(made, whole))
            spans = _next_spans(parts)
            nodes += [
                Node(n.name, len(fields) - 1, _units(n, unit), _kind(n, spans.get(n.name), kinds))
                for n in here
            ]
    largest: list[dict[str, int]] = [{} for _ in fields]
    for node in nodes:
        of_field = largest[node.field]
        of_field[node.kind] = max(node.units, of_field.get(node.kind, 0))
    memory = {n.name: n.mem_bytes for n in usable}
    mem_share: dict[tuple[str, str], float] = {}
    for node in nodes:
        place = fields[node.field].unit, node.kind
        share = memory[node.name] / node.units
        mem_share[place] = min(share, mem_share.get(place, share))
    rows = {(node.name, fields[node.field].unit): row for row, node in enumerate(nodes)}
    until = _reserved(state.reservations, state.as_of)
    blocked = {(name, unit): rows.pop((name, unit)) for name, unit in [*rows] if name in until}
    return Ground(
        fields=tuple(fields),
        nodes=tuple(nodes),
        blocked=tuple(
            Blocked((Piece(row, nodes[row].units),), float(until[name]))
            for (name, _), row in blocked.items()
        ),
        _as_of=float(state.as_of),
        _kinds=tuple(kinds),
        _field_of=field_of,
        _largest=largest,
        _rows=rows,
        _mem_share=mem_share,
        _lost=_lost(state.nodes, state.partitions),
    )


def _lost(nodes: Sequence[NodeView], partitions: Sequence[PartitionView]) -> frozenset[str]:
    down = {p.name for p in partitions if not p.is_up}
    return frozenset(down | {name for n in nodes if not n.is_usable for name in n.partitions})


def _units(node: NodeView, unit: str) -> int:
    return node.num_gpus if unit == GPU else node.num_cpus


def _kind(node: NodeView, reserved: tuple[float, float] | None, kinds: dict[NodeKind, int]) -> str:
    kind = NodeKind(
        frozenset(node.partitions),
        frozenset(name for name, _ in node.gpus),
        frozenset((*node.features, *node.available_features)),
        reserved,
    )
    return str(kinds.setdefault(kind, len(kinds)))


def _joined(sets: Iterable[tuple[str, ...]]) -> list[frozenset[str]]:
    """The names of all sets, those together that any set has together; in order of names."""
    of: dict[str, set[str]] = {}
    for names in set(sets):
        group = set(names).union(*(of.get(name, ()) for name in names))
        of |= dict.fromkeys(group, group)
    return sorted({frozenset(group) for group in of.values()}, key=sorted)


def _reserved(reservations: Sequence[ReservationView], as_of: int) -> dict[str, int]:
    """Nodes that a reservation keeps for itself now, and until when."""
    until: dict[str, int] = {}
    for one in reservations:
        if one.start_time <= as_of < one.end_time:
            for name in one.nodes:
                until[name] = max(until.get(name, 0), one.end_time)
    return until


def _to_come(
    nodes: Sequence[NodeView], reservations: Sequence[ReservationView], as_of: int
) -> tuple[list[ReservationView], list[ReservationView]]:
    """The reservations to come that take all of these nodes, and those that take some."""
    names = {n.name for n in nodes}
    to_come = [r for r in reservations if r.start_time > as_of]
    whole = [r for r in to_come if names <= set(r.nodes)]
    return whole, [r for r in to_come if not names <= set(r.nodes)]


def _with_closure(made: Field, whole: Sequence[ReservationView]) -> Field:
    """With the next reservation to come that takes all of its nodes, where there is one."""
    if not whole:
        return made
    first = min(whole, key=lambda r: r.start_time)
    return replace(made, closes_at=float(first.start_time), opens_at=float(first.end_time))


def _next_spans(parts: Sequence[ReservationView]) -> dict[str, tuple[float, float]]:
    """By node from when and until when the next of these reservations takes it."""
    latest_first = sorted(parts, key=lambda r: r.start_time, reverse=True)
    return {
        name: (float(one.start_time), float(one.end_time))
        for one in latest_first
        for name in one.nodes
    }
