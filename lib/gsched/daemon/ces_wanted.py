"""How many nodes of each pool waiting jobs could begin on, if they were awake. Pure.

Jobs are taken in Slurm's order, each put where it fits: small ones together on a node, large ones
on nodes of their own. The first that does not fit ends the count of its pools: nobody's waking
would help it, and what comes after it must not take what it waits for.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from gsched.daemon.ces_sight import NodeSight
from gsched.model.job import JobState
from gsched.policy.ces_state import BlockNeed
from gsched.slurm.records import QueueRow
from gsched.slurm.target_reservations import is_in_own

READY = frozenset({"", "Resources", "Priority"})
"""Slurm's reasons for which a job waits for nodes and for nothing else."""

MOST_JOBS = 5000
"""So many waiting jobs and array tasks are looked at, the first ones."""

MOST_BEGUN = 8
"""A small job is put beside others on one of so many nodes, those begun last."""

MOST_BLOCKS = 32
"""So many large jobs have their nodes kept together, the largest."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """Whole nodes that waiting jobs need, by pool, and the jobs of several nodes among them.

    A job that does not fit yet is in `blocks` too, where it comes first: what is idle waits for it.
    """

    nodes: Mapping[str, int]
    blocks: tuple[BlockNeed, ...]


@dataclass(slots=True)
class _Room:
    """What of a pool can still be given: whole nodes, and what is left of those begun."""

    gpus: Mapping[str, int]
    num_gpus: int
    cpus: int
    mem_bytes: int
    features: frozenset[str]
    free: int
    others: int = 0
    """Free nodes that energy saving leaves alone: Slurm uses them all the same."""
    taken: int = 0
    is_over: bool = False
    begun: list[list[float]] = field(default_factory=list)
    """[GPUs, CPUs, bytes] left of each node that holds small jobs."""

    def place(self, need: _Need) -> bool:
        """Give the job its nodes, if there are enough."""
        if need.num_nodes == 1:
            for left in self.begun[-MOST_BEGUN:]:
                if _fits(need, left):
                    _take(need, left)
                    return True
        if need.num_nodes > self.free + self.others:
            return False
        own = max(need.num_nodes - self.others, 0)
        self.others -= need.num_nodes - own
        self.free -= own
        self.taken += own
        if need.num_nodes == 1:
            left = [float(self.num_gpus), float(self.cpus), float(self.mem_bytes)]
            _take(need, left)
            self.begun.append(left)
        return True

    def could_hold(self, need: _Need) -> bool:
        """Whether its nodes are large enough, and of the kind."""
        return (
            need.gpus <= (self.gpus.get(need.gpu_type, 0) if need.gpu_type else self.num_gpus)
            and need.cpus <= self.cpus
            and need.mem_bytes <= self.mem_bytes
            and _has_features(need.features, self.features)
        )


@dataclass(frozen=True, slots=True)
class _Need:
    """What a job wants of each of its nodes."""

    num_nodes: int
    gpus: float
    gpu_type: str
    cpus: float
    mem_bytes: float
    features: str


def wanted_nodes(
    waiting: Iterable[QueueRow],
    sights: Sequence[NodeSight],
    usable: frozenset[str],
    partitions: Mapping[str, bool],
    others: frozenset[str] = frozenset(),
) -> Wanted:
    """What waiting jobs need of the nodes `usable`: idle ones, and those that could be woken.

    `others` are free nodes that are left alone; jobs begin on them as well. `partitions`: whether
    jobs begin in each. Partition limits and the nodes that jobs exclude are not known here: a job
    that only such a thing holds back counts as if nothing did. One with features in brackets or
    with numbers counts for nothing: Slurm wakes what it gives to it.
    """
    rooms = _rooms(sights, usable, others)
    where: dict[str, list[str]] = {}
    for sight in sights:
        for partition in sight.view.partitions:
            pools = where.setdefault(partition, [])
            if sight.pool not in pools:
                pools.append(sight.pool)
    blocks: list[BlockNeed] = []
    ready = [row for row in waiting if is_ready(row)]
    ready.sort(key=lambda row: (-row.priority, row.raw_id))
    left = MOST_JOBS
    for row in ready[:MOST_JOBS]:
        left -= _place(row, rooms, _pools(row, where, partitions), blocks, left)
        if left <= 0 or all(room.is_over for room in rooms.values()):
            break
    blocks.sort(key=lambda block: (-block.num_nodes, block.job))
    return Wanted({pool: room.taken for pool, room in rooms.items()}, tuple(blocks[:MOST_BLOCKS]))


def is_ready(row: QueueRow) -> bool:
    """Whether a job waits for nodes alone: not held, not for another job, a time or a limit."""
    return (
        row.state is JobState.PENDING
        and row.priority > 0
        and row.reason in READY
        and (not row.reservation or is_in_own(row))
    )


def _rooms(
    sights: Sequence[NodeSight], usable: frozenset[str], others: frozenset[str]
) -> dict[str, _Room]:
    rooms: dict[str, _Room] = {}
    features: dict[str, set[str]] = {}
    for sight in sights:
        view = sight.view
        room = rooms.get(sight.pool)
        if room is None:
            room = rooms[sight.pool] = _Room(
                dict(view.gpus), view.num_gpus, view.num_cpus, view.mem_bytes, frozenset(), 0
            )
        if sight.name in usable or sight.name in others:
            room.free += sight.name in usable
            room.others += sight.name in others
            features.setdefault(sight.pool, set()).update(view.features)
    for pool, found in features.items():
        rooms[pool].features = frozenset(found)
    return rooms


def _pools(
    row: QueueRow, where: Mapping[str, Sequence[str]], partitions: Mapping[str, bool]
) -> list[str]:
    found = (pool for p in row.partitions if partitions.get(p, True) for pool in where.get(p, ()))
    return list(dict.fromkeys(found))


def _place(
    row: QueueRow,
    rooms: Mapping[str, _Room],
    pools: Sequence[str],
    blocks: list[BlockNeed],
    most: int,
) -> int:
    """Put the tasks of a row (one, but for an array) where they fit; how many were looked at."""
    need = _need(row)
    fitting = [pool for pool in pools if rooms[pool].could_hold(need)]
    num_tasks = min(_num_tasks(row), most)
    for number in range(num_tasks):
        open_pools = [pool for pool in fitting if not rooms[pool].is_over]
        chosen = next((pool for pool in open_pools if rooms[pool].place(need)), None)
        if need.num_nodes > 1 and open_pools:
            blocks.append(BlockNeed(row.slurm_id, chosen or open_pools[0], need.num_nodes))
        if chosen is None:
            for pool in open_pools:
                rooms[pool].is_over = True
            return number + 1
    return num_tasks


def _num_tasks(row: QueueRow) -> int:
    if not row.is_unsplit_array:
        return 1
    tasks = row.tasks
    if not tasks:
        return 1
    return min(len(tasks), tasks.throttle or len(tasks))


def _need(row: QueueRow) -> _Need:
    nodes = max(row.min_nodes, 1)
    kind = next((option for option in row.gpu_options if option.gpu_type), None)
    return _Need(
        num_nodes=nodes,
        gpus=row.gpus_per_node or row.num_gpus / nodes,
        gpu_type=(kind.gpu_type or "") if kind else "",
        cpus=row.num_cpus / nodes,
        mem_bytes=row.mem_bytes / nodes,
        features=row.features,
    )


def _has_features(wish: str, there: frozenset[str]) -> bool:
    """Whether nodes with these features may serve: ``a&b|c``, as Slurm writes it."""
    if not wish:
        return True
    return any(there.issuperset(group.split("&")) for group in wish.split("|"))


def _fits(need: _Need, left: Sequence[float]) -> bool:
    return need.gpus <= left[0] and need.cpus <= left[1] and need.mem_bytes <= left[2]


def _take(need: _Need, left: list[float]) -> None:
    left[0] -= need.gpus
    left[1] -= need.cpus
    left[2] -= need.mem_bytes
