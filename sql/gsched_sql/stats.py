"""What a database holds, in numbers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

from sqlalchemy import Connection, Engine, func, select

from gsched.model.history import Reject
from gsched.model.times import DAY_S
from gsched_sql.columns import KeptText
from gsched_sql.engine import reading
from gsched_sql.named_queries import named_query
from gsched_sql.schema import (
    REVISION,
    clusters,
    conflicts,
    ingest_cursors,
    jobs,
    metadata,
    prune_marks,
    rejects,
)
from gsched_sql.sizes import database_bytes, table_bytes
from gsched_sql.urls import location
from gsched_sql.values import HistoryStats, LastIngest, PhaseCount, RejectCount

MAX_REASONS = 50
"""Of the reasons of rejects so many are told, the most frequent ones."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def collect(engine: Engine) -> HistoryStats:
    """Counts and sums over the whole database."""
    with reading(engine) as conn:
        totals = conn.execute(named_query("totals")).one()
        texts = named_query("unknown_states").columns(state_text=KeptText)
        field = conflicts.c.field
        in_conflict = select(field, func.count()).group_by(field).order_by(field)
        return HistoryStats(
            location=location(engine.url),
            revision=REVISION,
            rows=_rows(conn),
            bytes_by_table=table_bytes(conn),
            states={row.state: row.jobs for row in conn.execute(named_query("states"))},
            unknown_states={row.state_text: row.attempts for row in conn.execute(texts)},
            phases=_phases(conn),
            first_submit=totals.first_submit,
            last_end=totals.last_end,
            finished_jobs=int(totals.finished_jobs or 0),
            gpu_time_jobs=int(totals.gpu_time_jobs or 0),
            gpu_time_s=int(totals.gpu_time_s or 0),
            size_bytes=database_bytes(conn),
            jobs_by_month=_jobs_by_month(conn),
            conflicts={row[0]: row[1] for row in conn.execute(in_conflict)},
            prune_marks=_prune_marks(conn),
            last_ingests=_last_ingests(conn),
            rejects=_rejects(conn),
        )


def rejected_rows(
    conn: Connection, limit: int, source: str | None = None, skip: int = 0
) -> list[Reject]:
    """Rows that no reader has understood, the last met first, of one source or all."""
    query = select(rejects).order_by(rejects.c.id.desc()).limit(limit).offset(skip)
    if source is not None:
        query = query.where(rejects.c.source == source)
    return [Reject(row.source, row.line, row.reason, row.raw) for row in conn.execute(query)]


def _rows(conn: Connection) -> dict[str, int]:
    return {
        table.name: conn.execute(select(func.count()).select_from(table)).scalar_one()
        for table in metadata.sorted_tables
    }


def _phases(conn: Connection) -> tuple[PhaseCount, ...]:
    return tuple(
        PhaseCount(row.phase, row.jobs, row.gpu_time_jobs, int(row.gpu_time_s or 0))
        for row in conn.execute(named_query("phases"))
    )


def _jobs_by_month(conn: Connection) -> Mapping[str, int]:
    """Jobs by the month (UTC) of their first submit."""
    day = jobs.c.epoch // DAY_S
    months: Counter[str] = Counter()
    for number, count in conn.execute(select(day, func.count()).group_by(day)):
        months[_month(int(number))] += count
    return dict(sorted(months.items()))


def _month(day: int) -> str:
    try:
        return f"{_EPOCH + timedelta(days=day):%Y-%m}"
    except OverflowError:  # times in a source that are none
        return "beyond"


def _rejects(conn: Connection) -> tuple[RejectCount, ...]:
    c = rejects.c
    count = func.count().label("number")
    query = select(c.source, c.reason, count).group_by(c.source, c.reason)
    rows = conn.execute(query.order_by(count.desc(), c.source, c.reason).limit(MAX_REASONS))
    return tuple(RejectCount(row.source, row.reason, row.number) for row in rows)


def _prune_marks(conn: Connection) -> Mapping[str, int]:
    joined = select(clusters.c.name, prune_marks.c.ended_before).join(
        prune_marks, prune_marks.c.cluster_id == clusters.c.id
    )
    return {row[0]: row[1] for row in conn.execute(joined.order_by(clusters.c.name))}


def _last_ingests(conn: Connection) -> tuple[LastIngest, ...]:
    c = ingest_cursors.c
    rows = conn.execute(select(c.source_key, c.cursor, c.updated_at))
    return tuple(sorted((LastIngest(*row) for row in rows), key=lambda told: told.source))
