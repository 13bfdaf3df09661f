"""Which jobs a filter takes, as conditions on the rows of `jobs` and of `usage_days`.

Texts are looked up first, so that the conditions on the long tables are on numbers and indexes
serve them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from sqlalchemy import ColumnElement, Connection, Select, Table, and_, false, or_, select

from gsched.model.job import JobKey
from gsched.model.merge import part_of
from gsched.model.past import HistoryFilter
from gsched.model.times import DAY_S
from gsched_sql.names import MAX_IN_LIST, find
from gsched_sql.schema import (
    attempts,
    clusters,
    job_names,
    jobs,
    node_list_members,
    nodes,
    partitions,
    qos,
    tenants,
    usage_days,
    users,
)

_UNCLASSIFIED = ""
"""The phase of unclassified jobs in `usage_days`, whose key takes no NULL."""


def newest_first() -> tuple[ColumnElement[int], ...]:
    """The order of lists of jobs; no two jobs are equal in it."""
    c = jobs.c
    down = (c.epoch, c.job_id, c.array_task, c.het_offset)
    return (*(column.desc() for column in down), c.cluster_id.asc())


def conditions(conn: Connection, wanted: HistoryFilter) -> list[ColumnElement[bool]]:
    """What holds of the rows of `jobs` that are wanted, the place of the page included."""
    c = jobs.c
    found = _of_dimensions(conn, jobs, wanted)
    if wanted.names:
        found.append(c.name_id.in_(_ids(conn, job_names, wanted.names)))
    if wanted.qos:
        found.append(c.qos_id.in_(_ids(conn, qos, wanted.qos)))
    if wanted.phases:
        found.append(_in_or_null(c.phase, wanted.phases))
    if wanted.node_names:
        found.append(c.id.in_(_jobs_on(conn, wanted.node_names)))
    if wanted.since is not None:
        found.append(or_(c.end_time.is_(None), c.end_time >= wanted.since))
        if wanted.users:
            found += _among_few(conn, _ids(conn, users, wanted.users), wanted.since)
    if wanted.until is not None:
        found.append(c.epoch < wanted.until)
    for name in ("job_id", "array_task", "het_offset"):
        number = getattr(wanted, name)
        if number is not None:
            found.append(c[name] == number)
    if wanted.after is not None:
        found.append(_behind(conn, wanted.after))
    return found


def _among_few(conn: Connection, user_ids: Sequence[int], since: int) -> list[ColumnElement[bool]]:
    """The rows by number, where few of the users' jobs lie in the time.

    No index has the order of a list and the time of an end. Without this a user of many old jobs
    and few new ones would have all of them looked at for one page.
    """
    c = jobs.c
    of_users = select(c.id).where(c.user_id.in_(user_ids)).limit(MAX_IN_LIST + 1)
    found: list[int] = []
    for ended in (c.end_time >= since, c.end_time.is_(None)):
        found += conn.execute(of_users.where(ended)).scalars()
        if len(found) > MAX_IN_LIST:
            return []  # so many that a page of them is full at once
    return [c.id.in_(found)]


def counts_pruned(wanted: HistoryFilter) -> bool:
    """Whether what pruned jobs have left can be told apart by this filter."""
    return not (wanted.names or wanted.qos or wanted.node_names or wanted.job_id is not None)


def conditions_of_pruned(conn: Connection, wanted: HistoryFilter) -> list[ColumnElement[bool]]:
    """What holds of the rows of `usage_days` that are wanted; times choose whole days of the end.

    What the table does not know (see `counts_pruned`) is left out.
    """
    c = usage_days.c
    found = _of_dimensions(conn, usage_days, wanted)
    if wanted.phases:
        found.append(c.phase.in_([phase or _UNCLASSIFIED for phase in wanted.phases]))
    if wanted.since is not None:
        found.append(c.day >= wanted.since - wanted.since % DAY_S)
    if wanted.until is not None:
        found.append(c.day < wanted.until)
    return found


def _of_dimensions(
    conn: Connection, table: Table, wanted: HistoryFilter
) -> list[ColumnElement[bool]]:
    c = table.c
    found: list[ColumnElement[bool]] = []
    if wanted.clusters:
        found.append(c.cluster_id.in_(_ids(conn, clusters, wanted.clusters)))
    if wanted.users:
        found.append(c.user_id.in_(_ids(conn, users, wanted.users)))
    if wanted.tenants:
        found.append(c.tenant_id.in_(_ids(conn, tenants, wanted.tenants)))
    if wanted.partitions:
        found.append(c.partition_id.in_(_partition_ids(conn, set(wanted.partitions))))
    if wanted.states:
        found.append(c.state.in_([state.value for state in wanted.states]))
    return found


def _ids(conn: Connection, table: Table, names: Iterable[str]) -> list[int]:
    return sorted(find(conn, table, names).values())


def _partition_ids(conn: Connection, wanted: set[str]) -> list[int]:
    """Rows that name one of the partitions: a pending job may name several, "gpu,cpu"."""
    rows = conn.execute(select(partitions.c.id, partitions.c.name))
    return [row_id for row_id, listed in rows if wanted & set(listed.split(","))]


def _in_or_null(
    column: ColumnElement[str | None], values: Iterable[str | None]
) -> ColumnElement[bool]:
    told = sorted({value for value in values if value is not None})
    return or_(column.in_(told), column.is_(None)) if None in set(values) else column.in_(told)


def _jobs_on(conn: Connection, names: Iterable[str]) -> Select[tuple[int]]:
    lists = select(node_list_members.c.node_list_id).where(
        node_list_members.c.node_id.in_(_ids(conn, nodes, names))
    )
    return select(attempts.c.logical_job).where(attempts.c.node_list_id.in_(lists))


def _behind(conn: Connection, last: JobKey) -> ColumnElement[bool]:
    """Rows behind `last` in the order of `newest_first`."""
    c = jobs.c
    part = part_of(last.job_id, last.array_task, last.het_offset)
    place = (
        (c.epoch, last.epoch),
        (c.job_id, part.job_id),
        (c.array_task, part.array_task),
        (c.het_offset, part.het_offset),
    )
    cluster = find(conn, clusters, [last.cluster]).get(last.cluster)
    behind: ColumnElement[bool] = false() if cluster is None else c.cluster_id > cluster
    for column, value in reversed(place):
        behind = or_(column < value, and_(column == value, behind))
    return and_(c.epoch <= last.epoch, behind)
