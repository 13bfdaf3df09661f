"""Which targets hold their GPUs when: all of a pool's deadlines put into one calendar.

Jobs go in one after the other, each as late as its deadline allows, those of the latest deadlines
first. Where that does not find room for all, other ways do, perhaps: slot by slot from the last one
on (``chronus_slots``); whoever found no room first; those first that can wait longest, or the
widest. Where no way does, the last plan stands if it still fits, and then the solver is asked.

Nobody who is in is put out for a newcomer. Where all cannot be kept any more (nodes were lost),
what counts least is late, as little as can be.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from gsched.policy.chronus_calendar import FOREVER, Calendar, Pieces, Span, joined

WAYS = ("greedy", "slots", "last-plan", "cp-sat", "overload")
"""How a plan was found, the first one first; ``overload``: not all can be kept."""

NOBODY_ELSE = 2**30
"""More GPUs than there are."""

REPAIRS = 6
"""So many times whoever found no room is put to the front of the order."""


@dataclass(frozen=True, slots=True)
class Need:
    """What one job needs of its pool: `gpus` (rounded up) for `need_s` until `due`, which counts
    `reward`.

    It may start at `begin`. Its deadline itself is `margin_s` after `due`. It holds GPUs already
    and keeps them until `held_until` (0: it holds none). `tie` tells apart what is equal otherwise.
    `last` is how it was planned before.
    """

    name: str
    gpus: int
    need_s: int
    begin: int
    due: int
    reward: float
    pieces: Pieces
    tie: int
    held_until: int = 0
    last: tuple[Span, ...] = ()
    margin_s: int = 0

    @property
    def gpu_s(self) -> int:
        """GPU-seconds."""
        return self.gpus * self.need_s

    @property
    def held(self) -> tuple[Span, ...]:
        """What it holds anyway, as far as it needs it."""
        end = min(self.held_until, self.begin + self.need_s)
        return ((self.begin, end),) if end > self.begin else ()

    @property
    def rest_s(self) -> int:
        """Seconds beyond those that it holds anyway."""
        return self.need_s - sum(end - start for start, end in self.held)


@dataclass(slots=True)
class Plan:
    """Spans by name of the job, what the calendar has left, and who comes after its `due`.

    `way` is how the plan was found; `gap` how far, as a part, the reward may be below the best.
    """

    spans: dict[str, tuple[Span, ...]]
    left: Calendar
    late: frozenset[str] = frozenset()
    way: str = WAYS[0]
    gap: float = 0.0


Solver = Callable[[Sequence[Need], Calendar, bool], Mapping[str, tuple[Span, ...]] | None]
"""Needs, free GPUs, whether each must be kept → spans of those that are kept; None: none found."""


def plan_for(needs: Sequence[Need], free: Calendar, solve: Solver | None = None) -> Plan:
    """The plan of jobs that were promised their deadlines; it always is one for all of them."""
    from gsched.policy.chronus_overload import beyond_all

    found = all_in(sorted(needs, key=latest_deadline), free)
    return found or last_plan(needs, free) or beyond_all(needs, free, solve)


def with_newcomer(
    needs: Sequence[Need],
    plan: Plan,
    newcomer: Need,
    free: Calendar,
    solve: Solver | None = None,
) -> Plan | None:
    """A plan that keeps all that `plan` keeps, and the newcomer; None where none was found.

    What is late already is not made later.
    """
    spans = latest(newcomer, plan.left)
    if spans is not None:
        left = plan.left.copy()
        left.take(spans, newcomer.gpus)
        return replace(plan, spans={**plan.spans, newcomer.name: spans}, left=left)
    late = [_as_planned(need, plan) for need in needs if need.name in plan.late]
    kept = [need for need in needs if need.name not in plan.late]
    everyone = [*kept, newcomer, *late]
    if not could_fit(everyone, free, newcomer.due):
        return None
    found = all_in(sorted(everyone, key=latest_deadline), free)
    found = found or _beside_last([*kept, *late], newcomer, free)
    if found is None and solve is not None:
        told = solve(everyone, free, True)
        found = None if told is None else as_told(everyone, free, told)
        if found is not None:
            found.way = "cp-sat"
    if found is None:
        return None
    return replace(found, late=plan.late)


def _as_planned(need: Need, plan: Plan) -> Need:
    """Of a target that is late: no newcomer makes it later than it is planned to be."""
    spans = plan.spans.get(need.name, ())
    return replace(need, due=max(need.due, spans[-1][1] if spans else FOREVER))


def spend_more(plan: Plan, need: Need, more_s: int) -> None:
    """Give a job that is in `plan` so many seconds more, of what all leave free.

    Before it is due where there is room, else as soon as there is.
    """
    spans = plan.spans[need.name]
    if more_s <= 0 or need.name in plan.late:
        return
    room = plan.left.copy()
    room.take(spans, NOBODY_ELSE)  # it runs only once at a time
    more = room.latest(need.gpus, more_s, (need.begin, need.due), need.pieces)
    if more is None:
        more = room.earliest(need.gpus, more_s, need.begin, need.pieces)
    plan.left.take(more, need.gpus)
    plan.spans[need.name] = joined([*spans, *more])


def could_fit(needs: Iterable[Need], free: Calendar, due: int) -> bool:
    """Whether there are GPU-seconds enough for all that is due until then, were it fluid."""
    most, must = free.gpu_seconds((free.begin, due)), 0
    for need in needs:
        if need.due <= due:
            must += need.gpu_s
        else:  # what cannot be done after `due`
            must += need.gpus * max(0, need.need_s - (need.due - due))
    return must <= most


# -- orders ----------------------------------------------------------------------------------------


def latest_deadline(need: Need) -> tuple[int, int, int]:
    """The order in which jobs are put in first."""
    return (-need.due, -need.gpus, need.tie)


def _latest_start(need: Need) -> tuple[int, int, int]:
    return (need.need_s - need.due, -need.gpus, need.tie)


def _widest(need: Need) -> tuple[int, int, int]:
    return (-need.gpus, -need.due, need.tie)


def all_in(ordered: Sequence[Need], free: Calendar) -> Plan | None:
    """The first way in which all find room; `ordered` is tried first."""
    order, moved = list(ordered), set[str]()
    for number in range(REPAIRS):
        plan, without = _one_by_one(order, free)
        if without is None:
            return plan
        if number == 0:
            found = _in_slots(ordered, free)
            if found is not None:
                return found
        if without.name in moved:
            break
        moved.add(without.name)
        order.remove(without)
        order.insert(0, without)
    for key in (_latest_start, _widest):
        plan, without = _one_by_one(sorted(ordered, key=key), free)
        if without is None:
            return plan
    return None


def _in_slots(needs: Sequence[Need], free: Calendar) -> Plan | None:
    """Slot by slot from the last one on, those with most left to run first."""
    from gsched.policy.chronus_slots import by_slots

    told = by_slots(needs, free, max(need.pieces.least_s for need in needs))
    found = None if told is None else as_told(needs, free, told)
    return None if found is None else replace(found, way="slots")


def _one_by_one(order: Sequence[Need], free: Calendar) -> tuple[Plan, Need | None]:
    """Each as late as can be; up to the first one that finds no room, which is returned, too."""
    left = without_held(order, free)
    spans: dict[str, tuple[Span, ...]] = {}
    for need in order:
        found = latest(need, left)
        if found is None:
            return Plan(spans, left), need
        left.take(beyond(need, found), need.gpus)
        spans[need.name] = found
    return Plan(spans, left), None


def without_held(needs: Iterable[Need], free: Calendar) -> Calendar:
    """What is left where each has what it holds anyway."""
    left = free.copy()
    for need in needs:
        left.take(need.held, need.gpus)
    return left


def beyond(need: Need, spans: Sequence[Span]) -> tuple[Span, ...]:
    """`spans` without what the job holds anyway."""
    if not need.held:
        return tuple(spans)
    held = need.held[0][1]
    return tuple([(max(start, held), end) for start, end in spans if end > held])


def latest(need: Need, left: Calendar) -> tuple[Span, ...] | None:
    """Where a job finds room as late as its deadline allows, what it holds anyway first."""
    if need.rest_s <= 0:
        return need.held if need.held[-1][1] <= need.due else None
    begin = need.held[-1][1] if need.held else need.begin
    if need.pieces.whole and need.held:  # it runs on to its end
        span = (begin, begin + need.rest_s)
        fits = span[1] <= need.due and left.least(*span) >= need.gpus
        return joined([*need.held, span]) if fits else None
    found = left.latest(need.gpus, need.rest_s, (begin, need.due), need.pieces)
    return None if found is None else joined([*need.held, *found])


# -- what stood before, and what a solver says -----------------------------------------------------


def last_plan(needs: Sequence[Need], free: Calendar) -> Plan | None:
    """The plan of the last round, where it still gives all of them what they need."""
    if not all(_still_does(need, need.last) for need in needs):
        return None
    plan = as_told(needs, free, {need.name: need.last for need in needs})
    return None if plan is None else replace(plan, way="last-plan")


def _beside_last(needs: Sequence[Need], newcomer: Need, free: Calendar) -> Plan | None:
    """What the last plan leaves: whoever was refused then was offered a time of that."""
    plan = last_plan(needs, free)
    spans = None if plan is None else latest(newcomer, plan.left)
    if plan is None or spans is None:
        return None
    plan.left.take(spans, newcomer.gpus)
    return replace(plan, spans={**plan.spans, newcomer.name: spans})


def _still_does(need: Need, spans: Sequence[Span]) -> bool:
    """Whether a plan gives a job what it needs, from now on and until it is due."""
    ahead = [(max(start, need.begin), end) for start, end in spans if end > need.begin]
    return sum(e - s for s, e in ahead) >= need.need_s and ahead[-1][1] <= need.due


def as_told(
    needs: Sequence[Need], free: Calendar, told: Mapping[str, tuple[Span, ...]]
) -> Plan | None:
    """These very spans, cut to what is needed; None where they take more than there is."""
    left, spans = free.copy(), {}
    for need in needs:
        spans[need.name] = own = _last_of(told[need.name], need)
        left.take(own, need.gpus)
        if not own or own[-1][1] > need.due or _seconds(own) < need.need_s:
            return None
    if any(gpus < 0 for _, gpus in left.steps()):
        return None
    return Plan(spans, left)


def _seconds(spans: Sequence[Span]) -> int:
    return sum(end - start for start, end in spans)


def _last_of(spans: Sequence[Span], need: Need) -> tuple[Span, ...]:
    """The latest part of `spans` that is enough, behind what the job holds anyway."""
    rest, found = need.rest_s, list[Span]()
    for start, end in reversed(beyond(need, spans)):
        start = max(start, need.begin, end - rest)
        if rest > 0 and start < end:
            found.append((start, end))
            rest += need.pieces.resume_s - (end - start)
    return joined([*need.held, *found])
