"""In which order `chronus` gives GPUs now: due targets, Profiling, Spot, who would be in the way.

Which of the waiting jobs begin, and who gives way to them, is told by ``chronus_turns``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from gsched.model.decision import Action, Grant, JsonValue, Renew
from gsched.model.job import Capability, JobState, JobView
from gsched.policy.chronus_calendar import FOREVER, Calendar
from gsched.policy.chronus_memory import name_of
from gsched.policy.chronus_turns import NodePass
from gsched.policy.preemption import GRACE, lease_actions, may_give_way, next_wakeup
from gsched.policy.ranking import position_level, rank_queues
from gsched.policy.remaining import DEFAULT, LIMIT, Remaining

if TYPE_CHECKING:
    from gsched.model.jobtable import FloatColumn, IntColumn
    from gsched.model.ranks import RankTable, ReasonTable
    from gsched.policy.chronus_round import Round, Standing
    from gsched.policy.turns import Turns

DUE, PROFILING, SPOT, IN_THE_WAY = range(4)
"""The parts of an order, in order."""

_UNKNOWN_S = float(FOREVER)
_MOST_PROFILING = 0.25
"""At most this part of a pool's GPUs are for jobs of which nothing is known."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a job stands: its part, the key within it, and the reason."""

    part: int
    key: float
    code: str
    params: Mapping[str, JsonValue]


@dataclass(frozen=True, slots=True)
class Ordered:
    """What of a decision follows from the order."""

    order: RankTable
    reasons: ReasonTable
    actions: tuple[Action, ...]
    wakeup: int | None


Choose = Callable[
    [list[int], dict[int, Place], list[bool]], tuple[list[int], dict[int, Place], "Turns"]
]
"""Rows in order, their places, and which are ready → the same as chosen, and who gets GPUs."""


def in_order(round_: Round, choose: Choose | None = None) -> Ordered:
    """The order, who gets GPUs by it, and when to look again; `choose` may choose otherwise."""
    import numpy as np

    from gsched.model.ranks import ReasonTable
    from gsched.policy.order_form import Discipline, Misfit, OrderForm

    state, policy, now = round_.state, round_.policy, round_.now
    jobs = state.jobs
    gives_way = np.full(len(jobs), False)
    for row in jobs.select(jobs.running & (jobs.num_gpus > 0)).tolist():
        gives_way[row] = may_give_way(jobs.views[row], round_.pools, now)
    rows = jobs.select(jobs.pending | gives_way).tolist()
    whose = _Places(round_)
    places = whose.of(rows)
    rows.sort(key=lambda row: (places[row].part, places[row].key, int(jobs.tie[row])))
    ready = (jobs.reorderable & (jobs.num_gpus > 0) & ~np.isnan(jobs.waiting_since)).tolist()
    if choose is None:
        due = frozenset(row for row in rows if places[row].part == DUE)
        turns = NodePass.of(state, round_.pools, rows, ready, due).turns()
    else:
        rows, places, turns = choose(rows, places, ready)
    keys = np.zeros(len(jobs))
    keys[rows] = np.arange(len(rows))
    lease_s = policy.knob_values["lease_s"]
    form = OrderForm.static(keys, Discipline(True, Misfit.SKIP, lease_s))
    grace_s = policy.seconds(GRACE.name)
    given = lease_actions(policy.name, state, form, turns, grace_s, now)
    actions = tuple([_with_length(action, round_) for action in given])
    reasons = {
        jobs.keys[row]: (places[row].code, places[row].params)
        for row in rows
        if jobs.reorderable[row]
    }
    for one in round_.standing.values():  # those that run, or are held, have a reason as well
        if not jobs.pending[one.row] or round_.is_held(one):
            place = whose.of_target(jobs.views[one.row], one)
            reasons[jobs.keys[one.row]] = (place.code, place.params)
    ordered = np.array(turns.ordered, dtype=np.int64)
    order = _ranks(round_, ordered[jobs.reorderable[ordered]], keys)
    wakeup = next_wakeup(state, form, actions, now)
    return Ordered(order, _reasons(ReasonTable, round_, reasons), actions, _soonest(round_, wakeup))


def _reasons(table: Any, round_: Round, reasons: Mapping[Any, tuple[str, Any]]) -> ReasonTable:
    """Each policy that plans tells its reasons by its own name."""
    from gsched.model.decision import Reason

    name = round_.policy.name
    made = {
        key: Reason(f"{name}.{code.partition('.')[2]}", params)
        for key, (code, params) in reasons.items()
    }
    found: ReasonTable = table.of(made, round_.state.jobs)
    return found


def _ranks(round_: Round, ordered: IntColumn, keys: FloatColumn) -> RankTable:
    import numpy as np

    has_gpus = round_.state.jobs.num_gpus[ordered] > 0
    queues = {"gpu": ordered[has_gpus], "cpu": ordered[~has_gpus]}

    def levels(_queue: str, in_order: FloatColumn) -> FloatColumn:
        return position_level(np.arange(1, len(in_order) + 1), len(in_order))

    return rank_queues(round_.state.jobs, keys, queues, levels)


def _with_length(action: Action, round_: Round) -> Action:
    """A lease of a target is as long as its plan has it run from now on, `lease_s` at most.

    All others, and targets that have time, get GPUs for as long as Spot has them: so a target whose
    time has come waits for no more than that.
    """
    if not isinstance(action, Grant | Renew):
        return action
    one, now = round_.standing.get(name_of(action.key)), round_.now
    length_s = round_.policy.spot_lease_s
    spans = () if one is None else round_.spans_of(one)
    if spans and spans[0][0] <= now:
        length_s = max(length_s, min(action.length_s, spans[0][1] - now))
    return replace(action, length_s=length_s)


def _soonest(round_: Round, wakeup: int | None) -> int | None:
    """Also when the next target comes first."""
    times = [] if wakeup is None else [wakeup]
    for one in round_.standing.values():
        spans = round_.spans_of(one)
        if spans and spans[0][0] - round_.horizon_s > round_.now:
            times.append(spans[0][0] - round_.horizon_s)
    return min(times, default=None)


class _Places:
    """Which part each job belongs to."""

    def __init__(self, round_: Round) -> None:
        self._round = round_
        self._free: dict[int, Calendar] = {
            pool: own.plan.left.copy() for pool, own in round_.plans.items()
        }

    def of(self, rows: list[int]) -> dict[int, Place]:
        """By row."""
        jobs = self._round.state.jobs
        known = {row: self._known(jobs.views[row]) for row in rows}
        places: dict[int, Place] = {}
        for row in rows:
            view = jobs.views[row]
            one = self._round.standing.get(name_of(view.key))
            if one is not None:
                places[row] = self.of_target(view, one)
        others = [row for row in rows if row not in places]
        profiled = self._profiled(others, known)
        others.sort(key=lambda row: (_service(jobs.views[row], known[row]), int(jobs.tie[row])))
        for row in others:
            places[row] = self._of_other(jobs.views[row], known[row], row in profiled)
        return places

    def _known(self, view: JobView) -> Remaining | None:
        return self._round.expected(view)

    def of_target(self, view: JobView, one: Standing) -> Place:
        """Before all others once it is due, else where its size puts it."""
        round_ = self._round
        spans = round_.spans_of(one)
        starts = spans[0][0] if spans else FOREVER
        at_once = _ends_at_once(view, one, round_.policy.seconds(GRACE.name))
        is_due = at_once or round_.is_due(one)
        left = one.left
        params: dict[str, JsonValue] = {
            "deadline_time": one.target.due,
            "finish_time": spans[-1][1] if spans else 0,
            "start_time": starts if spans else 0,
            "remaining_s": 0.0 if left is None else math.ceil(left.safe_s - 1e-6),
            "remaining_mean_s": 0.0 if left is None else round(left.mean_s, 1),
            "quantile": round_.policy.knob_values["quantile"],
            "source": "" if left is None else left.source,
            "num_gpus": view.request.gpus.minimum,
            "is_due": is_due,
            "probability": round_.probability(one),
        }
        if round_.is_held(one):
            return Place(SPOT, _service(view, left), "chronus.risk-held", {})
        if is_due:
            urgency = _urgency(view, one, starts)
            if at_once:  # before all but those that would be late for it: it may be a lie
                urgency = min(urgency, float(round_.now + round_.policy.seconds(GRACE.name)))
            return Place(DUE, urgency, "chronus.target", params)
        service = _service(view, left)
        return Place(SPOT, service, "chronus.target", params)

    def _of_other(self, view: JobView, left: Remaining | None, is_profiled: bool) -> Place:
        round_ = self._round
        service, gpus = _service(view, left), view.request.gpus.minimum
        refusal = round_.refusal(view.key)
        params: dict[str, JsonValue] = {
            "remaining_s": 0.0 if left is None else round(left.mean_s, 1),
            "source": "" if left is None else left.source,
            "num_gpus": gpus,
        }
        part, code = SPOT, "chronus.spot"
        if left is None:
            code, params = "chronus.no-estimate", {"num_gpus": gpus}
        if is_profiled:
            part, code, service = PROFILING, "chronus.profiling", float(view.first_submit)
            params = {"profile_s": round_.policy.seconds("profile_s"), "num_gpus": gpus}
        elif gpus and view.state is JobState.PENDING and _stays(view):
            until = self._room_until(view, left)
            if until is not None:
                part, code = IN_THE_WAY, "chronus.after-targets"
                remaining_s = 0.0 if left is None else round(left.mean_s, 1)
                params = {"remaining_s": remaining_s, "num_gpus": gpus, "free_until_time": until}
        if refusal is not None:
            code, params = refusal.code, dict(refusal.params)
        elif view.awaits_profile and round_.asks(view):
            code, params = "chronus.awaits-profile", {}
        return Place(part, service, code, params)

    def _room_until(self, view: JobView, left: Remaining | None) -> int | None:
        """None where a job that cannot give way is in nobody's way, which it then holds; else when
        targets need its GPUs.
        """
        round_ = self._round
        pool = round_.pools.of_job(view)
        free, gpus = self._free[pool], view.request.gpus.minimum
        length_s = math.inf if left is None else left.safe_s
        end = FOREVER if math.isinf(length_s) else round_.now + math.ceil(length_s)
        if free.least(round_.now, end) >= gpus:
            free.take([(round_.now, end)], gpus)
            return None
        times = [time for time, has in free.steps() if has < gpus and round_.now < time < end]
        return min(times, default=round_.now)

    def _profiled(self, rows: list[int], known: Mapping[int, Remaining | None]) -> set[int]:
        """Those of which nothing is known and that have hardly run, as many as have room in the
        part that is theirs: as much of the pool as they are of what waits and runs in turns.
        """
        round_ = self._round
        profile_s = round_.policy.seconds("profile_s")
        if not profile_s:
            return set()
        jobs = round_.state.jobs
        asked: dict[int, int] = {}
        unknown: dict[int, list[int]] = {}
        for row in rows:
            view = jobs.views[row]
            pool = round_.pools.of_job(view)
            asked[pool] = asked.get(pool, 0) + view.request.gpus.minimum
            left = known[row]
            is_unknown = left is None or left.source in (LIMIT, DEFAULT)
            gpus = view.request.gpus.minimum
            if is_unknown and gpus and (view.attained_gpu_s or 0.0) < profile_s * gpus:
                unknown.setdefault(pool, []).append(row)
        found: set[int] = set()
        for pool, own in unknown.items():
            own.sort(key=lambda row: int(jobs.tie[row]))
            want = sum(jobs.views[row].request.gpus.minimum for row in own)
            room = min(_MOST_PROFILING, want / asked[pool]) * round_.views[pool].num_gpus
            for row in own:
                if room <= 0:
                    break
                room -= jobs.views[row].request.gpus.minimum
                found.add(row)
        return found


def _urgency(view: JobView, one: Standing, starts: int) -> float:
    """By when a target that is due has to have GPUs: one that waits at the end of its margin.

    One that runs has its margin still before it: to be interrupted now and go on within that time
    would cost it a start and a round for nothing.
    """
    if view.holds_gpus or one.need is None or starts >= FOREVER:
        return float(starts)
    return float(starts + one.target.due - one.need.due)


def _ends_at_once(view: JobView, one: Standing, grace_s: int) -> bool:
    """Whether a target that runs ends before it could have saved and left: nobody would have its
    GPUs any sooner. By its own word for no longer than it was promised GPUs.
    """
    is_promised = one.target.used.gpu_s < one.target.budget_gpu_s
    runs = view.state is JobState.RUNNING and is_promised
    return runs and one.left is not None and one.left.safe_s <= grace_s


def _stays(view: JobView) -> bool:
    """Whether it keeps its GPUs to its end once it has them."""
    return view.exclusion(Capability.PREEMPT) is not None


def _service(view: JobView, left: Remaining | None) -> float:
    """Seconds to its end, as expected, times the root of its GPUs (or CPUs): between the time and
    the GPU-time, both of which serve large and small jobs together worse.
    """
    if left is None:
        return _UNKNOWN_S
    size = max(1, view.request.gpus.minimum or view.request.num_cpus)
    return left.mean_s * math.sqrt(size)
