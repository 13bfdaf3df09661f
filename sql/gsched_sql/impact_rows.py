"""What `gsched daemon report` reads: jobs with their waits, and sums over the journal."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import ColumnElement, Connection, Select, Table, and_, exists, func, or_, select

from gsched.model.impact import JobWait, JournalSums, MovedJob
from gsched.model.journal import ChangeState
from gsched_sql.schema import (
    SLOT,
    actions,
    attempts,
    jobs,
    partitions,
    requests,
    rounds,
    tenants,
    users,
)

_WRITTEN = (ChangeState.CONFIRMED.value, ChangeState.SENT.value)
_OBSERVED = (ChangeState.OBSERVED.value,)
_JOB = (*SLOT, "epoch")
_UNKNOWN = "?"


def job_waits(
    conn: Connection, cluster_id: int, since: int | None, until: int | None
) -> list[JobWait]:
    """Jobs of a cluster first submitted in [since, until), by their first submit."""
    c = jobs.c
    query = (
        select(
            c.epoch,
            c.start_time,
            c.end_time,
            c.queueing_s,
            c.duration_s,
            c.num_gpus,
            c.gpu_time_s,
            func.coalesce(partitions.c.name, ""),
            or_(c.start_time.is_not(None), c.end_time.is_not(None), _may_start()),
        )
        .select_from(jobs.outerjoin(partitions, partitions.c.id == c.partition_id))
        .where(c.cluster_id == cluster_id, *_within(c.epoch, since, until))
        .order_by(c.epoch, c.id)
    )
    return [JobWait(*row) for row in conn.execute(query)]


def _may_start() -> ColumnElement[bool]:
    """Whether Slurm has told from when on a job may start."""
    told = attempts.c.eligible_time.is_not(None)
    return exists().where(attempts.c.logical_job == jobs.c.id, told)


def journal_sums(
    conn: Connection, cluster_id: int, since: int | None, until: int | None
) -> JournalSums:
    """What was decided on a cluster's jobs in [since, until)."""
    here = [actions.c.cluster_id == cluster_id, *_within(actions.c.decided_at, since, until)]
    taken_back = [actions.c.takes_back, actions.c.state == ChangeState.CONFIRMED.value]
    asked = [requests.c.cluster_id == cluster_id, *_within(requests.c.first_seen, since, until)]
    by_state = select(actions.c.state, func.count()).where(*here).group_by(actions.c.state)
    return JournalSums(
        changes=_counts(conn, by_state),
        taken_back=_count(conn, actions, [*here, *taken_back]),
        written=_moved(conn, here, _WRITTEN),
        observed=_moved(conn, here, _OBSERVED),
        jobs_by_reason=_jobs_by_reason(conn, here),
        inversions=_inversions(conn, cluster_id, since, until),
        requests=_count(conn, requests, asked),
        jobs_with_requests=_count_of_jobs(conn, requests, asked),
    )


def _within(
    column: ColumnElement[Any], since: int | None, until: int | None
) -> list[ColumnElement[bool]]:
    found = [] if since is None else [column >= since]
    return found if until is None else [*found, column < until]


def _counts(conn: Connection, query: Select[Any]) -> dict[str, int]:
    return {row[0]: row[1] for row in conn.execute(query)}


def _count(conn: Connection, table: Table, where: Sequence[ColumnElement[bool]]) -> int:
    return conn.execute(select(func.count()).select_from(table).where(*where)).scalar_one()


def _count_of_jobs(conn: Connection, table: Table, where: Sequence[ColumnElement[bool]]) -> int:
    each = select(*(table.c[name] for name in _JOB)).where(*where).distinct().subquery()
    return conn.execute(select(func.count()).select_from(each)).scalar_one()


def _moved(
    conn: Connection, here: Sequence[ColumnElement[bool]], states: Sequence[str]
) -> tuple[MovedJob, ...]:
    """Of each job the last value in one of the states that does not take back."""
    a = actions.c
    chosen = [*here, a.state.in_(states), a.takes_back.is_(False)]
    job = [a[name] for name in _JOB]
    last = select(func.max(a.id).label("id")).where(*chosen).group_by(*job).subquery()
    same = and_(*(jobs.c[name] == a[name] for name in _JOB))
    told = (
        actions.join(last, last.c.id == a.id)
        .outerjoin(jobs, same)
        .outerjoin(users, users.c.id == jobs.c.user_id)
        .outerjoin(tenants, tenants.c.id == jobs.c.tenant_id)
    )
    user = func.coalesce(users.c.name, _UNKNOWN)
    tenant = func.coalesce(tenants.c.name, _UNKNOWN)
    query = select(user, tenant, a.after).select_from(told).order_by(a.id)
    return tuple(MovedJob(*row) for row in conn.execute(query))


def _jobs_by_reason(conn: Connection, here: Sequence[ColumnElement[bool]]) -> dict[str, int]:
    a = actions.c
    each = select(a.reason_code, *(a[name] for name in _JOB)).where(*here).distinct().subquery()
    code = each.c.reason_code
    return _counts(conn, select(code, func.count()).group_by(code))


def _inversions(
    conn: Connection, cluster_id: int, since: int | None, until: int | None
) -> tuple[Mapping[str, int], ...]:
    """What summaries of rounds say of them, where they do."""
    c = rounds.c
    here = [c.cluster_id == cluster_id, c.summary.like('%"inversions"%')]
    query = select(c.summary).where(*here, *_within(c.started_at, since, until))
    found = (json.loads(text) for (text,) in conn.execute(query.order_by(c.started_at)))
    return tuple(told["inversions"] for told in found if told.get("inversions"))
