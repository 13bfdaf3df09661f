"""Where promises cannot all be kept as they were planned: nodes were lost, rounds came late.

First margins are given up, all alike. Then what counts least for the GPU-time that it needs is
late, by as little as the others leave it room for.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from gsched.policy.chronus_calendar import Calendar, Span, joined
from gsched.policy.chronus_plan import (
    Need,
    Plan,
    Solver,
    all_in,
    as_told,
    beyond,
    last_plan,
    latest,
    latest_deadline,
    without_held,
)

MARGINS = (0.25, 0.5, 0.75)
"""Such parts of all margins are given up, one after the other, and then all of them, before
somebody is late."""


LATER_S = (0, 60, 300, 900, 3600, 4 * 3600)
"""By so many seconds at most those are late that have to be, where the others leave them room."""


AS_BEFORE = -1
"""As late as in the last plan."""


def beyond_all(needs: Sequence[Need], free: Calendar, solve: Solver | None) -> Plan:
    """A plan where no way is left in which all come so long before their deadlines as is wanted."""
    ordered = sorted(needs, key=latest_deadline)
    found = _with_less_margin(ordered, free)
    if found is None:
        late = frozenset(need.name for need in needs if _was_late(need))
        gap = _gap(ordered, [need for need in ordered if need.name not in late])
        found = (
            _late_as_little(ordered, late, free, gap, (AS_BEFORE,))
            or _as_before(needs, late, free, gap)
            or _late_as_little(ordered, late, free, gap)
        )
    return found or _as_much_as_can_be(ordered, free, solve)


def _as_before(
    needs: Sequence[Need], late: frozenset[str], free: Calendar, gap: float
) -> Plan | None:
    """The last plan, with those late that were: who was taken in beside them rests on it."""
    found = last_plan([_later(need, AS_BEFORE) for need in needs], free)
    way = "overload" if late else "last-plan"
    return None if found is None else replace(found, late=late, way=way, gap=gap)


def _was_late(need: Need) -> bool:
    """In the last plan: as long as the others can be kept nobody is late in its stead."""
    return bool(need.last) and need.last[-1][1] > need.due + need.margin_s


def _with_less_margin(needs: Sequence[Need], free: Calendar) -> Plan | None:
    """What margins are for: all come in time, though not as long before as was wanted."""
    if not any(need.margin_s for need in needs):
        return None

    def closer(part: float) -> Plan | None:
        moved = [replace(need, due=need.due + math.ceil(part * need.margin_s)) for need in needs]
        return all_in(sorted(moved, key=latest_deadline), free)

    widest = closer(1.0)  # where that is not enough, less is not either
    return None if widest is None else next(filter(None, map(closer, MARGINS)), widest)


def _as_much_as_can_be(ordered: Sequence[Need], free: Calendar, solve: Solver | None) -> Plan:
    """Of those that cannot all be kept the ones that count most for the GPU-seconds they need."""
    left = without_held(ordered, free)
    spans: dict[str, tuple[Span, ...]] = {}
    late: list[Need] = []
    for need in sorted(ordered, key=lambda n: (n.gpu_s / n.reward, n.tie)):
        found = latest(need, left)
        if found is None:
            late.append(need)
            continue
        left.take(beyond(need, found), need.gpus)
        spans[need.name] = found
    kept = [need for need in ordered if need.name in spans]
    plan = Plan(spans, left, way="overload", gap=_gap(ordered, kept))
    told = None if solve is None else solve(ordered, free, False)
    if told is not None and _reward(ordered, told) > _reward(ordered, spans):
        kept = [need for need in ordered if need.name in told]
        others = [need for need in ordered if need.name not in told]
        better = as_told(kept, without_held(others, free), told)
        if better is not None:
            late, plan = others, replace(better, way="cp-sat", gap=_gap(ordered, kept))
    names = frozenset(need.name for need in late)
    return _late_as_little(ordered, names, free, plan.gap) or _with_late(plan, late)


def _late_as_little(
    needs: Sequence[Need],
    late: frozenset[str],
    free: Calendar,
    gap: float,
    steps_s: Sequence[int] = LATER_S,
) -> Plan | None:
    """All others in time, and these by the first of some short times later than they should be."""
    for more_s in steps_s if late else ():
        moved = [_later(need, more_s) if need.name in late else need for need in needs]
        found = all_in(sorted(moved, key=latest_deadline), free)
        if found is not None:
            behind = [need for need in needs if need.name in late]
            return replace(_sooner(found, behind), late=late, way="overload", gap=gap)
    return None


def _sooner(plan: Plan, late: Sequence[Need]) -> Plan:
    """With those that are late anyway as early as there is room."""
    spans = dict(plan.spans)
    for need in sorted(late, key=lambda n: (n.due, n.tie)):
        if need.rest_s > 0:
            plan.left.give(beyond(need, spans[need.name]), need.gpus)
            begin = need.held[-1][1] if need.held else need.begin
            found = plan.left.earliest(need.gpus, need.rest_s, begin, need.pieces)
            plan.left.take(found, need.gpus)
            spans[need.name] = joined([*need.held, *found])
    return replace(plan, spans=spans)


def _later(need: Need, more_s: int) -> Need:
    soonest = max(need.due + need.margin_s, need.begin + need.need_s)
    as_before = max(soonest, need.last[-1][1] if need.last else 0)
    return replace(need, due=as_before if more_s == AS_BEFORE else soonest + more_s)


def _reward(needs: Sequence[Need], spans: Mapping[str, object]) -> float:
    return sum(need.reward for need in needs if need.name in spans)


def _gap(needs: Sequence[Need], kept: Sequence[Need]) -> float:
    most = sum(need.reward for need in needs)
    return 1.0 - sum(need.reward for need in kept) / most if most else 0.0


def _with_late(plan: Plan, late: Sequence[Need]) -> Plan:
    """Those that come too late as early as there is room, the ones that were due first first.

    What they hold anyway is not free in the plan any more.
    """
    spans = plan.spans | {need.name: need.held for need in late}
    sooner = _sooner(replace(plan, spans=spans), late)
    return replace(sooner, late=frozenset(need.name for need in late))
