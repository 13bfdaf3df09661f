"""One field of a situation as a simulation: its nodes, what runs on them, and who comes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gsched.forecast.sampling import Floats
from gsched.forecast.situation import Demand, Piece, Situation
from gsched.policy.order_form import Discipline, OrderForm
from gsched.sim.cluster import SimCluster
from gsched.sim.core.midway import Holder, Midway, find_room, start_times
from gsched.sim.core.placement import can_ever_fit
from gsched.sim.jobs import ANY, Ints, SimJobs
from gsched.sim.rules import Placement, Scheduler, SimRules

RULES = SimRules(placement=Placement.CONSOLIDATED, scheduler=Scheduler.SLURM)
"""What is assumed of Slurm: EASY backfill by time limits, and the fullest nodes first."""

FIRST = -np.inf
"""The order of those that do not wait in a field: another one has let them start."""

Flags = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Comers:
    """Jobs that wait or will come, one a row, in order of `submit_s` (0 or less: they wait).

    `order` is on the scale of those that wait now: who comes later has it raised by what the others
    gain until then. `kind` is a code of `FieldRun.kind_of`, `limit_s` NaN where there is none.
    """

    submit_s: Floats
    order: Floats
    units: Ints
    nodes: Ints
    kind: Ints
    limit_s: Floats

    def __len__(self) -> int:
        return len(self.submit_s)

    def of(self, rows: NDArray[np.int64] | Flags) -> Comers:
        """Some of them."""
        return self._made_of(column[rows] for column in self._columns())

    def and_then(self, others: Comers) -> Comers:
        """These and others; the caller puts them in order."""
        pairs = zip(self._columns(), others._columns(), strict=True)
        return self._made_of(np.concatenate(pair) for pair in pairs)

    def _columns(self) -> list[NDArray[Any]]:
        return [getattr(self, column.name) for column in fields(self)]

    @staticmethod
    def _made_of(columns: Iterable[NDArray[Any]]) -> Comers:
        return Comers(*columns)


class FieldRun:
    """A field, ready to be run forward as often as needed.

    `holders` are rows of Situation.running, one for each row of what `run` takes as `remaining_s`,
    `held` the pieces that each has on the nodes of this field (their rows in the situation).
    `overcommitted` counts the units that running jobs hold beyond what is there.
    """

    def __init__(self, situation: Situation, field: int) -> None:
        self._field = field
        self._nodes = [row for row, node in enumerate(situation.nodes) if node.field == field]
        self._local = {row: number for number, row in enumerate(self._nodes)}
        kinds = dict.fromkeys(situation.nodes[row].kind for row in self._nodes)
        self._types = {kind: number for number, kind in enumerate(kinds)}
        self._sets: dict[tuple[int, ...], int] = {}
        self._bare = self._bare_cluster(situation)
        self._rules = replace(
            RULES,
            starvation_bound_s=situation.starvation_bound_s,
            backfill_depth=situation.backfill_depth,
        )
        closed = situation.fields[field]
        self._closed = (
            _seconds_to(situation, closed.closes_at),
            _seconds_to(situation, closed.opens_at),
        )
        self._begin(situation)

    @property
    def cluster(self) -> SimCluster:
        """The nodes, and the sets of kinds that jobs have asked for so far."""
        return replace(self._bare, type_sets=tuple(self._sets))

    def kind_of(self, demand: Demand) -> int:
        """The code of the kinds that a job asks for."""
        wanted = demand.kinds or tuple(self._types)
        types = tuple(sorted({self._types[kind] for kind in wanted if kind in self._types}))
        if len(types) == len(self._types):
            return ANY
        if len(types) == 1:
            return types[0]
        return len(self._types) + self._sets.setdefault(types, len(self._sets))

    def fits(self, comers: Comers) -> Flags:
        """Which of them find room where nothing else runs."""
        if not self._nodes:
            return np.zeros(len(comers), dtype=np.bool_)
        return can_ever_fit(_sim_jobs(comers, np.ones(len(comers))), self.cluster)

    def accepts(self, kind: int, row: int) -> bool:
        """Whether jobs with that code may use a node, by its row in the situation."""
        node_type = int(self._bare.node_type[self._local[row]])
        if kind < len(self._types):
            return kind in (ANY, node_type)
        return node_type in tuple(self._sets)[kind - len(self._types)]

    def run(
        self, remaining_s: Floats, comers: Comers, duration_s: Floats, awaited: Flags
    ) -> Floats:
        """When each of `comers`, who run for `duration_s`, starts, in seconds from now; NaN where
        that has not come to pass when all that are `awaited` have started.
        """
        held = Comers(
            submit_s=np.full(len(self._units), min(0.0, comers.submit_s.min(initial=0.0))),
            order=np.zeros(len(self._units)),
            units=self._units,
            nodes=np.zeros(len(self._units), dtype=np.int32),
            kind=np.full(len(self._units), ANY, dtype=np.int32),
            limit_s=self._limit_s,
        )
        lasting_s = np.concatenate((remaining_s, self._blocked_s, duration_s))
        jobs = _sim_jobs(held.and_then(comers), lasting_s)
        keys = np.concatenate((held.order, comers.order))
        waits = np.concatenate((np.zeros(len(held), dtype=np.bool_), awaited))
        form = OrderForm.static(keys, Discipline())
        return start_times(jobs, self.cluster, form, self._rules, self._midway, waits)[len(held) :]

    # -- what is the case now ---------------------------------------------------------------

    def _bare_cluster(self, situation: Situation) -> SimCluster:
        nodes = [situation.nodes[row] for row in self._nodes]
        return SimCluster(
            pools=(situation.fields[self._field].name,),
            first_node=np.array([0, len(nodes)]),
            node_names=[node.name for node in nodes],
            node_gpus=np.array([node.units for node in nodes], dtype=np.int32),
            node_switch=np.zeros(len(nodes), dtype=np.int32),
            node_type=np.array([self._types[node.kind] for node in nodes], dtype=np.int32),
            gpu_types=tuple(self._types) or ("",),
            type_speed=np.ones(max(len(self._types), 1)),
        )

    def _begin(self, situation: Situation) -> None:
        """Find out what is held by whom."""
        here = [
            (row, holder)
            for row, job in enumerate(situation.running)
            if (holder := self._holder(job.pieces, job.demands)) is not None
        ]
        blocked = [
            (blocked.until - situation.as_of, holder)
            for blocked in situation.blocked
            if (holder := self._holder(blocked.pieces, ())) is not None
        ]
        asked = [holder for _, holder in here] + [holder for _, holder in blocked]
        rooms = find_room(self.cluster, asked, RULES.placement) if self._nodes else []
        self.overcommitted = sum(_asked(one) for one in asked) - sum(
            gpus for room in rooms for _, gpus in room
        )
        kept = [number for number, room in enumerate(rooms) if room]
        self.holders = [here[number][0] for number in kept if number < len(here)]
        self._blocked_s = np.array(
            [blocked[number - len(here)][0] for number in kept if number >= len(here)]
        )
        self.held = [
            tuple(Piece(self._nodes[node], gpus) for node, gpus in rooms[number]) for number in kept
        ]
        self._note(situation, [rooms[number] for number in kept])

    def _holder(self, pieces: Sequence[Piece], demands: Sequence[Demand]) -> Holder | None:
        here = [(self._local[p.node], p.units) for p in pieces if p.node in self._local]
        if here:
            return Holder(here)
        if not pieces:
            for demand in demands:
                if demand.field == self._field:
                    return Holder((), self.kind_of(demand), demand.units, demand.nodes)
        return None

    def _note(self, situation: Situation, rooms: Sequence[Sequence[tuple[int, int]]]) -> None:
        """What `run` needs of it, by column."""
        running = [situation.running[row] for row in self.holders]
        limits = [np.nan if job.limit_s is None else job.limit_s for job in running]
        self._limit_s = np.concatenate((np.array(limits, dtype=np.float64), self._blocked_s))
        held_for = [situation.as_of - job.started_at for job in running]
        self._units = np.array([sum(gpus for _, gpus in room) for room in rooms], dtype=np.int32)
        counts = np.array([len(room) for room in rooms], dtype=np.int64)
        flat = np.array([piece for room in rooms for piece in room], dtype=np.int64).reshape(-1, 2)
        self._midway = Midway(
            held_for_s=np.concatenate((held_for, np.zeros(len(self._blocked_s)))),
            first_piece=np.concatenate(([0], np.cumsum(counts))),
            node=np.ascontiguousarray(flat[:, 0]),
            gpus=np.ascontiguousarray(flat[:, 1]),
            closes_s=self._closed[0],
            opens_s=self._closed[1],
        )


def _asked(holder: Holder) -> int:
    return sum(units for _, units in holder.pieces) or holder.num_gpus


def _seconds_to(situation: Situation, at: float | None) -> float:
    return np.inf if at is None else at - situation.as_of


def _sim_jobs(comers: Comers, duration_s: Floats) -> SimJobs:
    """As the simulator takes them: all in its first pool, and nobody's."""
    count = len(comers)
    none = np.full(count, ANY, dtype=np.int32)
    return SimJobs(
        cluster="",
        origin=0,
        ids=(),
        submit_s=comers.submit_s,
        duration_s=duration_s,
        num_gpus=comers.units,
        num_nodes=comers.nodes,
        num_cpus=comers.units,
        pool=np.zeros(count, dtype=np.int32),
        tenant=none,
        tenants=(),
        user=none,
        users=(),
        name=none,
        names=(),
        time_limit_s=comers.limit_s,
        deadline_s=np.full(count, np.nan),
        weight=np.ones(count),
        predicted_duration_s=np.full(count, np.nan),
        share_class=none,
        gpu_type=comers.kind,
    )
