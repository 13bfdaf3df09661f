"""When the daemon acted and when it only observed: its rounds, folded into spans of time.

A row a round would be a million a year; a span is extended by each of its rounds.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, Engine, insert, select, update

from gsched.model.journal import DaemonSpan
from gsched_sql import schema
from gsched_sql.engine import reading, writing
from gsched_sql.names import cluster_id, intern
from gsched_sql.schema import daemon_spans


class SqlSpans:
    """The spans of one cluster. Every call is a transaction of its own."""

    def __init__(self, engine: Engine, cluster: str) -> None:
        self._engine = engine
        self._cluster = cluster

    def note(self, mode: str, policy: str, at: int, max_gap_s: float, writes: int = 0) -> None:
        """Keep that a round has ended at `at` (epoch), which has sent `writes` changes.

        It extends the last span, or begins a new one where mode or policy is another or the last
        round is more than `max_gap_s` seconds away. Without such a gap the former span ends where
        the new one begins. Only the daemon that leads notes its rounds.
        """
        with writing(self._engine) as conn:
            cluster = intern(conn, schema.clusters, [self._cluster])[self._cluster]
            last = _last(conn, cluster)
            # a clock that was set back a little makes no gap, and no span that ends before it began
            goes_on = last is not None and abs(at - last.end_time) <= max_gap_s
            is_same = goes_on and (last.mode, last.policy) == (mode, policy)
            begin = max(at, last.end_time) if goes_on else at
            if goes_on:
                values = {"end_time": begin}
                if is_same:
                    values |= {"rounds": last.rounds + 1, "writes": last.writes + writes}
                conn.execute(
                    update(daemon_spans).where(daemon_spans.c.id == last.id).values(values)
                )
            if not is_same:
                row = {"cluster_id": cluster, "mode": mode, "policy": policy, "rounds": 1}
                times = {"begin_time": begin, "end_time": begin}
                conn.execute(insert(daemon_spans), [{**row, **times, "writes": writes}])

    def between(self, since: int | None, until: int | None) -> list[DaemonSpan]:
        """The spans that lie in part in [since, until), oldest first, whole; None = no bound."""
        c = daemon_spans.c
        with reading(self._engine) as conn:
            query = select(daemon_spans).where(c.cluster_id == cluster_id(conn, self._cluster))
            if since is not None:
                query = query.where(c.end_time >= since)
            if until is not None:
                query = query.where(c.begin_time < until)
            rows = conn.execute(query.order_by(c.begin_time, c.id)).all()
        return [
            DaemonSpan(r.mode, r.policy, r.begin_time, r.end_time, r.rounds, r.writes) for r in rows
        ]


def _last(conn: Connection, cluster: int) -> Any:
    c = daemon_spans.c
    query = select(daemon_spans).where(c.cluster_id == cluster).order_by(c.id.desc()).limit(1)
    return conn.execute(query).one_or_none()
