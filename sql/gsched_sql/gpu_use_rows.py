"""Which GPUs attempts asked for and held in a time, for the ledger of tenants: a million at once.

Jobs lead to the attempts, because they have an index by their end. Names, and lists of resources,
are read once each.
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping
from typing import Any

from sqlalchemy import ColumnElement, Connection, Table, case, func, or_, select

from gsched.model.gpu_use import NOT_TOLD, GpuCounts, GpuUse
from gsched.model.job import UNLIMITED_S, JobState, finite_limit_s
from gsched.model.merge import Part
from gsched_sql.names import cluster_id
from gsched_sql.prune import marks
from gsched_sql.schema import attempts, jobs, tenants, tres_counts, users
from gsched_sql.submits import next_submit, submits_of

_TYPED = "gres/gpu:"
_NO_ROW = 0
_HOLD = (JobState.RUNNING.value, JobState.COMPLETING.value)  # a suspended job's limit stands still
_COLUMNS = (
    *("job", "job_id", "array_task", "het_offset", "epoch", "tenant", "user"),
    *("submit_time", "eligible_time", "start_time", "end_time"),
    *("num_gpus", "requested", "allocated", "time_limit_s", "is_limited"),
)
_ROWS_AT_ONCE = 20_000


def between(conn: Connection, cluster: str, since: int, until: int) -> GpuUse:
    """Attempts that may have asked for GPUs in part of [since, until), in no order.

    Those whose number of GPUs nobody has told are among them.
    """
    known = cluster_id(conn, cluster)
    told = {name: array("q") for name in _COLUMNS}
    if known is not None:
        for of_jobs in (jobs.c.end_time > since, jobs.c.end_time.is_(None)):
            _read(conn, _query(known, of_jobs, since, until), told)
    ends_by = array("q") if known is None else _last_ends(conn, known, told, until)
    del told["time_limit_s"], told["is_limited"]
    return GpuUse(
        **told,
        ends_by=ends_by,
        tenants={_NO_ROW: "", **_names(conn, tenants)},
        users={_NO_ROW: "", **_names(conn, users)},
        gpus=_gpus(conn),
        pruned_before=None if known is None else marks(conn).get(known),
    )


def first_asked_by_tasks(conn: Connection, cluster: str, since: int) -> int | None:
    """The first submit time among tasks of arrays that have started, or have ended without a start,
    since then; None: there are none. They were not known one by one before.
    """
    a = attempts.c
    met = func.coalesce(a.start_time, a.end_time)
    query = select(func.min(a.submit_time)).join_from(jobs, attempts, a.logical_job == jobs.c.id)
    found = [
        conn.execute(
            query.where(
                jobs.c.cluster_id == cluster_id(conn, cluster),
                of_jobs,
                a.array_task >= 0,
                met >= since,
            )
        ).scalar()
        for of_jobs in (jobs.c.end_time >= since, jobs.c.end_time.is_(None))
    ]
    return min((moment for moment in found if moment is not None), default=None)


def first_epoch(conn: Connection, cluster: str) -> int | None:
    """The first submit time of a cluster's jobs that are kept; None: there is none."""
    query = select(func.min(jobs.c.epoch)).where(jobs.c.cluster_id == cluster_id(conn, cluster))
    found: int | None = conn.execute(query).scalar()
    return found


def active_tenants(conn: Connection, cluster: str, since: int) -> frozenset[str]:
    """Tenants whose jobs have asked for GPUs since then, as far as is known."""
    c = jobs.c
    mine = (c.cluster_id == cluster_id(conn, cluster)) & (c.num_gpus > 0)
    found: set[str] = set()
    for of_jobs in (c.end_time > since, c.end_time.is_(None)):
        query = select(tenants.c.name).join(jobs, c.tenant_id == tenants.c.id)
        found.update(conn.execute(query.where(mine, of_jobs).distinct()).scalars())
    return frozenset(found)


def _read(conn: Connection, query: Any, told: Mapping[str, array[int]]) -> None:
    """Add the rows of a query to the columns: in pieces, for a million rows are a gigabyte."""
    chosen = query.execution_options(yield_per=_ROWS_AT_ONCE)
    with conn.execute(chosen) as result:
        for rows in result.partitions():
            for column, values in zip(told.values(), zip(*rows, strict=True), strict=True):
                column.extend(values)


def _query(cluster: int, of_jobs: ColumnElement[bool], since: int, until: int) -> Any:
    """The attempts of a cluster, by _COLUMNS."""
    a, j = attempts.c, jobs.c
    num_gpus = func.coalesce(a.num_gpus, j.num_gpus)
    return (
        select(
            *(j.id, j.job_id, j.array_task, j.het_offset, j.epoch),
            func.coalesce(a.tenant_id, j.tenant_id, _NO_ROW),
            func.coalesce(a.user_id, j.user_id, _NO_ROW),
            a.submit_time,
            *(func.coalesce(c, NOT_TOLD) for c in (a.eligible_time, a.start_time, a.end_time)),
            func.coalesce(num_gpus, NOT_TOLD),
            *(func.coalesce(c, _NO_ROW) for c in (a.requested_id, a.allocated_id)),
            func.coalesce(a.time_limit_s, UNLIMITED_S),
            case((a.state.in_(_HOLD), 1), else_=0),
        )
        .join_from(jobs, attempts, a.logical_job == j.id)
        .where(
            j.cluster_id == cluster,
            of_jobs,
            a.submit_time < until,
            or_(a.end_time.is_(None), a.end_time > since),
            or_(num_gpus.is_(None), num_gpus > 0),
            a.state != JobState.REVOKED.value,  # ran on another cluster of the federation
        )
    )


def _last_ends(
    conn: Connection, cluster: int, told: Mapping[str, array[int]], until: int
) -> array[int]:
    """By when attempts without an end must have ended; NOT_TOLD for all others."""
    found = array("q", [NOT_TOLD]) * len(told["job"])
    are_open = [row for row, end in enumerate(told["end_time"]) if end == NOT_TOLD]
    slots = {row: Part(*(told[name][row] for name in Part._fields)) for row in are_open}
    submits = submits_of(conn, cluster, set(slots.values()))
    for row, slot in slots.items():
        later = next_submit(submits[slot], told["submit_time"][row])
        ends = [] if later is None else [later]
        limit_s, start = finite_limit_s(told["time_limit_s"][row]), told["start_time"][row]
        if limit_s is not None and start != NOT_TOLD and told["is_limited"][row]:
            ends.append(start + limit_s)
        end = min(ends, default=until)
        if end < until:
            found[row] = end
    return found


def _names(conn: Connection, table: Table) -> Mapping[int, str]:
    return {row[0]: row[1] for row in conn.execute(select(table.c.id, table.c.name))}


def _gpus(conn: Connection) -> Mapping[int, GpuCounts]:
    """The GPUs of each list of resources that names types."""
    c = tres_counts.c
    found: dict[int, list[tuple[str, int]]] = {}
    query = select(c.tres_list_id, c.name, c.count).where(c.name.like(f"{_TYPED}%"))
    for number, name, count in conn.execute(query):
        found.setdefault(number, []).append((name.removeprefix(_TYPED), count))
    return found
