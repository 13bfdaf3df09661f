"""Times in which nodes were down, drained or failing.

(cluster, node, start, state) names an event. Of one that is told more than once the telling with
the later end is kept whole, an open end being the earliest of all; then the one that says more,
then the greater: the maximum in one order, whatever order they come in.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from sqlalchemy import Connection, bindparam, or_, select, update

from gsched.model.history import NodeEvent
from gsched_sql import schema
from gsched_sql.inserts import insert_rows, next_id
from gsched_sql.names import chunks, cluster_id, intern

_LONGEST_STATE = 64


class _Key(NamedTuple):
    node_id: int
    start_time: int
    state: str


class _Told(NamedTuple):
    end_time: int | None
    reason: str | None
    user: str | None

    @property
    def rank(self) -> tuple[Any, ...]:
        """The place of a telling in the order of all."""
        known = (self.reason is not None) + (self.user is not None)
        return self.end_time or 0, known, self.reason or "", self.user or ""


def keep(conn: Connection, events: Sequence[NodeEvent]) -> tuple[int, int]:
    """Keep events; returns how many are new and how many altered."""
    new = updated = 0
    clusters = intern(conn, schema.clusters, {event.cluster for event in events})
    for cluster, number in sorted(clusters.items()):
        counts = _keep(conn, number, [event for event in events if event.cluster == cluster])
        new, updated = new + counts[0], updated + counts[1]
    return new, updated


def _keep(conn: Connection, cluster: int, events: Sequence[NodeEvent]) -> tuple[int, int]:
    nodes = intern(conn, schema.nodes, {event.node for event in events})
    users = intern(conn, schema.users, {event.user for event in events})
    told: dict[_Key, _Told] = {}
    for event in events:
        key = _Key(nodes[event.node], event.start_time, event.state[:_LONGEST_STATE])
        value = _Told(event.end_time, event.reason, event.user)
        told[key] = max(told.get(key, value), value, key=lambda v: v.rank)
    stored = _stored(conn, cluster, sorted(nodes.values()))
    new: list[tuple[Any, ...]] = []
    better: list[dict[str, Any]] = []
    for key, value in told.items():
        user_id = None if value.user is None else users[value.user]
        row_id, known = stored.get(key, (0, None))
        if known is None:
            new.append((cluster, *key, value.end_time, value.reason, user_id))
        elif value.rank > known.rank:
            values = {"end_time": value.end_time, "reason": value.reason, "user_id": user_id}
            better.append({"of_row": row_id, **values})
    _write(conn, new, better)
    return len(new), len(better)


def _write(
    conn: Connection, new: Sequence[tuple[Any, ...]], better: Sequence[dict[str, Any]]
) -> None:
    t = schema.node_events
    names = ("id", "cluster_id", "node_id", "start_time", "state", "end_time", "reason", "user_id")
    insert_rows(conn, t, names, [(n, *row) for n, row in enumerate(new, next_id(conn, t))])
    if better:
        conn.execute(update(t).where(t.c.id == bindparam("of_row")), better)


def _stored(conn: Connection, cluster: int, nodes: Sequence[int]) -> dict[_Key, tuple[int, _Told]]:
    e, u = schema.node_events.c, schema.users.c
    columns = (e.id, e.node_id, e.start_time, e.state, e.end_time, e.reason, u.name)
    joined = schema.node_events.join(schema.users, u.id == e.user_id, isouter=True)
    found: dict[_Key, tuple[int, _Told]] = {}
    for some in chunks(nodes):
        mine = (e.cluster_id == cluster) & e.node_id.in_(some)
        for row in conn.execute(select(*columns).select_from(joined).where(mine)):
            told = _Told(row.end_time, row.reason, row.name)
            found[_Key(row.node_id, row.start_time, row.state)] = (row.id, told)
    return found


def between(conn: Connection, cluster: str, since: int, until: int) -> list[NodeEvent]:
    """The events that lie in part in [since, until), by their start."""
    known = cluster_id(conn, cluster)
    if known is None:
        return []
    e, n, u = schema.node_events.c, schema.nodes.c, schema.users.c
    query = (
        select(e.start_time, e.end_time, e.state, e.reason, n.name, u.name.label("user"))
        .join(schema.nodes, n.id == e.node_id)
        .join(schema.users, u.id == e.user_id, isouter=True)
        .where(e.cluster_id == known, e.start_time < until)
        .where(or_(e.end_time.is_(None), e.end_time > since))
        .order_by(e.start_time, n.name, e.state)
    )
    return [
        NodeEvent(cluster, r.name, r.start_time, r.state, r.end_time, r.reason, r.user)
        for r in conn.execute(query)
    ]
