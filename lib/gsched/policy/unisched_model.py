"""The model of one round: which leases go on, which jobs start, and in which cells, by CP-SAT.

A running job whose lease is over goes on where it is, or gives way (a binary each). Waiting jobs
that are alike (kind and value) are counted together: so many of them start in each of their cells.
A cell's shares are put on nodes by whole numbers; on no node more GPUs than it has. Of jobs with
several equal shares no node holds more than there are such jobs: then, and only then, no two shares
of a job need lie on one node (bipartite graphs have colourings with as many colours as the largest
degree). The sum of values is the greatest that there is, or, after the time, that was found.

One worker, a fixed seed and deterministic time: the same question has the same answer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from gsched.policy.unisched_cells import Cell, Ground, Parts, parts_of

if TYPE_CHECKING:
    from ortools.sat.python.cp_model import CpModel, CpSolver, IntVar

MOST_VARIABLES = 20_000
"""A larger model is not asked."""

WALL_S = 4.0
"""Stands behind the deterministic limit, for safety."""

_SEED = 13


@dataclass(frozen=True, slots=True)
class Stay:
    """A running job that may go on in place, and what that counts."""

    row: int
    value: int
    parts: Parts


@dataclass(frozen=True, slots=True)
class Group:
    """Waiting jobs that are alike (`rows`, those first that come first): cells, GPUs and value."""

    rows: tuple[int, ...]
    gpus: int
    value: int
    cells: tuple[Cell, ...]


@dataclass(frozen=True, slots=True)
class Choice:
    """Who goes on, who starts where, and what it counts together; `gap` is how far, as a part,
    that may lie below the best. `way`: ``optimal`` or ``feasible``.
    """

    stays: frozenset[int]
    starts: Mapping[int, Parts]
    value: int
    way: str
    gap: float


class TooLargeError(Exception):
    """The model would have more than MOST_VARIABLES."""


class InvalidModelError(Exception):
    """The solver does not take the model."""


def solve(
    stays: Sequence[Stay],
    groups: Sequence[Group],
    grounds: Sequence[Ground],
    budget_s: float,
    hinted: Mapping[int, Parts] | None = None,
) -> Choice | None:
    """The best choice, within `budget_s` deterministic seconds; None where none was found in time.

    `hinted` is a choice to begin with: what each row gets. Raises ImportError without OR-Tools,
    TooLargeError and InvalidModelError.
    """
    from ortools.sat.python import cp_model

    model = _Model(stays, groups, grounds)
    model.hint(hinted or {})
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    solver.parameters.random_seed = _SEED
    solver.parameters.max_deterministic_time = budget_s
    solver.parameters.max_time_in_seconds = WALL_S
    status = solver.solve(model.model)
    if status == cp_model.MODEL_INVALID:
        raise InvalidModelError
    if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return None
    return model.choice(solver, status == cp_model.OPTIMAL)


class _Model:
    """Variables and constraints."""

    model: CpModel

    def __init__(
        self, stays: Sequence[Stay], groups: Sequence[Group], grounds: Sequence[Ground]
    ) -> None:
        from ortools.sat.python import cp_model

        self.model = cp_model.CpModel()
        self._stays, self._groups = stays, groups
        self._grounds = [g for g in grounds if g.room > 0]
        self._size = len(stays)
        self._on: dict[str, list[Any]] = {g.view.name: [] for g in self._grounds}
        self._keep: dict[int, IntVar] = {s.row: self.model.new_bool_var("") for s in stays}
        for stay in stays:
            for name, gpus in stay.parts.items():
                self._on.setdefault(name, []).append(gpus * self._keep[stay.row])
        self._starts: list[dict[Cell, IntVar]] = []
        in_cell: dict[Cell, list[IntVar]] = {}
        for group in groups:
            self._starts.append(own := {})
            self._count(len(group.cells))
            for cell in group.cells:
                own[cell] = self.model.new_int_var(0, len(group.rows), "")
                in_cell.setdefault(cell, []).append(own[cell])
            self.model.add(sum(own.values()) <= len(group.rows))
        self._pieces: dict[Cell, list[dict[str, IntVar]]] = {}
        for cell, numbers in in_cell.items():
            self._pieces[cell] = [self._shares(cell, share, sum(numbers)) for share in cell.shares]
        room = {g.view.name: g.room for g in self._grounds}
        for name, held in self._on.items():
            if held:
                self.model.add(sum(held) <= room.get(name, 0))
        self.model.maximize(self._total())

    def _count(self, more: int) -> None:
        self._size += more
        if self._size > MOST_VARIABLES:
            raise TooLargeError

    def _shares(self, cell: Cell, share: tuple[int, int], jobs: Any) -> dict[str, IntVar]:
        """How many shares of this size lie on each node; `jobs` of them need some."""
        gpus, a_job = share
        found: dict[str, IntVar] = {}
        for ground in self._grounds:
            if ground.room < gpus or not cell.suits(ground.view):
                continue
            name, most = ground.view.name, ground.room // gpus
            found[name] = here = self.model.new_int_var(0, most, "")
            self._on[name].append(gpus * here)
            if cell.needs_distinct and most > 1:
                self.model.add(here <= jobs)
        self._count(len(found))
        self.model.add(sum(found.values()) == a_job * jobs)
        return found

    def _total(self) -> Any:
        kept = [100 * stay.value * self._keep[stay.row] for stay in self._stays]
        begun = [
            cell.part * group.value * number
            for group, own in zip(self._groups, self._starts, strict=True)
            for cell, number in own.items()
        ]
        return sum([*kept, *begun])

    def hint(self, hinted: Mapping[int, Parts]) -> None:
        """Begin with a choice; of jobs with several cells it says nothing."""
        for row, variable in self._keep.items():
            self.model.add_hint(variable, row in hinted)
        for group, own in zip(self._groups, self._starts, strict=True):
            if len(own) == 1:
                (variable,) = own.values()
                self.model.add_hint(variable, sum(row in hinted for row in group.rows))

    def choice(self, solver: CpSolver, is_best: bool) -> Choice:
        """As the solver has it."""
        stays = frozenset(row for row, variable in self._keep.items() if solver.value(variable))
        whose: dict[Cell, list[tuple[int, int]]] = {}
        for group, own in zip(self._groups, self._starts, strict=True):
            rows = iter(group.rows)
            for cell, variable in own.items():
                count = solver.value(variable)
                whose.setdefault(cell, []).extend((next(rows), group.gpus) for _ in range(count))
        starts: dict[int, Parts] = {}
        for cell, jobs in whose.items():
            taken = self._taken(solver, cell, len(jobs))
            for (row, gpus), own_taken in zip(jobs, taken, strict=True):
                starts[row] = parts_of(gpus, own_taken)
        value, best = solver.objective_value, solver.best_objective_bound
        gap = max(0.0, 1.0 - value / best) if best > 0 else 0.0
        way = "optimal" if is_best else "feasible"
        return Choice(stays, starts, round(value / 100), way, round(gap, 6))

    def _taken(self, solver: CpSolver, cell: Cell, jobs: int) -> list[list[tuple[str, int]]]:
        """Nodes and shares of each of so many jobs: dealt out so that equal shares of one job lie
        on different nodes.
        """
        found: list[list[tuple[str, int]]] = [[] for _ in range(jobs)]
        for (gpus, _), nodes in zip(cell.shares, self._pieces[cell], strict=True):
            dealt = [
                name for name, variable in nodes.items() for _ in range(solver.value(variable))
            ]
            for number, name in enumerate(dealt):
                found[number % jobs].append((name, gpus))
        return found
