"""One decision of `chronus`: what it has promised, who asks, the plan, the order, the leases."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from gsched.model.cluster import ClusterState
from gsched.model.decision import Decision, JsonValue
from gsched.model.job import MAX_DEADLINE, Capability, JobKey, JobState, JobView
from gsched.model.targets import Steps, steps_of
from gsched.policy.chronus_admission import Desk, Newcomer, PoolPlan
from gsched.policy.chronus_answers import answers
from gsched.policy.chronus_calendar import FOREVER, Pieces, Span
from gsched.policy.chronus_memory import (
    MAX_REFUSED,
    MAX_REQUESTS,
    Asked,
    Book,
    Refusal,
    Target,
    name_of,
)
from gsched.policy.chronus_order import Choose, Ordered, in_order
from gsched.policy.chronus_plan import WAYS, Need, plan_for, spend_more
from gsched.policy.chronus_pools import PoolView, gives_way, held_until, pool_views
from gsched.policy.chronus_room import with_arrivals
from gsched.policy.chronus_solver import Solver
from gsched.policy.pools import Pools
from gsched.policy.preemption import GRACE
from gsched.policy.remaining import Remaining, remaining
from gsched.policy.tenant_use import held_gpus

if TYPE_CHECKING:
    from gsched.policy.chronus import Chronus

ALMOST_SURE = 0.98
"""A probability of which no more is asked."""

NEAR = 10
"""No margin is more than this part of the time until a deadline."""

Known = dict[tuple[int, bool], tuple[JobView, tuple[float, ...], Remaining | None]]
"""By number of a record, and by whether the job's own word may lower it: the record, by which knobs
it was reckoned, and what was."""

_ACTIVE = frozenset({JobState.PENDING, JobState.RUNNING, JobState.SUSPENDED})


@dataclass(frozen=True, slots=True)
class Standing:
    """A target as it is now: its row, what it still needs, and what of it is planned."""

    row: int
    target: Target
    left: Remaining | None
    need: Need | None
    pool: int


@dataclass(slots=True)
class Round:
    """All of one decision; made by `of`, which plans, and told by `decision`."""

    policy: Chronus
    state: ClusterState
    now: int
    pools: Pools
    book: Book
    steps: dict[int, Steps]
    solver: Solver
    standing: dict[str, Standing] = field(default_factory=dict)
    views: dict[int, PoolView] = field(default_factory=dict)
    plans: dict[int, PoolPlan] = field(default_factory=dict)
    known: Known = field(default_factory=dict)
    chances: dict[str, float] = field(default_factory=dict)

    @classmethod
    def of(
        cls, policy: Chronus, state: ClusterState, memory: Mapping[str, JsonValue], now: int
    ) -> Round:
        """With every request answered and every target planned."""
        found = {row: steps_of(view.wants) for row, view in enumerate(state.jobs.views)}
        steps = {row: own for row, own in found.items() if own is not None}
        solver = Solver(policy.knob_values["solve_s"], policy.seconds("lease_s"))
        self = cls(policy, state, now, Pools.of(state), Book.of(memory, now), steps, solver)
        self.book.loads = with_arrivals(self.book.loads, state, self.pools, self.expected, now)
        self._forget()
        self._stand()
        self._plan()
        newcomers = self._newcomers()
        if newcomers:
            desk = self._desk()
            refused = desk.judge(newcomers, self.book)
            self._stand()
            self._plan()
            desk.explain(refused, self.book)
        return self

    # -- who stands ----------------------------------------------------------------------------

    def _forget(self) -> None:
        """Those that have left the queue, and those that ask for something else now."""
        views = {name_of(view.key): view for view in self._asking()}
        asked = {name: self._asked(view) for name, view in views.items()}

        def stands(name: str, before: Asked) -> bool:
            return name in asked and before.is_still(asked[name], views[name].holds_gpus)

        book = self.book
        book.targets = {k: t for k, t in book.targets.items() if stands(k, t.asked)}
        book.refused = {k: r for k, r in book.refused.items() if stands(k, r.asked)}

    def _asking(self) -> list[JobView]:
        return [self.state.jobs.views[row] for row in self.steps]

    def _asked(self, view: JobView) -> Asked:
        pool = self.pools.names().get(self.pools.of_job(view), "")
        return Asked.of(view, self.steps[self.state.jobs.row(view.key)], pool)

    def _stand(self) -> None:
        """What each target needs now; what it has used is counted on."""
        self.standing = {}
        for row in self.steps:
            view = self.state.jobs.views[row]
            name = name_of(view.key)
            target = self.book.targets.get(name)
            if target is None or view.state not in _ACTIVE:
                continue
            asked = target.asked if view.holds_gpus else self._asked(view)
            target = replace(target, asked=asked, used=target.used.at(view, self.now))
            self.book.targets[name] = target
            pool = self.pools.of_job(view)
            left = self._remaining(view, may_lower=True)
            self.standing[name] = Standing(row, target, left, None, pool)
        targets = {one.row for one in self.standing.values()}
        spot_s = self.policy.spot_lease_s
        self.views = pool_views(self.state, self.pools, self.now, spot_s, self._safe_end, targets)
        for name, one in self.standing.items():
            if self.is_held(one):
                held = replace(one.target, is_behind=True)
                self.standing[name] = replace(one, target=held)
            else:
                self.standing[name] = replace(one, need=self._need_of(one))

    def is_held(self, one: Standing) -> bool:
        """Whether a target may not start: nothing is planned for it, others may have its room."""
        view = self.state.jobs.views[one.row]
        return view.eligible is None and not view.holds_gpus

    def _need_of(self, one: Standing) -> Need:
        """As far as its budget goes; what has cost time through no fault of its own is added."""
        view, target = self.state.jobs.views[one.row], one.target
        gpus = max(1, view.request.gpus.minimum)
        resumes = min(8, max(0, view.restarts - target.restarts))
        budget_s = (target.budget_gpu_s - target.used.gpu_s) / gpus
        budget_s += resumes * self.policy.seconds("resume_s")
        wanted_s = budget_s if one.left is None else min(one.left.safe_s, budget_s)
        need_s = max(1, math.ceil(wanted_s - 1e-6))
        return self._need(view, one.row, one.pool, need_s, target.due, target.runs)

    def _need(
        self,
        view: JobView,
        row: int,
        pool: int,
        need_s: int,
        due: int,
        last: tuple[Span, ...] = (),
    ) -> Need:
        held = 0
        can_stop = view.exclusion(Capability.PREEMPT) is None
        if view.holds_gpus:
            lease_s = self.policy.seconds("lease_s")
            held = held_until(view, self.pools, self.now, lease_s, lambda _v: self.now + need_s)
            can_stop = gives_way(view, self.pools)
            if can_stop and held < self.now + need_s:  # it may be stopped, and go on, once more
                need_s += self.policy.seconds("resume_s")
        num_gpus = held_gpus(view) if view.holds_gpus else view.request.gpus.minimum
        begin = max(self.now, view.eligible or 0)
        margin_s = max(0, min(self.margin_s(due), due - begin - need_s))
        return Need(
            name=name_of(view.key),
            gpus=max(self.views[pool].rounded(view.request.gpus.minimum), num_gpus),
            need_s=need_s,
            begin=begin,
            due=due - margin_s,
            reward=self.steps[row].reward(due),
            pieces=Pieces(self._least_run_s(), self.policy.seconds("resume_s"), not can_stop),
            tie=int(self.state.jobs.tie[row]),
            held_until=held,
            last=last,
            margin_s=margin_s,
        )

    def _least_run_s(self) -> int:
        return max(1, self.policy.seconds("least_run_s") or self.policy.seconds("lease_s") // 4)

    # -- the plan ------------------------------------------------------------------------------

    def _plan(self) -> None:
        keys = {name: self.state.jobs.keys[one.row] for name, one in self.standing.items()}
        needs: dict[int, list[Need]] = {pool: [] for pool in self.views}
        for one in self.standing.values():
            if one.need is not None and not one.target.is_behind:
                needs[one.pool].append(one.need)
        for pool, own in needs.items():
            view = self.views[pool]
            if self.policy.rules.max_share < 1:
                most = int(self.policy.rules.max_share * view.num_gpus)
                view.free.at_most(most, (self.now, FOREVER))
            self.plans[pool] = PoolPlan(view, own, plan_for(own, view.free, self.solver), keys)
        ways = [own.plan.way for own in self.plans.values()]
        self.book.way = max(ways, key=WAYS.index, default=WAYS[0])
        self.book.gap = max((p.plan.gap for p in self.plans.values()), default=0.0)
        for name, one in self.standing.items():
            plan, need, is_behind = self.plans[one.pool].plan, one.need, one.target.is_behind
            if need is not None and is_behind:
                plan.spans[name] = ()
                spend_more(plan, need, need.need_s)
                is_behind = not plan.spans[name] or plan.spans[name][-1][1] > need.due
            if need is not None and one.left is not None and math.isfinite(one.left.safe_s):
                spend_more(plan, need, math.ceil(one.left.safe_s - 1e-6) - need.need_s)
            spans = plan.spans.get(name, ())
            self.book.targets[name] = replace(one.target, runs=spans, is_behind=is_behind)

    # -- who asks ------------------------------------------------------------------------------

    def _newcomers(self) -> list[Newcomer]:
        """Jobs whose request has no answer yet, and which could start; those that came first first,
        the smallest of those that came together first.
        """
        found = []
        for row, steps in self.steps.items():
            view = self.state.jobs.views[row]
            name = name_of(view.key)
            if name in self.book.targets or name in self.book.refused:
                continue
            if view.state not in _ACTIVE or view.exclusion(Capability.ADMIT) is not None:
                continue
            if view.waiting_tasks > 1 or (view.eligible is None and not view.holds_gpus):
                continue
            if view.awaits_profile:  # what is known of it comes with them
                continue
            pool = self.pools.of_job(view)
            left = self._remaining(view, may_lower=False)
            need = None
            if left is not None and math.isfinite(left.safe_s) and view.request.gpus.minimum:
                need_s = max(1, math.ceil(left.safe_s - 1e-6))
                need = self._need(view, row, pool, need_s, steps.times[-1])
            asked = self._asked(view)
            found.append(Newcomer(view, steps, asked, left, need, pool, view.user))
        found = self._not_too_many(found)
        size = {id(n): n.need.gpu_s if n.need else 0 for n in found}
        tie = self.state.jobs.tie
        return sorted(found, key=lambda n: (size[id(n)], int(tie[self.state.jobs.row(n.view.key)])))

    def _not_too_many(self, newcomers: list[Newcomer]) -> list[Newcomer]:
        """Those that are judged: of one user, and of all, not too many, the first ones first."""
        jobs, book = self.state.jobs, self.book
        names = {name_of(view.key): view.user for view in self._asking()}
        judged = Counter(names[name] for name in (*book.targets, *book.refused))
        total, found = len(book.refused), []
        for new in sorted(newcomers, key=lambda n: int(jobs.tie[jobs.row(n.view.key)])):
            judged[new.view.user] += 1
            total += 1
            if judged[new.view.user] <= MAX_REQUESTS and total <= MAX_REFUSED:
                found.append(new)
                continue
            params: dict[str, JsonValue] = {"rule": "max_requests", "limit": MAX_REQUESTS}
            refusal = Refusal(new.asked, "chronus.refused-rule", params)
            book.passed_over[name_of(new.view.key)] = refusal
        return found

    def _desk(self) -> Desk:
        held: dict[str, tuple[int, float]] = {}
        for one in self.standing.values():
            user = self.state.jobs.views[one.row].user
            number, hours = held.get(user, (0, 0.0))
            held[user] = (number + 1, hours + one.target.budget_gpu_s / 3600)
        return Desk(
            self.policy.rules,
            self.now,
            self.policy.knob_values["quantile"],
            self.horizon_s,
            self.margin_s,
            self.plans,
            held,
            self.solver,
            {pool: self.book.loads[name] for pool, name in self.pools.names().items()},
            self.policy.knob_values["room"],
        )

    def margin_s(self, due: int) -> int:
        """So long before it is due a target is planned to end: less where it is due soon."""
        return max(0, min(self.policy.seconds("margin_s"), (due - self.now) // NEAR))

    @property
    def horizon_s(self) -> int:
        """A target whose latest start is not further away comes first: whoever gets GPUs now keeps
        them for a lease, and then takes his time to leave.
        """
        names = (GRACE.name, "lead_s", "resume_s")
        return self.policy.spot_lease_s + sum(map(self.policy.seconds, names))

    def spans_of(self, one: Standing) -> tuple[Span, ...]:
        """How a target is planned; () where it finds no room, or nothing is planned for it."""
        name = name_of(self.state.jobs.keys[one.row])
        return self.plans[one.pool].plan.spans.get(name, ())

    def is_due(self, one: Standing) -> bool:
        """Whether a target comes first now; one for which there is no room at all does, too: it
        shall have the first that there is.

        One that runs goes on doing so until it is a lease ahead: it would be stopped for little.
        """
        spans = self.spans_of(one)
        if one.need is None or not spans:
            return one.need is not None
        runs = self.state.jobs.views[one.row].holds_gpus
        ahead_s = self.policy.seconds("lease_s") if runs else 0
        return spans[0][0] <= self.now + self.horizon_s + ahead_s

    # -- what is known -------------------------------------------------------------------------

    def _remaining(self, view: JobView, may_lower: bool) -> Remaining | None:
        """What a waiting job needs does not change while nothing is told anew of it."""
        knobs = self.policy.knob_values
        ways = (knobs["quantile"], knobs["relative_error"], knobs["resume_s"], may_lower)
        if view.state is not JobState.PENDING:
            return remaining(view, self.now, *ways)
        before = self.policy.known.get((id(view), may_lower))
        if before is not None and before[0] is view and before[1] == ways:
            found = before[2]
        else:
            found = remaining(view, self.now, *ways)
        self.known[id(view), may_lower] = (view, ways, found)
        return found

    def expected(self, view: JobView) -> Remaining | None:
        """For the order: a job's own word makes nobody shorter."""
        return self._remaining(view, may_lower=False)

    def _safe_end(self, view: JobView) -> float:
        left = self._remaining(view, may_lower=False)
        return math.inf if left is None else self.now + left.safe_s

    # -- what is decided -----------------------------------------------------------------------

    def decision(self, choose: Choose | None = None) -> Decision:
        """Ranks, reasons, leases and answers."""
        told: Ordered = in_order(self, choose)
        self.policy.known = self.known
        actions = (*told.actions, *answers(self))
        return Decision(told.order, actions, told.reasons, self.book.document(), told.wakeup)

    def asks(self, view: JobView) -> bool:
        """Whether a job names a deadline."""
        return self.state.jobs.row(view.key) in self.steps

    def refusal(self, key: JobKey) -> Refusal | None:
        """Why a job was refused; None where it was not."""
        name = name_of(key)
        return self.book.refused.get(name) or self.book.passed_over.get(name)

    def finish_time(self, one: Standing) -> int:
        """The deadline that is kept; where none is, when the job is planned to end.

        MAX_DEADLINE where it finds no room at all.
        """
        spans = self.spans_of(one)
        ends = spans[-1][1] if spans else MAX_DEADLINE
        kept = next((time for time in one.target.asked.times if ends <= time), ends)
        return min(kept, MAX_DEADLINE)

    def probability(self, one: Standing) -> float:
        """That it ends until the deadline that was promised, as things stand."""
        name = name_of(self.state.jobs.keys[one.row])
        if name not in self.chances:
            self.chances[name] = self._probability(one)
        return self.chances[name]

    def _probability(self, one: Standing) -> float:
        plan, due = self.plans[one.pool].plan, one.target.due
        spans, need = self.spans_of(one), one.need
        if one.left is None or need is None or due <= self.now:
            return 0.0
        planned = sum(max(0, min(end, due) - start) for start, end in spans)
        found = one.left.probability_within(planned)
        if found < ALMOST_SURE:  # with all the time in which there are GPUs for it
            room = plan.left.copy()
            room.give(spans, need.gpus)
            found = one.left.probability_within(room.seconds_free(need.gpus, (need.begin, due)))
        return round(found, 4)
