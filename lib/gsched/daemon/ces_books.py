"""What energy saving knows between two looks, and how it is read from the log at the beginning."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field

from gsched.daemon.ces_orders import OrderBook, SaverTimes
from gsched.daemon.ces_spans import SpanBook
from gsched.daemon.ces_watch import CountBook, DelayBook
from gsched.engine.node_ports import PowerLog
from gsched.model.decision import JsonValue
from gsched.model.journal import ChangeState
from gsched.model.node_power import NodeVerb
from gsched.model.times import DAY_S
from gsched.policy.ces_state import CesMemory

log = logging.getLogger("gsched.daemon")

LEARNS_DAYS = 14
"""Days of spans that say how long nodes take to wake, and how often each did."""


@dataclass(slots=True)
class Books:
    """All that is known. `kept_memory` is what the log has of `memory`; `observed` are the orders
    that would have been given and have been kept already.
    """

    spans: SpanBook
    orders: OrderBook
    delays: DelayBook
    counts: CountBook
    memory: CesMemory
    kept_memory: Mapping[str, JsonValue]
    observed: set[tuple[str, NodeVerb]] = field(default_factory=set)


def read_books(power_log: PowerLog, now: int, times: SaverTimes, failure_memory_s: int) -> Books:
    """What the log knows at `now`. Raises what the log raises."""
    entries = {entry.order.order_id: entry for entry in power_log.unsettled()}
    for entry in power_log.orders(now - failure_memory_s, now + 1):
        if entry.state is not ChangeState.OBSERVED:
            entries[entry.order.order_id] = entry
    kept, memory = _memory(power_log)
    since = now - LEARNS_DAYS * DAY_S
    return Books(
        spans=SpanBook(
            power_log.open_spans(),
            power_log.spans(since, now + 1),
            times.gap_s,
            times.count_every_s,
        ),
        orders=OrderBook(times, failure_memory_s, entries.values()),
        delays=DelayBook(power_log.delays(now - DAY_S, now + 1)),
        counts=CountBook(times.count_every_s),
        memory=memory,
        kept_memory=kept,
    )


def _memory(power_log: PowerLog) -> tuple[Mapping[str, JsonValue], CesMemory]:
    """What is remembered, as it is kept and as it is used; what is damaged is begun anew."""
    try:
        kept = power_log.memory()
        return kept, CesMemory.from_json(kept)
    except (ValueError, RecursionError) as error:
        log.warning("ces: what was remembered is not used: %s", error)
        return {}, CesMemory()


def last_look(power_log: PowerLog, now: int, times: SaverTimes) -> int | None:
    """When another process of this daemon looked a short while ago, by the counts that it kept."""
    last = max((count.time for count in power_log.counts(now, now + 1)), default=None)
    return last if last is not None and 0 <= now - last <= times.gap_s else None
