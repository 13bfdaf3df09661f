"""Checks of what is kept of nodes that sleep."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from sqlalchemy import ColumnElement, Connection, Table, or_, select

from gsched.model.journal import ChangeState
from gsched.model.node_power import NodeVerb, PowerCause, PowerPhase
from gsched_sql.findings import Findings
from gsched_sql.power_rows import COUNTED
from gsched_sql.schema import (
    node_orders,
    pool_counts,
    power_jobs,
    power_spans,
    wake_delays,
)

_STATES = [state.value for state in ChangeState]
_NOT_SETTLED = (ChangeState.OBSERVED.value, ChangeState.INTENT.value)
_OUTCOMES = ("", "awake", "failed", "unknown")
_SHOWN = {"node_orders": "order_id", "power_spans": "start_time", "pool_counts": "at"}


def check(conn: Connection, found: Findings) -> None:
    """All checks of these tables."""
    for table, wrong in _rules():
        name = _SHOWN.get(table.name, "id")
        for value in conn.execute(select(table.c[name]).where(wrong).limit(1000)).scalars():
            found.add("power", f"{table.name}: {name} {value}")


def _rules() -> Iterator[tuple[Table, ColumnElement[bool]]]:
    """Tables, and what is wrong in a row of each."""
    o, s, d, j = node_orders.c, power_spans.c, wake_delays.c, power_jobs.c
    yield node_orders, _none_of(o.state, _STATES) | _none_of(o.verb, _values(NodeVerb))
    yield node_orders, o.state.not_in(_NOT_SETTLED) & o.settled_at.is_(None)
    yield power_spans, _none_of(s.phase, _values(PowerPhase))
    yield power_spans, _none_of(s.cause, _values(PowerCause)) | _none_of(s.outcome, _OUTCOMES)
    yield pool_counts, or_(*(pool_counts.c[name] < 0 for name in COUNTED))
    yield wake_delays, d.nodes_waking < 0
    of_order, of_span = j.order_row.is_not(None), j.span_row.is_not(None)
    yield power_jobs, (of_order & of_span) | (~of_order & ~of_span)


def _values(kind: Any) -> list[str]:
    return [member.value for member in kind]


def _none_of(column: ColumnElement[str], values: Sequence[str]) -> ColumnElement[bool]:
    return column.not_in(values)
