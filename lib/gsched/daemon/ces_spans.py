"""What nodes' power has done, as successive looks show it: falling, sleeping, waking. Pure.

A node that is awake has no span. Who has brought a node into a phase is told from the orders that
are under way and from the jobs that it has been given.
"""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from gsched.daemon.ces_sight import NodeSight
from gsched.model.node_power import NodeVerb, PowerCause, PowerPhase, PowerSpan
from gsched.policy.ces_state import NodePower

AWAKE, FAILED, UNKNOWN = "awake", "failed", "unknown"
"""How a WAKING span may end."""

WAKES_KEPT = 50
"""So many wake-ups of a pool, the last ones, say how long one takes."""

LEAST_WAKES = 10
"""Fewer of them say nothing."""

_PHASES = {
    NodePower.FALLING: PowerPhase.FALLING,
    NodePower.ASLEEP: PowerPhase.ASLEEP,
    NodePower.WAKING: PowerPhase.WAKING,
}


@dataclass(frozen=True, slots=True)
class SpanNews:
    """What a look has changed: spans that began or ended, and nodes that Slurm woke, by pool."""

    spans: tuple[PowerSpan, ...]
    woken_by_slurm: Mapping[str, int]


class SpanBook:
    """The open spans by node, and what those that have ended tell."""

    def __init__(
        self,
        open_spans: Iterable[PowerSpan],
        ended: Iterable[PowerSpan],
        gone_after_s: int = 0,
        seen_within_s: int = 300,
    ) -> None:
        """Both as the log has them: those that have not ended, and those of the last days.

        A node that Slurm does not show for `gone_after_s` is gone: one answer may be incomplete. Of
        a wake-up between two looks that are further apart than `seen_within_s` nobody knows how
        long it took.
        """
        self._gone_after_s = gone_after_s
        self._seen_within_s = seen_within_s
        self._missing: dict[str, int] = {}
        self.open: dict[str, PowerSpan] = {span.node: span for span in open_spans}
        self.power_cycles: Counter[str] = Counter()
        self._wakes_s: dict[str, deque[int]] = {}
        self._failed: dict[str, int] = {}
        self._woken_at: dict[str, tuple[int, PowerCause]] = {}
        for span in ended:
            if span.end is not None:
                self._learn(span)

    def see(
        self,
        now: int,
        last_look: int | None,
        sights: Sequence[NodeSight],
        orders: Mapping[str, NodeVerb],
        jobs: Mapping[str, str],
        suspend_time_s: int | None,
        still_on: Collection[str] = (),
    ) -> SpanNews:
        """Take in a look at `now`; the one before was at `last_look` (None: nobody has looked for
        so long that what lies between is not known).

        `orders` are those of gsched's under way by node, `jobs` says of a node which job holds it,
        `suspend_time_s` after how long an idleness Slurm itself puts nodes to sleep. `still_on` are
        nodes that have not gone off, as far as `gsched power` knows: what Slurm takes for sleep
        counts as falling.
        """
        watched = last_look is not None and now - last_look <= self._seen_within_s
        changed: list[PowerSpan] = []
        by_slurm: Counter[str] = Counter()
        for sight in sights:
            before = self.open.get(sight.name)
            phase = None if sight.is_down else _PHASES.get(sight.power)
            is_on = phase is PowerPhase.ASLEEP and sight.name in still_on
            if is_on:
                phase = PowerPhase.FALLING
            if before is not None and before.phase is phase:
                continue
            if before is None and phase is None:
                continue
            cause = _cause(sight, phase, before, orders, now, suspend_time_s)
            job = jobs.get(sight.name, "")
            begun = None
            if is_on and before is not None and before.phase is PowerPhase.ASLEEP:
                changed.append(replace(before, end=before.start))  # it never slept
                changed.append(replace(before, phase=PowerPhase.FALLING))
                continue
            if not is_on:
                begun = _missed_wake(sight, phase, before, cause, now, last_look, watched)
            if before is not None:
                end = _end(before, sight, now, last_look) if begun is None else begun.start
                changed.append(_ended(before, sight, end, last_look, watched))
            if begun is not None:
                changed.append(replace(begun, job=job if begun.cause is PowerCause.SLURM else ""))
            if phase is not None:
                new = PowerSpan(sight.name, sight.pool, phase, now, None, cause)
                is_wake = phase is PowerPhase.WAKING
                changed.append(replace(new, job=job) if is_wake else new)
                begun = new if is_wake else begun
            if begun is not None and begun.cause is PowerCause.SLURM:
                by_slurm[sight.pool] += 1
        changed += self._gone(now, sights)
        for span in changed:
            if span.end is None:
                self.open[span.node] = span
                continue
            self._learn(span)
            if (kept := self.open.get(span.node)) is not None and kept.phase is span.phase:
                del self.open[span.node]
        return SpanNews(tuple(changed), by_slurm)

    def cause(self, node: str) -> PowerCause | None:
        """Who has brought a node into the phase that it is in; None where it is awake."""
        span = self.open.get(node)
        return None if span is None else span.cause

    def woken_at(self, node: str) -> tuple[int, PowerCause] | None:
        """When a node that is awake woke up last, and who woke it; None where it is not known."""
        return self._woken_at.get(node)

    def failed(self, since: int, until: int) -> frozenset[str]:
        """Nodes that have failed to wake in this time, both ends included, and not woken since."""
        return frozenset(node for node, at in self._failed.items() if since <= at <= until)

    def failed_at(self, node: str) -> int | None:
        """When a node last failed to wake; None where it has not, or has woken since."""
        return self._failed.get(node)

    def wake_lead_s(self, pool: str, otherwise: int) -> int:
        """In how many seconds nine of ten wake-ups of a pool are over; `otherwise` where too few
        are known.
        """
        lengths = sorted(self._wakes_s.get(pool, ()))
        if len(lengths) < LEAST_WAKES:
            return otherwise
        return lengths[math.ceil(0.9 * len(lengths)) - 1]

    def _gone(self, now: int, sights: Sequence[NodeSight]) -> list[PowerSpan]:
        """The spans of nodes that Slurm knows no longer end, nobody knows how."""
        known = {sight.name for sight in sights}
        missing = (self.open.keys() | self._woken_at.keys() | self._failed.keys()) - known
        self._missing = {node: min(self._missing.get(node, now), now) for node in missing}
        ended = []
        for node, since in self._missing.items():
            if now - since < self._gone_after_s:
                continue
            self._woken_at.pop(node, None)
            self._failed.pop(node, None)
            if (span := self.open.get(node)) is not None:
                outcome = _outcome_unknown(span)
                ended.append(replace(span, end=max(since, span.start), outcome=outcome))
        return ended

    def _learn(self, span: PowerSpan) -> None:
        if span.phase is not PowerPhase.WAKING or span.end is None:
            return
        self.power_cycles[span.node] += 1
        if span.outcome == FAILED:
            self._failed[span.node] = span.end
        elif span.outcome == AWAKE:
            wakes = self._wakes_s.setdefault(span.pool, deque(maxlen=WAKES_KEPT))
            wakes.append(span.end - span.start)
            self._woken_at[span.node] = span.end, span.cause
            self._failed.pop(span.node, None)


def _end(span: PowerSpan, sight: NodeSight, now: int, last_look: int | None) -> int:
    """When the span of a node that is in another phase now ended: now, as far as anybody knows.

    Where nobody has looked for long, it ended at the boot that Slurm tells of, if it does.
    """
    if last_look is None and sight.boot_time is not None and span.start < sight.boot_time:
        return min(now, sight.boot_time)
    return now


def _ended(
    span: PowerSpan, sight: NodeSight, end: int, last_look: int | None, watched: bool
) -> PowerSpan:
    outcome = ""
    if span.phase is PowerPhase.WAKING:
        outcome = UNKNOWN
        if sight.failed_to_wake or (sight.is_down and last_look is not None):
            outcome = FAILED
        elif sight.power is NodePower.AWAKE and watched:
            outcome = AWAKE
    return replace(span, end=max(end, span.start), outcome=outcome)


def _missed_wake(
    sight: NodeSight,
    phase: PowerPhase | None,
    before: PowerSpan | None,
    cause: PowerCause,
    now: int,
    last_look: int | None,
    watched: bool,
) -> PowerSpan | None:
    """The wake-up of a node that slept at the look before and is awake, or falls again, by now.

    One that Slurm has given up since then as well. Its length is known only where it was `watched`.
    """
    if before is None or before.phase is PowerPhase.WAKING or phase is PowerPhase.WAKING:
        return None
    if before.phase is PowerPhase.FALLING and phase is PowerPhase.ASLEEP:
        return None
    has_booted = sight.boot_time is not None and sight.boot_time > before.start
    if sight.is_down:
        if not sight.failed_to_wake:
            return None
    elif not (before.phase is PowerPhase.ASLEEP or has_booted):
        return None
    if last_look is None:
        start = end = max(_end(before, sight, now, last_look), before.start)
    else:
        start = max(last_look, before.start)
        end = max(now, start)
    outcome = AWAKE if watched else UNKNOWN
    outcome = FAILED if sight.failed_to_wake else outcome
    by = cause if phase is None else PowerCause.OTHERS  # awake for a moment, nobody knows for whom
    span = PowerSpan(sight.name, sight.pool, PowerPhase.WAKING, start, end, by)
    return replace(span, outcome=outcome)


def _cause(
    sight: NodeSight,
    phase: PowerPhase | None,
    before: PowerSpan | None,
    orders: Mapping[str, NodeVerb],
    now: int,
    suspend_time_s: int | None,
) -> PowerCause:
    """Who has brought the node into `phase`; None is awake, by a wake-up that nobody saw."""
    order = orders.get(sight.name)
    if phase in (PowerPhase.FALLING, PowerPhase.ASLEEP):
        if phase is PowerPhase.ASLEEP and before and before.phase is PowerPhase.FALLING:
            return before.cause
        if order is NodeVerb.SLEEP:
            return PowerCause.CES
        idle_s = None if sight.last_busy_time is None else now - sight.last_busy_time
        is_due = suspend_time_s is not None and idle_s is not None and idle_s >= suspend_time_s
        return PowerCause.SLURM if is_due else PowerCause.OTHERS
    if order is NodeVerb.WAKE:
        return PowerCause.CES
    return PowerCause.SLURM if sight.is_running else PowerCause.OTHERS


def _outcome_unknown(span: PowerSpan) -> str:
    return UNKNOWN if span.phase is PowerPhase.WAKING else ""
