"""Wake-ups and what was asleep: who brought it about, how it ended, how long it took."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from gsched.app.ces_report.pool_time import Floats, Ints, KnownTime
from gsched.model.journal import ChangeState
from gsched.model.node_power import (
    NodeOrderEntry,
    NodeVerb,
    PowerCause,
    PowerPhase,
    PowerSpan,
)
from gsched.policy.ces_choice import SLEEP, WAKE
from gsched.policy.ces_rule import STAGGERED

CARRIED_OUT = (ChangeState.SENT, ChangeState.CONFIRMED)
BECAUSE = "because"
"""Parameter of an order's reason: the code of the reason for the number of nodes."""
NOT_TOLD = "not-told"
STILL_WAKING = "still-waking"


@dataclass(frozen=True, slots=True)
class WakeUps:
    """Wake-ups that one cause brought about.

    `wake_ups` are decisions, or jobs that Slurm woke nodes for; `nodes` all nodes woken, by how it
    ended in `outcomes`. `wake_s` are the durations of those that came up.
    """

    cause: PowerCause
    wake_ups: int
    nodes: int
    outcomes: Mapping[str, int]
    wake_s: Ints

    def document(self) -> dict[str, Any]:
        """With units in the names."""
        return {
            "cause": self.cause.value,
            "wake_ups": self.wake_ups,
            "nodes": self.nodes,
            "outcomes": dict(self.outcomes),
            "wake_median_s": self.quantile(0.5),
            "wake_p90_s": self.quantile(0.9),
        }

    def quantile(self, share: float) -> float | None:
        """The least duration that so large a share of the nodes that came up did not exceed."""
        if not len(self.wake_s):
            return None
        return float(np.quantile(self.wake_s, share, method="inverted_cdf"))


def wakes_in(spans: Iterable[PowerSpan], since: int, until: int) -> list[PowerSpan]:
    """Spans of nodes that began to wake in this time."""
    return [s for s in spans if s.phase is PowerPhase.WAKING and since <= s.start < until]


def wake_ups(waking: Sequence[PowerSpan], decided: int) -> list[WakeUps]:
    """By cause, from nodes that woke and the number of wake-ups that CES has decided on."""
    found = []
    for cause in PowerCause:
        own = [span for span in waking if span.cause is cause]
        by_itself = len({(s.pool, s.job or str(s.start)) for s in own})
        found.append(
            WakeUps(
                cause,
                decided if cause is PowerCause.CES else by_itself,
                len(own),
                dict(sorted(Counter(map(_outcome, own)).items())),
                wake_times(span for span in own if span.outcome == "awake"),
            )
        )
    return found


def wake_times(waking: Iterable[PowerSpan]) -> Ints:
    """Seconds that each of those took that have ended."""
    return np.array([s.end - s.start for s in waking if s.end is not None], dtype=np.int64)


def _outcome(span: PowerSpan) -> str:
    return STILL_WAKING if span.end is None else span.outcome or "unknown"


def decisions(orders: Iterable[NodeOrderEntry], verb: NodeVerb) -> dict[tuple[str, int], str]:
    """Each decision that was carried out, by pool and moment, with what it was decided by.

    A later part of a wake-up that was staggered is no decision of its own.
    """
    found: dict[tuple[str, int], str] = {}
    for entry in orders:
        order = entry.order
        if order.verb is verb and entry.state in CARRIED_OUT:
            why = order.reason.code
            if why in (WAKE, SLEEP):  # tells why this node, not why any
                why = str(order.reason.params.get(BECAUSE, NOT_TOLD))
            if why != STAGGERED:
                found.setdefault((order.pool, order.decided_at), why)
    return found


def asleep_s(
    spans: Sequence[PowerSpan], looked: KnownTime, edges: Ints
) -> dict[PowerCause, Floats]:
    """Node-seconds asleep between each two `edges`, by who put the nodes to sleep.

    Only times count at which somebody `looked` at the nodes. A look is at all of them, so that
    these are the times of all pools: the name of a node's pool may change while it sleeps.
    """
    sums = {}
    for cause in PowerCause:
        own = [s for s in spans if s.phase is PowerPhase.ASLEEP and s.cause is cause]
        begin = np.array([span.start for span in own], dtype=np.int64)
        end = np.array([edges[-1] if s.end is None else s.end for s in own], dtype=np.int64)
        sums[cause] = np.array(
            [
                looked.within(np.clip(begin, *day), np.clip(end, *day)).sum(dtype=np.float64)
                for day in pairwise(edges)
            ]
        )
    return sums


def slept_by_ces(waking: Iterable[PowerSpan], spans: Iterable[PowerSpan]) -> list[PowerSpan]:
    """Of the nodes that woke those that CES had put to sleep, whoever woke them."""
    slept: dict[str, list[tuple[int, PowerCause]]] = {}
    for span in spans:
        if span.phase is PowerPhase.ASLEEP and span.end != span.start:
            slept.setdefault(span.node, []).append((span.start, span.cause))
    for asleep in slept.values():
        asleep.sort(key=lambda each: each[0])
    found = []
    for span in waking:
        asleep = slept.get(span.node, [])
        place = bisect_left(asleep, span.start, key=lambda each: each[0]) - 1
        if place >= 0 and asleep[place][1] is PowerCause.CES:
            found.append(span)
    return found
