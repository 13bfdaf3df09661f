"""What a daemon would have kept of sleeping nodes, in few words: for `gsched ces report`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gsched.app.ces_report.records import CesRecords
from gsched.engine.node_ports import PowerLog
from gsched.model.decision import Reason
from gsched.model.journal import ChangeState
from gsched.model.node_power import (
    NodeOrder,
    NodeOrderEntry,
    NodeVerb,
    PoolCount,
    PowerCause,
    PowerPhase,
    PowerSpan,
    WakeDelay,
)
from gsched.model.times import DAY_S

T0 = 20_000 * DAY_S
"""Midnight (UTC)."""
POOL = "cpu4@batch"
_NONE = {
    "running": 0,
    "idle": 0,
    "falling": 0,
    "asleep": 0,
    "waking": 0,
    "excluded": 0,
    "wanted": 0,
}


def counted(at: int, pool: str = POOL, **nodes: int) -> PoolCount:
    """A count at T0 + `at`."""
    return PoolCount(pool=pool, time=T0 + at, **{**_NONE, **nodes})


def span(
    node: str,
    phase: PowerPhase,
    start: int,
    end: int | None,
    cause: PowerCause = PowerCause.CES,
    **more: Any,
) -> PowerSpan:
    """A span from T0 + `start`."""
    until = None if end is None else T0 + end
    return PowerSpan(node, more.pop("pool", POOL), phase, T0 + start, until, cause, **more)


def ordered(
    node: str,
    verb: NodeVerb,
    at: int,
    because: str = "",
    state: ChangeState = ChangeState.CONFIRMED,
    pool: str = POOL,
) -> NodeOrderEntry:
    """An order of T0 + `at`."""
    reason = Reason("ces.woken", {"because": because} if because else {})
    order = NodeOrder(f"{node}-{verb.value}-{at}", node, pool, verb, reason, T0 + at, T0 + at + 30)
    return NodeOrderEntry(order, state, T0 + at + 1)


def delayed(job: str, at: int, delay_s: int | None, pool: str = POOL) -> WakeDelay:
    """A job that got its nodes at T0 + `at`."""
    started = None if delay_s is None else T0 + at + delay_s
    return WakeDelay(job, T0 + at - 5, pool, 1, T0 + at, started)


def records(
    counts: Sequence[PoolCount] = (),
    spans: Sequence[PowerSpan] = (),
    orders: Sequence[NodeOrderEntry] = (),
    delays: Sequence[WakeDelay] = (),
    job_starts: Sequence[int] = (),
) -> CesRecords:
    """Records of the cluster "lab"; jobs began at T0 + each of `job_starts`."""
    starts = np.array([T0 + at for at in job_starts], dtype=np.int64)
    return CesRecords("lab", counts, spans, orders, delays, starts)


def keep(log: PowerLog, kept: CesRecords) -> None:
    """Write records as a daemon does, one order after the other."""
    log.keep_counts(kept.counts)
    log.keep_spans(kept.spans)
    log.keep_delays(kept.delays)
    for entry in kept.orders:
        is_observed = entry.state is ChangeState.OBSERVED
        log.record([entry.order], ChangeState.OBSERVED if is_observed else ChangeState.INTENT)
        if not is_observed:
            log.settle([(entry.order.order_id, entry.state, entry.detail)], entry.settled_at or 0)


def a_night(nights: int = 2) -> CesRecords:
    """Whole days of 4 nodes, of which 2 sleep from 20:00 to 6:00; Slurm wakes one for job 7."""
    counts, spans, orders = [], [], []
    for night in range(nights):
        day = night * DAY_S
        evening, morning = day + 20 * 3600, day + 30 * 3600
        for at in range(day, day + DAY_S, 600):
            sleeps = at >= evening or (night > 0 and at < day + 6 * 3600)
            counts.append(counted(at, running=1, idle=3 - 2 * sleeps, asleep=2 * sleeps))
        for node in ("n1", "n2"):
            orders.append(ordered(node, NodeVerb.SLEEP, evening, "ces.surplus"))
            orders.append(ordered(node, NodeVerb.WAKE, morning, "ces.demand-expected"))
            spans.append(span(node, PowerPhase.ASLEEP, evening, morning))
            spans.append(span(node, PowerPhase.WAKING, morning, morning + 120, outcome="awake"))
    counts.append(counted(nights * DAY_S, running=1, idle=1, asleep=2))
    return records(counts, spans, orders)
