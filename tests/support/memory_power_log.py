"""The record of sleeping nodes in memory; one contract test holds it to what the database does."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from gsched.errors import GschedError, LostLeadershipError
from gsched.model.decision import JsonValue
from gsched.model.journal import ChangeState
from gsched.model.node_power import (
    NodeOrder,
    NodeOrderEntry,
    PoolCount,
    PowerPhase,
    PowerSpan,
    WakeDelay,
)


class MemoryPowerLog:
    """Implements ``gsched.engine.node_ports.PowerLog`` without a file.

    Once `is_lost` is set, another daemon leads the cluster: calls that write raise.
    """

    def __init__(self) -> None:
        self.is_lost = False
        self._memory = "{}"
        self._orders: dict[str, NodeOrderEntry] = {}
        self._spans: dict[tuple[str, PowerPhase, int], PowerSpan] = {}
        self._counts: dict[tuple[str, int], PoolCount] = {}
        self._delays: dict[tuple[str, int], WakeDelay] = {}

    def memory(self) -> Mapping[str, JsonValue]:
        found: dict[str, JsonValue] = json.loads(self._memory)
        return found

    def remember(self, memory: Mapping[str, JsonValue]) -> None:
        self._check_fence([memory])
        self._memory = json.dumps(dict(memory))

    def record(self, orders: Sequence[NodeOrder], state: ChangeState) -> None:
        if state not in (ChangeState.INTENT, ChangeState.OBSERVED):
            raise ValueError(f"an order begins as INTENT or OBSERVED, not as {state.name}")
        self._check_fence(orders)
        for order in orders:
            self._orders.setdefault(order.order_id, NodeOrderEntry(order, state))

    def settle(self, settled: Sequence[tuple[str, ChangeState, str]], at: int) -> None:
        self._check_fence(settled)
        moved: dict[str, NodeOrderEntry] = {}
        for order_id, state, detail in settled:
            entry = moved.get(order_id, self._orders.get(order_id))
            if entry is None:
                raise GschedError(f"the power log has no order {order_id}")
            if (entry.state, entry.detail) == (state, detail):
                continue
            if not entry.state.may_become(state):
                raise GschedError(
                    f"order {order_id} is {entry.state.value}, it cannot become {state.value}"
                )
            moved[order_id] = replace(entry, state=state, settled_at=at, detail=detail)
        self._orders.update(moved)

    def unsettled(self) -> Sequence[NodeOrderEntry]:
        return _by_age(e for e in self._orders.values() if e.state.is_open)

    def orders(self, since: int, until: int) -> Sequence[NodeOrderEntry]:
        return _by_age(e for e in self._orders.values() if since <= e.order.decided_at < until)

    def keep_spans(self, spans: Sequence[PowerSpan]) -> None:
        self._check_fence(spans)
        self._spans.update({(span.node, span.phase, span.start): span for span in spans})

    def open_spans(self) -> Sequence[PowerSpan]:
        return sorted((s for s in self._spans.values() if s.end is None), key=_place_of_span)

    def spans(self, since: int, until: int) -> Sequence[PowerSpan]:
        found = (
            span
            for span in self._spans.values()
            if span.start < until and (span.start >= since or span.end is None or span.end > since)
        )
        return sorted(found, key=_place_of_span)

    def keep_counts(self, counts: Sequence[PoolCount]) -> None:
        self._check_fence(counts)
        self._counts.update({(count.pool, count.time): count for count in counts})

    def counts(self, since: int, until: int) -> Sequence[PoolCount]:
        last: dict[str, PoolCount] = {}
        within: list[PoolCount] = []
        for _, count in sorted(self._counts.items()):
            if count.time < since:
                last[count.pool] = count
            elif count.time < until:
                within.append(count)
        return sorted([*last.values(), *within], key=lambda count: (count.pool, count.time))

    def keep_delays(self, delays: Sequence[WakeDelay]) -> None:
        self._check_fence(delays)
        self._delays.update({(delay.job, delay.allocated_at): delay for delay in delays})

    def delays(self, since: int, until: int) -> Sequence[WakeDelay]:
        found = (d for d in self._delays.values() if since <= d.allocated_at < until)
        return sorted(found, key=lambda delay: (delay.allocated_at, delay.job))

    def _check_fence(self, told: Sequence[object]) -> None:
        if told and self.is_lost:
            raise LostLeadershipError("this daemon (fence 1) leads the cluster no more")


def _by_age(entries: Iterable[NodeOrderEntry]) -> list[NodeOrderEntry]:
    return sorted(entries, key=lambda entry: entry.order.decided_at)


def _place_of_span(span: PowerSpan) -> tuple[int, str, str]:
    return span.start, span.node, span.phase.value
