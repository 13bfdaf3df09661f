"""From a round to the model and back: who gets GPUs now, and what would have changed that."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from gsched.model.decision import JsonValue
from gsched.model.job import JobState, JobView
from gsched.policy.chronus_memory import name_of
from gsched.policy.chronus_order import DUE, IN_THE_WAY, Place
from gsched.policy.chronus_turns import NodePass
from gsched.policy.unisched_advice import Advice
from gsched.policy.unisched_cells import Cell, Ground, Kind, Parts, cells_of
from gsched.policy.unisched_model import (
    Choice,
    Group,
    InvalidModelError,
    Stay,
    TooLargeError,
    solve,
)
from gsched.policy.unisched_reward import (
    LEAST,
    Prices,
    best_effort,
    points_of,
    profile,
    value,
    with_deadline,
)

if TYPE_CHECKING:
    from gsched.policy.chronus_round import Round
    from gsched.policy.turns import Turns
    from gsched.policy.unisched import UniSched

GREEDY, CP_SAT = "greedy", "cp-sat"
"""Most choices are the greedy pass alone, which is near enough to the best."""

_MEASURED = "chronus.profiling"
_MOST_NAMED = 8

MOST_PROFILING = 0.25
"""The part of a pool that first runs of one user may take from others: as of all in `chronus`."""

_MOST_TOGETHER = 2**62 // 200
"""All values of a round: the model counts a hundredfold in 64 bits."""

_FAILURES = (
    ArithmeticError,
    LookupError,
    MemoryError,
    OSError,
    RuntimeError,
    TypeError,
    ValueError,
)
"""What a solver of another release, or out of memory, may raise."""


@dataclass(slots=True)
class Chooser:
    """Chooses for one round; `way` and `gap` tell how, once it has been called.

    `way`: ``greedy``, ``cp-sat``, or why no better choice came of the model: ``off``,
    ``no-solver``, ``too-large``, ``invalid`` (the solver does not take the model), ``failed`` (any
    other error of it), ``time-out``, ``no-better``. `points` are those of a lease by row,
    `values` as the model counts them.
    """

    round_: Round
    policy: UniSched
    way: str = GREEDY
    gap: float = 0.0
    points: dict[int, float] = field(default_factory=dict)
    values: dict[int, int] = field(default_factory=dict)
    due: frozenset[int] = frozenset()
    beyond: frozenset[int] = frozenset()  # first runs beyond what their user may have

    def __call__(
        self, rows: list[int], places: dict[int, Place], ready: list[bool]
    ) -> tuple[list[int], dict[int, Place], Turns]:
        """The order, its places and the turns; `rows` stand in the order of `chronus`."""
        places = {row: self._measured(row, places[row]) for row in rows}
        views = self.round_.state.jobs.views
        ready = [own and _has_a_gpu_a_node(views[row]) for row, own in enumerate(ready)]
        self.beyond = self._beyond(rows)
        self._weigh(rows, places)
        order = self._ordered(rows, places, frozenset())
        node_pass = self._pass(order, ready, {})
        grounds = [Ground(n.view, n.place, n.room) for n in node_pass.nodes.values()]
        turns = node_pass.turns()
        chosen = self._better(order, ready, node_pass, turns, grounds)
        if chosen is not None:
            better = self._ordered(rows, places, chosen.stays.union(chosen.starts))
            second = self._pass(better, ready, chosen.starts)
            its = second.turns()
            if self._sum(its) > self._sum(turns):
                order, node_pass, turns, self.way = better, second, its, CP_SAT
            else:
                self.way = "no-better"
        self.policy.ways[self.way] += 1
        prices = {row: value(self.points[row]) for row in rows}
        advice = Advice(self.round_, node_pass, grounds, prices, self.due)
        begins = set(turns.begins)
        told = {}
        for row in rows:
            told[row] = self._told(row, places[row], row in begins, advice if ready[row] else None)
        return order, told, turns

    # -- what each counts ----------------------------------------------------------------------

    def _measured(self, row: int, place: Place) -> Place:
        """Whoever has to be measured first is a profile run, whatever its limit says."""
        view = self.round_.state.jobs.views[row]
        if not self._is_measured(row, view) or view.awaits_profile:
            return place
        if place.part == IN_THE_WAY or place.code.startswith("chronus.refused"):
            return place
        params: dict[str, JsonValue] = {
            "profile_s": self.policy.seconds("profile_s"),
            "num_gpus": view.request.gpus.minimum,
        }
        return replace(place, code=_MEASURED, params=params)

    def _is_measured(self, row: int, view: JobView) -> bool:
        if name_of(view.key) in self.round_.standing or not view.request.gpus.minimum:
            return False
        return self.policy.is_to_be_measured(view, self.round_.expected(view))

    def _beyond(self, rows: Sequence[int]) -> frozenset[int]:
        """First runs that would take more of a pool for one user than `chronus` sets aside for all.

        They may have what nobody else wants; one of each user counts in full, however wide.
        """
        jobs, round_ = self.round_.state.jobs, self.round_
        held: dict[tuple[str, int], int] = {}
        found = set()
        for row in sorted(rows, key=lambda r: (not jobs.running[r], int(jobs.tie[r]))):
            view = jobs.views[row]
            if not self._is_measured(row, view):
                continue
            own = view.user, round_.pools.of_job(view)
            most = MOST_PROFILING * round_.views[own[1]].num_gpus if own[1] in round_.views else 0
            gpus = view.request.gpus.minimum
            if own in held and held[own] + gpus > most:
                found.add(row)
                continue
            held[own] = held.get(own, 0) + gpus
        return frozenset(found)

    def _weigh(self, rows: Sequence[int], places: Mapping[int, Place]) -> None:
        knobs, jobs = self.policy.knob_values, self.round_.state.jobs
        prices = Prices(
            float(self.policy.spot_lease_s),
            knobs["resume_s"],
            knobs["deadline_worth"],
            knobs["profile_wait_s"],
        )
        self.due = frozenset(row for row in rows if places[row].part == DUE)
        for row in rows:
            is_last = places[row].part == IN_THE_WAY
            points = 0.0 if is_last else self._points(row, jobs.views[row], prices)
            self.points[row], self.values[row] = points, value(points)
        rewards = {}
        for row in self.due:
            need = self.round_.standing[name_of(jobs.keys[row])].need
            rewards[row] = 1 if need is None else max(1, min(100, round(need.reward)))
        self.values |= _due_first({r: self.values[r] for r in rows if r not in self.due}, rewards)

    def _points(self, row: int, view: JobView, prices: Prices) -> float:
        round_, gpus = self.round_, view.request.gpus.minimum
        runs, left = view.state is JobState.RUNNING, self.round_.expected(view)
        if row in self.beyond:
            return points_of(LEAST)
        if self._is_measured(row, view):
            since = view.first_submit if view.eligible is None else view.eligible
            rest_s = _rest_s(self.policy.knob_values["profile_s"], view)
            return profile(rest_s, round_.now - since, gpus, prices)
        if left is None:
            return points_of(LEAST)
        size = gpus or view.request.num_cpus
        steps = round_.steps.get(row)
        if steps is not None and name_of(view.key) not in round_.standing:
            return with_deadline(steps, left.mean_s, round_.now, size, prices, runs)
        return best_effort(left.mean_s, size, prices, runs)

    # -- greedy, then the model ----------------------------------------------------------------

    def _ordered(
        self, rows: Sequence[int], places: Mapping[int, Place], chosen: frozenset[int]
    ) -> list[int]:
        """Those that are due, the chosen ones, the others, and who would be in the way; among them
        by points for a GPU.
        """
        jobs = self.round_.state.jobs

        def key(row: int) -> tuple[int, bool, float, int]:
            place, tie = places[row], int(jobs.tie[row])
            if place.part == DUE:
                return 0, bool(chosen) and row not in chosen, place.key, tie
            gpus = max(1, int(jobs.num_gpus[row]))
            return 1 + (place.part == IN_THE_WAY), row not in chosen, -self.points[row] / gpus, tie

        return sorted(rows, key=key)

    def _pass(self, order: list[int], ready: list[bool], cells: Mapping[int, Parts]) -> NodePass:
        found = NodePass.of(self.round_.state, self.round_.pools, order, ready, self.due)
        found.cells = cells
        return found

    def _sum(self, turns: Turns) -> int:
        return sum(self.values[row] for row in (*turns.begins, *turns.stays))

    def _better(
        self,
        order: Sequence[int],
        ready: Sequence[bool],
        node_pass: NodePass,
        turns: Turns,
        grounds: Sequence[Ground],
    ) -> Choice | None:
        """What the model chooses; None where it is not asked, or has no answer, with `way`."""
        running = self.round_.state.jobs.running
        asking = [row for row in order if running[row] or ready[row]]
        given = {*turns.begins, *turns.stays}
        if given.issuperset(asking):
            return None
        self.gap = self._gap(asking, given, grounds)
        if self.gap <= self.policy.knob_values["gap"]:
            return None
        budget_s = self.policy.knob_values["choose_s"]
        if not budget_s:
            self.way = "off"
            return None
        going = {victim for victim, _ in turns.leaves if self._is_going(victim)}
        stays, groups = self._model_of([row for row in asking if row not in going], grounds)
        try:
            found = solve(stays, groups, grounds, budget_s, node_pass.given)
        except TooLargeError:
            self.way = "too-large"
            return None
        except ImportError:
            self.way = "no-solver"
            return None
        except InvalidModelError:
            self.way = "invalid"
            return None
        except _FAILURES:  # a decision does not fail for what only would have made it better
            self.way = "failed"
            return None
        if found is None:
            self.way = "time-out"
            return None
        self.gap = found.gap
        return found

    def _is_going(self, row: int) -> bool:
        """Whether it has been told to go already."""
        lease = self.round_.state.jobs.views[row].lease
        return lease is not None and bool(lease.beneficiary)

    def _model_of(
        self, asking: Sequence[int], grounds: Sequence[Ground]
    ) -> tuple[list[Stay], list[Group]]:
        """Running jobs one by one, waiting ones by kind and value."""
        jobs = self.round_.state.jobs
        stays: list[Stay] = []
        alike: dict[tuple[Kind, int], list[int]] = {}
        for row in asking:
            if jobs.running[row]:
                parts = NodePass.parts_of(jobs.views[row])
                stays.append(Stay(row, self.values[row], parts))
            else:
                kind = Kind.of(jobs.views[row])
                alike.setdefault((kind, self.values[row]), []).append(row)
        cells: dict[Kind, tuple[Cell, ...]] = {}
        groups = []
        for (kind, own), rows in alike.items():
            if kind not in cells:
                cells[kind] = cells_of(kind, grounds)
            if cells[kind]:
                groups.append(Group(tuple(rows), kind.gpus, own, cells[kind]))
        return stays, groups

    def _gap(self, asking: Sequence[int], given: set[int], grounds: Sequence[Ground]) -> float:
        """How far, at most, the greedy choice lies below the best, as a part: against GPUs that
        could be cut into pieces. 1 where a target that is due has found no room.
        """
        round_, jobs = self.round_, self.round_.state.jobs
        room: dict[int, int] = {}
        for ground in grounds:
            pool = round_.pools.of_partition.get(ground.view.partitions[0], -1)
            room[pool] = room.get(pool, 0) + ground.room
        got, best = 0.0, 0.0
        items = []
        for row in asking:
            pool, gpus = round_.pools.of_job(jobs.views[row]), max(1, int(jobs.num_gpus[row]))
            if row in self.due:
                if row not in given:
                    return 1.0
                room[pool] = room.get(pool, 0) - gpus
                continue
            got += self.values[row] * (row in given)
            items.append((-self.values[row] / gpus, pool, gpus))
        for density, pool, gpus in sorted(items):
            part = min(gpus, max(0, room.get(pool, 0)))
            best -= density * part
            room[pool] = room.get(pool, 0) - part
        return round(max(0.0, 1.0 - got / best), 6) if best > 0 else 0.0

    # -- what is told --------------------------------------------------------------------------

    def _told(self, row: int, place: Place, begins: bool, advice: Advice | None) -> Place:
        """With the choice, and for who waits what would have changed it.

        Of one that could not start now there is no advice: nothing would.
        """
        view = self.round_.state.jobs.views[row]
        if view.state is not JobState.PENDING or not view.request.gpus.minimum:
            return place
        params: dict[str, JsonValue] = {**place.params, "is_chosen": begins}
        params["points"] = round(self.points[row], 3)
        if advice is None:
            return replace(place, params=params)
        if begins:
            names = sorted(advice.given(row))
            more = len(names) - _MOST_NAMED
            params["where"] = " ".join(names[:_MOST_NAMED]) + (f" +{more}" if more > 0 else "")
        else:
            params |= advice.of(Kind.of(view))
        return replace(place, params=params)


def _rest_s(profile_s: float, view: JobView) -> float:
    """What is left of a first short run."""
    gpus = max(1, view.request.gpus.minimum)
    return max(1.0, profile_s - (view.attained_gpu_s or 0.0) / gpus)


def _has_a_gpu_a_node(view: JobView) -> bool:
    """Whether a job asks for a GPU on each of its nodes; it can be put nowhere, else."""
    gpus = view.request.gpus.minimum
    return not gpus or view.request.nodes.minimum <= gpus


def _due_first(values: Mapping[int, int], rewards: Mapping[int, int]) -> dict[int, int]:
    """Values so that whoever is due, with its reward, comes before all that can be weighed.

    The values of the others are made smaller, all alike, where the sum would be too large.
    """
    total, found = sum(values.values()), dict(values)
    most = _MOST_TOGETHER // (1 + sum(rewards.values())) - len(values) - 1
    if total > most:
        found = {row: max(LEAST, own * max(0, most) // total) for row, own in values.items()}
    more = 1 + sum(found.values())
    return found | {row: more * own for row, own in rewards.items()}
