"""Old jobs out of the database: what they used stays as sums by day.

Jobs go some at a time. One transaction adds a few thousand of them to `usage_days` and deletes
them with everything that is about them, so that at any moment, after kill -9 too, a job is either
whole or in the sums. The mark up to when jobs of a cluster have gone is set before the first one
goes: an ingest of the same rows takes none of them in again.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from sqlalchemy import Connection, Engine, and_, delete, func, insert, select, update

from gsched.errors import DataError
from gsched.model.merge import MAX_INTEGER
from gsched.model.progress import Progress, silent
from gsched.model.times import DAY_S
from gsched_sql import prune_journal, prune_texts
from gsched_sql.engine import reading, writing
from gsched_sql.names import chunks
from gsched_sql.prune_rows import delete_about_jobs, delete_where
from gsched_sql.samples import SqlSamples
from gsched_sql.schema import attempts, clusters, jobs, prune_marks, usage_days
from gsched_sql.values import Pruned, PrunePlan

KINDS = (
    "jobs",
    "attempts",
    "predictions",
    "requests",
    "leases",
    "targets",
    "actions",
    "rounds",
    "spans",
    "fits",
    "node_orders",
    "power_spans",
    "pool_counts",
    "wake_delays",
    "sample_blocks",
    "texts",
)
"""What `Pruned.counts` counts."""

THINNED_INTERVAL_S = 3600.0
"""Samples of pruned times stay as means over an hour."""

_JOBS_AT_ONCE = 5000
_KEY = tuple(column.name for column in usage_days.primary_key)
_MEASURES = ("gpu_time", "cpu_time", "duration", "queueing")
_SUMS = tuple(column.name for column in usage_days.c if not column.primary_key)


def marks(conn: Connection) -> dict[int, int]:
    """By cluster (row): jobs that ended before that epoch have been pruned."""
    c = prune_marks.c
    return {row[0]: row[1] for row in conn.execute(select(c.cluster_id, c.ended_before))}


def plan(engine: Engine, before: int, wanted: Sequence[str] = ()) -> list[PrunePlan]:
    """What would go from each cluster (of `wanted`; none: of all) that has something to go.

    Raises DataError for a cluster that the database does not know.
    """
    with reading(engine) as conn:
        plans = [_plan(conn, row_id, name, before) for name, row_id in _clusters(conn, wanted)]
    return [found for found in plans if found.jobs or found.unfinished]


def _clusters(conn: Connection, wanted: Sequence[str]) -> list[tuple[str, int]]:
    rows = {row[0]: row[1] for row in conn.execute(select(clusters.c.name, clusters.c.id))}
    unknown = sorted(set(wanted) - rows.keys())
    if unknown:
        raise DataError(
            f"the database knows no cluster {', '.join(unknown)}",
            f"it knows {', '.join(sorted(rows)) or 'none yet'}",
        )
    return sorted((name, row_id) for name, row_id in rows.items() if not wanted or name in wanted)


def _plan(conn: Connection, cluster_id: int, name: str, before: int) -> PrunePlan:
    c = jobs.c
    old = (c.cluster_id == cluster_id) & (c.end_time < before)
    query = select(
        func.count().label("jobs"),
        func.sum(c.num_attempts).label("attempts"),
        func.min(c.end_time).label("first_end"),
        func.max(c.end_time).label("last_end"),
        func.sum(c.gpu_time_s).label("gpu_time_s"),
    ).where(old)
    row = conn.execute(query).one()
    still = (c.cluster_id == cluster_id) & c.end_time.is_(None) & (c.epoch < before)
    return PrunePlan(
        cluster=name,
        jobs=row.jobs,
        attempts=int(row.attempts or 0),
        first_end=row.first_end,
        last_end=row.last_end,
        gpu_time_s=int(row.gpu_time_s or 0),
        unfinished=conn.execute(select(func.count()).where(still)).scalar_one(),
    )


def prune(
    engine: Engine,
    before: int,
    wanted: Sequence[str] = (),
    on_progress: Progress = silent,
) -> Pruned:
    """Delete the jobs that ended before `before` (epoch) and what is of no use without them.

    Killed at any moment, it can be run again and does the rest.
    """
    with reading(engine) as conn:
        chosen = _clusters(conn, wanted)
    counts = dict.fromkeys(KINDS, 0)
    for name, cluster_id in chosen:
        with writing(engine) as conn:
            _set_mark(conn, cluster_id, before)
        while True:
            with writing(engine) as conn:
                gone = _prune_some(conn, cluster_id, before)
            if not gone["jobs"]:
                break
            for kind, number in gone.items():
                counts[kind] += number
            on_progress("jobs", counts["jobs"])
        for kind, number in prune_journal.prune(engine, cluster_id, before, on_progress):
            counts[kind] += number
        counts["sample_blocks"] += SqlSamples(engine).thin(name, before, THINNED_INTERVAL_S)
    texts_left = False
    if prune_texts.may_prune(engine):
        for kind, number in prune_texts.prune(engine, on_progress):
            counts[kind] += number
    else:
        texts_left = True
    return Pruned(counts, texts_left)


def _set_mark(conn: Connection, cluster_id: int, before: int) -> None:
    """Set the mark; one that is later already stays."""
    known = marks(conn).get(cluster_id)
    if known is None:
        conn.execute(insert(prune_marks), [{"cluster_id": cluster_id, "ended_before": before}])
    elif known < before:
        mine = prune_marks.c.cluster_id == cluster_id
        conn.execute(update(prune_marks).where(mine).values(ended_before=before))


def _prune_some(conn: Connection, cluster_id: int, before: int) -> dict[str, int]:
    """Aggregate and delete the oldest jobs; returns how many rows have gone, by kind."""
    c = jobs.c
    old = select(jobs).where(c.cluster_id == cluster_id, c.end_time < before)
    rows = conn.execute(old.order_by(c.end_time, c.id).limit(_JOBS_AT_ONCE)).all()
    if not rows:
        return {"jobs": 0}
    _aggregate(conn, cluster_id, rows)
    ids = [row.id for row in rows]
    gone = delete_about_jobs(conn, ids)
    gone["attempts"] = delete_where(conn, attempts.c.logical_job, ids)
    gone["jobs"] = delete_where(conn, jobs.c.id, ids)
    return gone


def _aggregate(conn: Connection, cluster_id: int, rows: Iterable[Any]) -> None:
    """Add jobs to the sums of their days."""
    added: dict[tuple[Any, ...], dict[str, int]] = {}
    for row in rows:
        sums = added.setdefault(_key_of(row), dict.fromkeys(_SUMS, 0))
        sums["jobs"] += 1
        sums["attempts"] += row.num_attempts
        for measure in _MEASURES:
            seconds = getattr(row, f"{measure}_s")
            if seconds is not None:
                sums[f"{measure}_jobs"] += 1
                sums[f"{measure}_s"] += seconds
    c = usage_days.c
    for days in chunks(sorted({key[1] for key in added})):
        stored = select(usage_days).where(c.cluster_id == cluster_id, c.day.in_(days))
        for row in conn.execute(stored).all():
            key = tuple(getattr(row, name) for name in _KEY)
            if key in added:
                for name in _SUMS:
                    added[key][name] += getattr(row, name)
                mine = and_(*(c[name] == value for name, value in zip(_KEY, key, strict=True)))
                conn.execute(delete(usage_days).where(mine))
    conn.execute(
        insert(usage_days),
        [
            dict(zip(_KEY, key, strict=True)) | {n: min(s, MAX_INTEGER) for n, s in sums.items()}
            for key, sums in added.items()
        ],
    )


def _key_of(job: Any) -> tuple[Any, ...]:
    """Where a job belongs in `usage_days`."""
    return (
        job.cluster_id,
        job.end_time // DAY_S * DAY_S,
        job.user_id or 0,
        job.tenant_id or 0,
        job.partition_id or 0,
        job.state,
        job.phase or "",
        -1 if job.num_gpus is None else job.num_gpus,
    )
