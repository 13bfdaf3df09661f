"""Rows of `audit_events`: they are added and, with what they are about, pruned; never altered."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Connection

from gsched_sql.inserts import insert_rows, next_id
from gsched_sql.schema import audit_events

Event = tuple[str, str | None, str | None, str, str]
"""Round, change (None: the round itself), the state that it leaves, the one it comes to, why."""

_COLUMNS = ("id", "at", "round_id", "change_id", "from_state", "to_state", "detail")


def add(conn: Connection, at: int, events: Sequence[Event]) -> None:
    """Add transitions of the time `at` (epoch). Needs ``engine.writing``."""
    first = next_id(conn, audit_events)
    rows = [(number, at, *event) for number, event in enumerate(events, first)]
    insert_rows(conn, audit_events, _COLUMNS, rows)
