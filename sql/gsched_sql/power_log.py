"""The record of a cluster's sleeping nodes. Implements ``gsched.engine.node_ports.PowerLog``."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, Engine, Table, bindparam, insert, or_, select, update

from gsched.errors import GschedError
from gsched.model.decision import JsonValue
from gsched.model.journal import ChangeState
from gsched.model.node_power import NodeOrder, NodeOrderEntry, PoolCount, PowerSpan, WakeDelay
from gsched_sql import power_rows, schema
from gsched_sql.engine import reading, writing
from gsched_sql.leaders import check_fence
from gsched_sql.names import chunks, cluster_id, intern
from gsched_sql.schema import (
    node_orders,
    node_pools,
    pool_counts,
    power_jobs,
    power_memory,
    power_spans,
    wake_delays,
)

_OPEN = [state.value for state in ChangeState if state.is_open]
_SPAN_KEY = ("node_id", "phase", "start_time")
_COUNT_KEY = ("pool_id", "at")
_DELAY_KEY = ("job_id", "array_task", "het_offset", "allocated_at")


class SqlPowerLog:
    """Orders to nodes and what was seen of them. Every call is a transaction of its own.

    With a `fence` every writing call raises LostLeadershipError, and keeps nothing, once another
    daemon has taken over (see ``gsched_sql.leaders``). Readers that are held to their own rows see
    no delays of others' jobs, and of others' jobs no id in orders and spans.
    """

    def __init__(self, engine: Engine, cluster: str, fence: int | None = None) -> None:
        self._engine = engine
        self._cluster = cluster
        self._fence = fence

    def memory(self) -> Mapping[str, JsonValue]:
        """What CES kept of the last time, {} at first. Raises ValueError for what is no table."""
        with reading(self._engine) as conn:
            mine = power_memory.c.cluster_id == cluster_id(conn, self._cluster)
            kept = conn.execute(select(power_memory.c.memory).where(mine)).scalar()
        memory = json.loads(kept) if kept else {}
        if not isinstance(memory, dict):
            raise ValueError("the kept memory is no table")
        return memory

    def remember(self, memory: Mapping[str, JsonValue]) -> None:
        """Keep it for the next time."""
        text = json.dumps(dict(memory))
        with writing(self._engine) as conn:
            cluster = intern(conn, schema.clusters, [self._cluster])[self._cluster]
            check_fence(conn, cluster, self._fence)
            mine = power_memory.c.cluster_id == cluster
            if conn.execute(select(power_memory.c.cluster_id).where(mine)).first() is None:
                conn.execute(insert(power_memory), [{"cluster_id": cluster, "memory": text}])
            else:
                conn.execute(update(power_memory).where(mine).values(memory=text))

    def record(self, orders: Sequence[NodeOrder], state: ChangeState) -> None:
        """Keep new orders as INTENT or OBSERVED. An order_id already there is left alone.

        An order_id has at most 128 characters. Raises ValueError for any other state.
        """
        if state not in (ChangeState.INTENT, ChangeState.OBSERVED):
            raise ValueError(f"an order begins as INTENT or OBSERVED, not as {state.name}")
        if not orders:
            return
        with writing(self._engine) as conn:
            known = self._numbers(conn, orders)
            stored = _stored_orders(conn, known.cluster, [order.order_id for order in orders])
            told: dict[str, NodeOrder] = {}
            for order in orders:
                if order.order_id not in stored:
                    told.setdefault(order.order_id, order)
            rows = [power_rows.order_row(order, state, known) for order in told.values()]
            jobs = map(power_rows.order_job, told.values())
            numbers = power_rows.add(conn, node_orders, rows)
            named = list(zip(numbers, jobs, strict=True))
            power_rows.keep_jobs(conn, power_jobs.c.order_row, known.cluster, named)

    def settle(self, settled: Sequence[tuple[str, ChangeState, str]], at: int) -> None:
        """Move orders (order_id, new state, detail) on.

        Raises GschedError, and changes nothing, for an unknown order and for one that has come to
        its end in another state.
        """
        if not settled:
            return
        with writing(self._engine) as conn:
            cluster = intern(conn, schema.clusters, [self._cluster])[self._cluster]
            check_fence(conn, cluster, self._fence)
            known = _stored_orders(conn, cluster, [order_id for order_id, _, _ in settled])
            ends: dict[str, tuple[ChangeState, str]] = {}
            for order_id, state, detail in settled:
                stored = known.get(order_id)
                if stored is None:
                    raise GschedError(f"the power log has no order {order_id}")
                before = ends.get(order_id, (ChangeState(stored.state), stored.detail))
                if before == (state, detail):
                    continue
                if not before[0].may_become(state):
                    raise GschedError(
                        f"order {order_id} is {before[0].value}, it cannot become {state.value}"
                    )
                ends[order_id] = (state, detail)
            rows = [
                {"row": known[name].id, "state": state.value, "settled_at": at, "detail": detail}
                for name, (state, detail) in ends.items()
            ]
            if rows:
                conn.execute(update(node_orders).where(node_orders.c.id == bindparam("row")), rows)

    def unsettled(self) -> Sequence[NodeOrderEntry]:
        """Orders in state INTENT or SENT, the oldest first."""
        with reading(self._engine) as conn:
            c = node_orders.c
            mine = (c.cluster_id == cluster_id(conn, self._cluster)) & c.state.in_(_OPEN)
            return power_rows.orders(conn, mine)

    def orders(self, since: int, until: int) -> Sequence[NodeOrderEntry]:
        """Orders that were decided in [since, until), the oldest first."""
        with reading(self._engine) as conn:
            c = node_orders.c
            mine = c.cluster_id == cluster_id(conn, self._cluster)
            return power_rows.orders(conn, mine & (c.decided_at >= since) & (c.decided_at < until))

    def keep_spans(self, spans: Sequence[PowerSpan]) -> None:
        """Keep spans; one of the same node, phase and start takes the place of the earlier one."""
        if not spans:
            return
        with writing(self._engine) as conn:
            known = self._numbers(conn, spans)
            told = {(span.node, span.start, span.phase): span for span in spans}
            rows = [power_rows.span_row(span, known) for span in told.values()]
            numbers = _replace(conn, power_spans, _SPAN_KEY, rows)
            named = list(zip(numbers, (span.job for span in told.values()), strict=True))
            power_rows.keep_jobs(conn, power_jobs.c.span_row, known.cluster, named)

    def open_spans(self) -> Sequence[PowerSpan]:
        """Spans that have not ended, by start."""
        with reading(self._engine) as conn:
            c = power_spans.c
            mine = c.cluster_id == cluster_id(conn, self._cluster)
            return power_rows.spans(conn, mine & c.end_time.is_(None))

    def spans(self, since: int, until: int) -> Sequence[PowerSpan]:
        """Spans that lie at least partly in [since, until), by start."""
        with reading(self._engine) as conn:
            c = power_spans.c
            mine = c.cluster_id == cluster_id(conn, self._cluster)
            # the last condition: of no length, at the very beginning
            goes_on = or_(c.end_time.is_(None), c.end_time > since, c.start_time == since)
            return power_rows.spans(conn, mine & (c.start_time < until) & goes_on)

    def keep_counts(self, counts: Sequence[PoolCount]) -> None:
        """Keep counts; one of the same pool and time takes the place of the earlier one."""
        if not counts:
            return
        with writing(self._engine) as conn:
            known = self._numbers(conn, counts)
            told = {(count.pool, count.time): count for count in counts}
            rows = [power_rows.count_row(count, known) for count in told.values()]
            _replace(conn, pool_counts, _COUNT_KEY, rows)

    def counts(self, since: int, until: int) -> Sequence[PoolCount]:
        """Counts of [since, until) by pool and time, and the last one before it of each pool."""
        c = pool_counts.c
        with reading(self._engine) as conn:
            pools = {
                row[0]: row[1] for row in conn.execute(select(node_pools.c.id, node_pools.c.name))
            }
            mine = select(pool_counts).where(c.cluster_id == cluster_id(conn, self._cluster))
            found = power_rows.counts(conn, mine.where(c.at >= since, c.at < until), pools)
            for pool in pools:  # one by one: each is a single step in the index
                last = mine.where(c.pool_id == pool, c.at < since).order_by(c.at.desc()).limit(1)
                found += power_rows.counts(conn, last, pools)
        return sorted(found, key=lambda count: (count.pool, count.time))

    def keep_delays(self, delays: Sequence[WakeDelay]) -> None:
        """Keep delays; one of the same job and allocation takes the place of the earlier one.

        Raises DataError, and keeps nothing, where a job's id is none.
        """
        if not delays:
            return
        with writing(self._engine) as conn:
            known = self._numbers(conn, delays)
            told = {(delay.job, delay.allocated_at): delay for delay in delays}
            rows = [power_rows.delay_row(delay, known) for delay in told.values()]
            _replace(conn, wake_delays, _DELAY_KEY, rows)

    def delays(self, since: int, until: int) -> Sequence[WakeDelay]:
        """Delays that began in [since, until), by when they began."""
        with reading(self._engine) as conn:
            c = wake_delays.c
            mine = c.cluster_id == cluster_id(conn, self._cluster)
            return power_rows.delays(
                conn, mine & (c.allocated_at >= since) & (c.allocated_at < until)
            )

    def _numbers(self, conn: Connection, told: Sequence[Any]) -> power_rows.Numbers:
        """The rows of what these values name. Raises LostLeadershipError."""
        known = power_rows.numbers(
            conn,
            self._cluster,
            {value.pool for value in told},
            {value.node for value in told if hasattr(value, "node")},
        )
        check_fence(conn, known.cluster, self._fence)
        return known


def _stored_orders(conn: Connection, cluster: int, order_ids: Sequence[str]) -> dict[str, Any]:
    """Those of the orders that are kept: row number, state and detail."""
    c = node_orders.c
    found: dict[str, Any] = {}
    for some in chunks(order_ids):
        mine = (c.cluster_id == cluster) & c.order_id.in_(some)
        rows = conn.execute(select(c.order_id, c.id, c.state, c.detail).where(mine))
        found.update({row.order_id: row for row in rows})
    return found


def _replace(
    conn: Connection, table: Table, key: Sequence[str], rows: Sequence[Mapping[str, Any]]
) -> list[int]:
    """Put rows of one cluster in the place of those with the same key; returns their numbers.

    `key` ends with a time.
    """
    stored: dict[tuple[Any, ...], int] = {}
    c, subject, time = table.c, key[0], key[-1]
    for some in chunks(rows):
        mine = (c.cluster_id == some[0]["cluster_id"]) & c[subject].in_(
            {row[subject] for row in some}
        )
        # a range and no second list: an engine would look up each pair of the two
        times = [row[time] for row in some]
        query = select(c.id, *(c[name] for name in key))
        for row in conn.execute(query.where(mine, c[time].between(min(times), max(times)))):
            stored[tuple(row[1:])] = row[0]
    places = [stored.get(tuple(row[name] for name in key)) for row in rows]
    again = [
        {"row": place, **row} for place, row in zip(places, rows, strict=True) if place is not None
    ]
    if again:
        conn.execute(update(table).where(c.id == bindparam("row")), again)
    new = [row for place, row in zip(places, rows, strict=True) if place is None]
    made = iter(power_rows.add(conn, table, new))
    return [next(made) if place is None else place for place in places]
