"""Deleting rows by what they belong to, in statements of bounded length."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import ColumnElement, Connection, Table, and_, bindparam, delete, select

from gsched_sql.names import chunks
from gsched_sql.schema import (
    SLOT,
    actions,
    attempts,
    audit_events,
    jobs,
    lease_events,
    leases,
    predictions,
    requests,
    standings,
    target_events,
    target_runs,
    targets,
)

JOB_KEY = (*SLOT, "epoch")


def delete_where(conn: Connection, column: Any, values: Sequence[Any]) -> int:
    """Delete the rows with one of these values in a column; returns how many they were."""
    deleted = (
        conn.execute(delete(column.table).where(column.in_(some))) for some in chunks(values)
    )
    return sum(result.rowcount for result in deleted)


def same_job(table: Table) -> ColumnElement[bool]:
    """That a row is about a row of `jobs`."""
    return and_(*(table.c[name] == jobs.c[name] for name in JOB_KEY))


def same_attempt(table: Table) -> ColumnElement[bool]:
    """That a row is about a row of `attempts`."""
    return and_(*(table.c[name] == attempts.c[name] for name in (*SLOT, "submit_time")))


def delete_about_jobs(conn: Connection, job_ids: Sequence[int]) -> dict[str, int]:
    """Delete what is about jobs (by row) beside their attempts; returns how much, by kind.

    Conflicts and steps of attempts, quantiles of predictions go with their rows by foreign keys.
    """
    tables = (predictions, requests, leases, targets)
    found = {table: _of_jobs(conn, table, job_ids) for table in tables}
    _delete_standings(conn, job_ids)
    return {
        "predictions": delete_where(conn, predictions.c.id, found[predictions]),
        "requests": delete_where(conn, requests.c.id, found[requests]),
        "leases": delete_leases(conn, found[leases]),
        "targets": delete_targets(conn, found[targets]),
        "actions": delete_actions(conn, _of_jobs(conn, actions, job_ids)),
    }


def delete_leases(conn: Connection, lease_ids: Sequence[int]) -> int:
    """Delete leases (by row) and their transitions."""
    delete_where(conn, lease_events.c.lease_row, lease_ids)
    return delete_where(conn, leases.c.id, lease_ids)


def delete_targets(conn: Connection, target_ids: Sequence[int]) -> int:
    """Delete requests for deadlines (by row) with their plans and events."""
    delete_where(conn, target_runs.c.target_row, target_ids)
    delete_where(conn, target_events.c.target_row, target_ids)
    return delete_where(conn, targets.c.id, target_ids)


def delete_actions(conn: Connection, action_ids: Sequence[int]) -> int:
    """Delete journalled changes (by row) and their transitions."""
    for some in chunks(action_ids):
        query = select(actions.c.change_id).where(actions.c.id.in_(some))
        delete_where(conn, audit_events.c.change_id, conn.execute(query).scalars().all())
    return delete_where(conn, actions.c.id, action_ids)


def _of_jobs(conn: Connection, table: Table, job_ids: Sequence[int]) -> list[int]:
    """The rows of a table that are about these jobs."""
    found: list[int] = []
    for some in chunks(job_ids):
        query = select(table.c.id).join(jobs, same_job(table)).where(jobs.c.id.in_(some))
        found += conn.execute(query).scalars()
    return found


def _delete_standings(conn: Connection, job_ids: Sequence[int]) -> None:
    names = [column.name for column in standings.primary_key]
    mine = and_(*(standings.c[name] == bindparam(f"my_{name}") for name in names))
    for some in chunks(job_ids):
        query = select(*(standings.c[name] for name in names)).join(jobs, same_job(standings))
        rows = conn.execute(query.where(jobs.c.id.in_(some))).all()
        if rows:
            keys = [{f"my_{name}": getattr(row, name) for name in names} for row in rows]
            conn.execute(delete(standings).where(mine), keys)
