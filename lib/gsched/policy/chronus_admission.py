"""Who is promised a deadline, and what is told to whom it cannot be promised.

A newcomer is taken in if there is a plan that keeps all targets and it. Who is refused is told why,
from when on it could be promised, and with how many GPUs; each of these has been put into the
calendar as it is told.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from gsched.model.decision import Alternative, JsonValue
from gsched.model.job import JobKey, JobView
from gsched.model.targets import Steps, TargetRules
from gsched.policy.chronus_calendar import Span
from gsched.policy.chronus_memory import Asked, Book, Refusal, Target, Used, name_of
from gsched.policy.chronus_plan import Need, Plan, with_newcomer
from gsched.policy.chronus_pools import PoolView, types_of
from gsched.policy.chronus_room import LEAST_KEPT, Load, Room
from gsched.policy.chronus_solver import Solver
from gsched.policy.remaining import DEFAULT, Remaining

SEARCHES = 8
"""For so many newcomers of a round all targets of a pool are planned anew; others are taken in only
where there is room beside the plan that stands."""

MAX_BLOCKERS = 5
SOFT_STRETCH = 1.5
"""A refused deadline that could be kept within so many times the time until it is offered as the
first of soft ones."""

TOO_LATE, ROOM, NO_ROOM = "too-late", "room", "no-room"
"""Ends of the codes of refusals with which another time is offered."""

STRETCHES = (1.0, 1.3, 1.7, 2.5, 4.0, 8.0)
"""Times that are tried for a job too large for what may be promised: so many times as far as it
would need.
"""

LATER_S = 15
"""In which somebody comes back with a time that was offered, at least."""

ROUNDED_S = 60
"""Times that are offered are whole minutes: so users write them."""


@dataclass(frozen=True, slots=True)
class Newcomer:
    """A job that asks, and what is known of its run time."""

    view: JobView
    steps: Steps
    asked: Asked
    left: Remaining | None
    need: Need | None
    pool: int
    whose: str


@dataclass(frozen=True, slots=True)
class _No:
    """That a request is declined: the end of the reason's code, and what is known of it then."""

    code: str
    params: dict[str, JsonValue]


@dataclass(slots=True)
class PoolPlan:
    """One pool while newcomers are judged: its targets and their plan."""

    pool: PoolView
    needs: list[Need]
    plan: Plan
    keys: dict[str, JobKey]


@dataclass(slots=True)
class Desk:
    """Judges the newcomers of one round, one after the other.

    Whoever comes back with an offered time finds that GPUs have been given away for `lease_s` from
    now on. `margin_s` is how long before a deadline its target is planned to end. `held` are by
    user the targets that stand and their GPU-hours.
    """

    rules: TargetRules
    now: int
    quantile: float
    lease_s: int
    margin_s: Callable[[int], int]
    plans: dict[int, PoolPlan]
    held: dict[str, tuple[int, float]]
    solver: Solver | None = None
    loads: Mapping[int, Load] = field(default_factory=dict)
    room: float = 0.0
    searches: int = SEARCHES

    def judge(self, newcomers: Sequence[Newcomer], book: Book) -> list[tuple[Newcomer, _No]]:
        """Write into `book` which of them are targets; returns the others, and why they are not."""
        refused: list[tuple[Newcomer, _No]] = []
        for new in newcomers:
            answer = self._forbidden(new) or self._planned(new)
            if isinstance(answer, _No):
                refused.append((new, answer))
                continue
            book.targets[name_of(new.view.key)] = answer
            number, hours = self.held.get(new.whose, (0, 0.0))
            self.held[new.whose] = (number + 1, hours + answer.budget_gpu_s / 3600)
        for own in self.plans.values():  # the plan that has room for all of them, in case
            for name, spans in own.plan.spans.items():
                book.targets[name] = replace(book.targets[name], runs=spans)
        return refused

    def explain(self, refused: Sequence[tuple[Newcomer, _No]], book: Book) -> None:
        """Write into `book` what the refused are told. It holds beside `plans`, which are to be
        those that stand now that all have been judged.
        """
        for new, why in refused:
            book.refused[name_of(new.view.key)] = self._explained(new, why)

    # -- who may not, and what cannot be -------------------------------------------------------

    def _forbidden(self, new: Newcomer) -> _No | None:
        rules = self.rules
        rule, limit = rules.forbids(new.view), 0.0
        number, hours = self.held.get(new.whose, (0, 0.0))
        if (
            not rule
            and rules.max_horizon_s
            and new.steps.times[-1] > self.now + rules.max_horizon_s
        ):
            rule, limit = "max_horizon_s", float(rules.max_horizon_s)
        if not rule and rules.max_per_user and number >= rules.max_per_user:
            rule, limit = "max_per_user", float(rules.max_per_user)
        asked_h = new.need.need_s * new.view.request.gpus.minimum / 3600 if new.need else 0.0
        if not rule and 0 < rules.max_gpu_hours_per_user < hours + asked_h:
            rule, limit = "max_gpu_hours_per_user", rules.max_gpu_hours_per_user
        if not rule:
            return None
        return _No("rule", {"rule": rule, "limit": limit})

    # -- the plan ------------------------------------------------------------------------------

    def _planned(self, new: Newcomer) -> Target | _No:
        plan, need, left = self.plans[new.pool], new.need, new.left
        if not new.view.request.gpus.minimum:
            return _No("no-gpus", {})
        if need is None or left is None or left.source == DEFAULT:
            return _No("no-estimate", {})
        gpus, pool = new.view.request.gpus.minimum, plan.pool
        own = pool.of_types(types_of(new.view))
        usable, most = (int(self.rules.max_share * n) for n in own)
        if max(need.gpus, gpus) > most:
            return _No("too-wide", {"num_gpus": gpus, "pool_gpus": most})
        if need.gpus > usable:
            return _No("nodes-lost", {"num_gpus": gpus, "usable_gpus": usable, "pool_gpus": most})
        last = new.steps.times[-1]
        if need.begin + need.need_s > last - self.margin_s(last):
            return _No(TOO_LATE, {"remaining_s": need.need_s})
        gave_up, room, is_kept = self._gave_up, self._room(new, left, plan), False
        for due in new.steps.times:
            aimed = replace(need, due=due - self.margin_s(due), reward=new.steps.reward(due))
            found = self._with(plan, aimed)
            if found is not None and room is not None and not room.has(plan.needs, aimed):
                is_kept = True
            elif found is not None:
                plan.needs.append(aimed)
                plan.plan = found
                plan.keys[need.name] = new.view.key
                return self._target(new, due, aimed, found.spans[need.name], left)
        if is_kept:
            return _No(ROOM, {"remaining_s": need.need_s})
        return _No(NO_ROOM, {"remaining_s": need.need_s, "gave_up": self._gave_up > gave_up})

    def _room(self, new: Newcomer, left: Remaining, plan: PoolPlan) -> Room | None:
        """What may be promised to a job of this size; None where nothing is kept for others."""
        load = self.loads.get(new.pool)
        if load is None:
            return None
        gpus = new.view.request.gpus.minimum
        kept = self.room * load.share_of_smaller(left.mean_s * gpus, plan.pool.num_gpus)
        if kept < LEAST_KEPT:
            return None
        return Room.of(plan.pool.free, kept, plan.needs, plan.pool.num_gpus)

    @property
    def _gave_up(self) -> int:
        return 0 if self.solver is None else self.solver.gave_up

    def _with(self, plan: PoolPlan, need: Need) -> Plan | None:
        if need.begin + need.need_s > need.due:
            return None
        if self.searches == 0:
            spans = plan.plan.left.latest(
                need.gpus, need.need_s, (need.begin, need.due), need.pieces
            )
            if spans is None:
                return None
        found = with_newcomer(plan.needs, plan.plan, need, plan.pool.free, self.solver)
        self.searches -= found is None
        return found

    def _target(
        self, new: Newcomer, due: int, need: Need, spans: Sequence[Span], left: Remaining
    ) -> Target:
        return Target(
            new.asked,
            due,
            float(need.need_s * new.view.request.gpus.minimum),
            self.now,
            round(left.probability_within(sum(end - start for start, end in spans)), 4),
            new.view.restarts,
            Used.at_admission(new.view, self.now),
            tuple(spans),
        )

    # -- what is told --------------------------------------------------------------------------

    def _explained(self, new: Newcomer, why: _No) -> Refusal:
        asked, code = new.asked, f"chronus.refused-{why.code}"
        if why.code not in (TOO_LATE, ROOM, NO_ROOM) or new.need is None or new.left is None:
            return Refusal(asked, code, why.params)
        need, plan, due = new.need, self.plans[new.pool], new.steps.times[-1]
        room = self._room(new, new.left, plan)
        earliest, others = self._offers(new, need, plan, room)
        params: dict[str, JsonValue] = {
            **why.params,
            "deadline_time": due,
            "earliest_time": earliest or 0,
        }
        if why.code != TOO_LATE:
            params["num_gpus"] = new.view.request.gpus.minimum
        if why.code == ROOM and room is not None:
            params["smaller_share"] = round(room.kept, 3)
        if why.code == NO_ROOM:
            window = (need.begin, due)
            params["window_start_time"] = need.begin
            params["needed_gpu_s"] = need.gpu_s
            params["free_gpu_s"] = plan.plan.left.gpu_seconds(window)
            params["jobs"] = self._holders(plan, window)
        return Refusal(asked, code, params, earliest, others)

    def _holders(self, plan: PoolPlan, window: tuple[int, int]) -> list[JsonValue]:
        """The targets that hold most in the window."""
        held: list[tuple[int, int, str]] = []
        for need in plan.needs:
            spans = plan.plan.spans.get(need.name, ())
            seconds = sum(max(0, min(e, window[1]) - max(s, window[0])) for s, e in spans)
            if seconds > 0 and need.name in plan.keys:
                held.append((-seconds * need.gpus, need.tie, plan.keys[need.name].slurm_id))
        return [name for _, _, name in sorted(held)[:MAX_BLOCKERS]]

    # -- what could be instead -----------------------------------------------------------------

    def _offers(
        self, new: Newcomer, need: Need, plan: PoolPlan, room: Room | None
    ) -> tuple[int | None, tuple[Alternative, ...]]:
        """The earliest time at which it could be promised, and what else could be."""
        earliest, due = self._earliest(need, plan, room), new.steps.times[-1]
        if earliest is None:
            return None, ()
        gpus, probability = new.view.request.gpus.minimum, self.quantile
        others = [Alternative("later", earliest, gpus, probability)]
        narrower = self._narrower(new, need, plan, room)
        if narrower is not None:
            others.append(narrower)
        if len(new.steps.times) == 1 and earliest - self.now <= SOFT_STRETCH * (due - self.now):
            others.append(Alternative("soft", earliest, gpus, probability))
        return earliest, tuple(others)

    def _earliest(self, need: Need, plan: PoolPlan, room: Room | None) -> int | None:
        """A time by which there is room beside the plan, and, a few times as far, room that may be
        promised.
        """
        begin = max(need.begin, self.now + self.lease_s)
        spans = plan.plan.left.earliest(need.gpus, need.need_s, begin, need.pieces)
        if not spans:
            return None
        for stretch in STRETCHES:
            time = self._rounded(self.now + math.ceil(stretch * (spans[-1][1] - self.now)))
            if 0 < self.rules.max_horizon_s < time - self.now:
                return None
            aimed = replace(need, begin=begin, due=time - self.margin_s(time) - LATER_S)
            if room is None or room.has(plan.needs, aimed):
                return time
        return None

    def _narrower(
        self, new: Newcomer, need: Need, plan: PoolPlan, room: Room | None
    ) -> Alternative | None:
        """With fewer GPUs, of which each is taken to do as much as before: the most that fit."""
        gpus, due = new.view.request.gpus.minimum, new.steps.times[-1]
        begin = max(need.begin, self.now + self.lease_s)
        fewer = gpus // 2
        while fewer:
            set_aside, need_s = plan.pool.rounded(fewer), math.ceil(need.need_s * gpus / fewer)
            window = (begin, due - self.margin_s(due))
            aimed = replace(need, gpus=set_aside, need_s=need_s, begin=begin, due=window[1])
            fits = plan.plan.left.latest(set_aside, need_s, window, need.pieces) is not None
            if fits and (room is None or room.has(plan.needs, aimed)):
                return Alternative("fewer-gpus", due, fewer, self.quantile)
            fewer //= 2
        return None

    def _rounded(self, time: int) -> int:
        """A time to offer: whoever comes back with it comes later, and writes whole minutes."""
        later = time + max(LATER_S, (time - self.now) // 100)
        later += self.margin_s(later + (later - self.now) // 8)  # more than it will be
        return -(-later // ROUNDED_S) * ROUNDED_S
