"""Reading the journal for people: what was decided, done and seen, and why."""

from __future__ import annotations

from collections.abc import Sequence
from heapq import nlargest

from sqlalchemy import ColumnElement, Connection, Table, select

from gsched.model.jobid import JobId
from gsched.model.journal import ChangeState
from gsched_sql.action_rows import change_of
from gsched_sql.names import chunks
from gsched_sql.schema import actions, audit_events, rounds
from gsched_sql.values import AuditRow


def changes(
    conn: Connection,
    cluster: str,
    cluster_id: int,
    job: JobId | None,
    since: int | None,
    limit: int,
) -> list[AuditRow]:
    """Journalled changes, newest first, with the way each has taken."""
    c = actions.c
    chosen = [c.cluster_id == cluster_id, *of_job(actions, job)]
    if since is not None:
        chosen.append(c.decided_at >= since)
    query = select(actions, rounds.c.policy, rounds.c.acting).join(
        rounds, rounds.c.round_id == c.round_id
    )
    if job is None:
        newest = query.where(*chosen).order_by(c.decided_at.desc(), c.id.desc()).limit(limit)
        rows = list(conn.execute(newest))
    else:
        rows = [
            row
            for some in chunks(_newest_of_job(conn, chosen, limit))
            for row in conn.execute(query.where(c.id.in_(some)))
        ]
        rows.sort(key=lambda row: (row.decided_at, row.id), reverse=True)
    ways = _transitions(conn, [row.change_id for row in rows])
    return [
        AuditRow(
            change=change_of(row, cluster),
            round_id=row.round_id,
            policy=row.policy,
            acting=row.acting,
            state=ChangeState(row.state),
            decided_at=row.decided_at,
            settled_at=row.settled_at,
            detail=row.detail,
            transitions=tuple(ways.get(row.change_id, ())),
        )
        for row in rows
    ]


def _newest_of_job(
    conn: Connection, chosen: Sequence[ColumnElement[bool]], limit: int
) -> list[int]:
    """Rows of a job's newest changes.

    Put in order here: an engine that is asked for the newest of a job may walk through those of
    all jobs, newest first, until it has found so many.
    """
    rows = conn.execute(select(actions.c.decided_at, actions.c.id).where(*chosen))
    return [row_id for _, row_id in nlargest(limit, (tuple(row) for row in rows))]


def of_job(table: Table, job: JobId | None) -> list[ColumnElement[bool]]:
    """Rows of a table with slots; an array's or het job's plain id means all of its parts."""
    if job is None:
        return []
    c = table.c
    found = [c.job_id == job.job_id]
    if job.array_task is not None:
        found.append(c.array_task == job.array_task)
    if job.array_tasks is not None:
        found.append(c.array_task.in_([task for part in job.array_tasks.ranges for task in part]))
    if job.het_offset is not None:
        found.append(c.het_offset == job.het_offset)
    return found


def _transitions(
    conn: Connection, change_ids: Sequence[str]
) -> dict[str, list[tuple[int, str, str]]]:
    e = audit_events.c
    found: dict[str, list[tuple[int, str, str]]] = {}
    for some in chunks(change_ids):
        rows = conn.execute(
            select(e.change_id, e.at, e.to_state, e.detail)
            .where(e.change_id.in_(some))
            .order_by(e.id)
        )
        for change_id, at, to_state, detail in rows:
            found.setdefault(change_id, []).append((at, to_state, detail))
    return found
