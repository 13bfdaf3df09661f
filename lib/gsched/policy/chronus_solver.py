"""Which targets can be kept together, by CP-SAT: asked where the greedy search found no plan.

Binary y[i, k]: job i holds slot k. In each slot no more GPUs than are free; a job is kept if its
slots, and the part of one before it is due, are as long as it needs, with what going on after each
break costs. One worker, a fixed seed and deterministic time: the same question has the same answer.
A limit of wall time stands behind, for safety; it is said when nothing was found.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from gsched.policy.chronus_calendar import Calendar, Span
from gsched.policy.chronus_plan import Need
from gsched.policy.chronus_slots import Slots, with_whole

if TYPE_CHECKING:
    from ortools.sat.python.cp_model import CpModel, IntVar

MOST_VARIABLES = 12_000
"""Slots are as long as it takes to keep the model below."""

LEAST_SLOTS = 8
WALL_S = 8.0
_SEED = 12


@dataclass(slots=True)
class Solver:
    """Answers as ``chronus_plan.Solver``, within `budget_s` deterministic seconds in all.

    `asked` and `gave_up` count questions, and those without an answer in time; `gap` is that of the
    last answer to what cannot all be kept.
    """

    budget_s: float
    base_s: int
    asked: int = 0
    gave_up: int = 0
    gap: float = 0.0

    def __call__(
        self, needs: Sequence[Need], free: Calendar, is_hard: bool
    ) -> Mapping[str, tuple[Span, ...]] | None:
        """Spans of those that are kept; None where no answer was found, or `is_hard` and not all
        can be.
        """
        begun = with_whole(needs, free)
        if self.budget_s <= 0 or begun is None or not needs:
            return None
        left, spans = begun
        cut = [need for need in needs if need.name not in spans]
        if not cut:
            return spans
        most = max(LEAST_SLOTS, MOST_VARIABLES // len(cut))
        slots = Slots.of(left, max(need.due for need in cut), self.base_s, most)
        self.asked += 1
        found = self._solved(_Model(cut, slots, is_hard))
        return None if found is None else {**spans, **found}

    def _solved(self, model: _Model) -> dict[str, tuple[Span, ...]] | None:
        from ortools.sat.python import cp_model

        solver = cp_model.CpSolver()
        solver.parameters.num_workers = 1
        solver.parameters.random_seed = _SEED
        solver.parameters.max_deterministic_time = self.budget_s
        solver.parameters.max_time_in_seconds = WALL_S
        status = solver.solve(model.model)
        self.budget_s -= solver.response_proto.deterministic_time
        if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
            self.gave_up += status != cp_model.INFEASIBLE
            return None
        bound, value = solver.best_objective_bound, solver.objective_value
        self.gap = max(0.0, 1 - value / bound) if bound > 0 else 0.0
        return model.spans(solver.boolean_value)


class _Model:
    """The model of jobs that can be cut."""

    def __init__(
        self,
        needs: Sequence[Need],
        slots: Slots,
        is_hard: bool,
    ) -> None:
        from ortools.sat.python import cp_model

        self.model: CpModel = cp_model.CpModel()
        self._needs, self._slots = needs, slots
        self._holds: dict[str, dict[int, IntVar]] = {}
        self._kept: dict[str, Any] = {}
        rewards = []
        for need in needs:
            self._holds[need.name] = holds = self._variables(need)
            seconds = sum(
                slots.seconds_for(need, number) * variable for number, variable in holds.items()
            )
            must = need.rest_s + self._breaks(need, holds)
            if is_hard:
                self.model.add(seconds >= must)
                continue
            kept = self.model.new_bool_var("")
            self.model.add(seconds >= must).only_enforce_if(kept)
            self._kept[need.name] = kept
            rewards.append(round(100 * need.reward) * kept)
        for number in range(len(slots)):
            asking = [n for n in needs if number in self._holds[n.name]]
            if sum(n.gpus for n in asking) > slots.free[number]:
                held = [n.gpus * self._holds[n.name][number] for n in asking]
                self.model.add(sum(held) <= max(0, slots.free[number]))
        if rewards:
            self.model.maximize(sum(rewards))
        self._hint_last()

    def _variables(self, need: Need) -> dict[int, IntVar]:
        return {
            number: self.model.new_bool_var("")
            for number in range(len(self._slots))
            if self._slots.seconds_for(need, number) > 0 and self._slots.free[number] >= need.gpus
        }

    def _breaks(self, need: Need, holds: Mapping[int, IntVar]) -> Any:
        """What going on after breaks costs: each piece but the first, which is free."""
        if not need.pieces.resume_s or not holds:
            return 0
        begins = []
        for number, variable in holds.items():
            begin = self.model.new_bool_var("")
            before = holds.get(number - 1)
            self.model.add(begin >= (variable if before is None else variable - before))
            begins.append(begin)
        pieces = self.model.new_int_var(0, len(begins), "")
        self.model.add(pieces >= sum(begins) - 1)
        return need.pieces.resume_s * pieces

    def _hint_last(self) -> None:
        """Begin with the last plan."""
        bounds = self._slots.bounds
        for need in self._needs:
            for number, variable in self._holds[need.name].items():
                middle = (bounds[number] + bounds[number + 1]) // 2
                inside = any(start <= middle < end for start, end in need.last)
                self.model.add_hint(variable, inside)

    def spans(self, is_true: Any) -> dict[str, tuple[Span, ...]]:
        """Those of the jobs that are kept."""
        found = {}
        for need in self._needs:
            if need.name in self._kept and not is_true(self._kept[need.name]):
                continue
            numbers = [n for n, variable in self._holds[need.name].items() if is_true(variable)]
            found[need.name] = self._slots.spans_of(need, numbers)
        return found
