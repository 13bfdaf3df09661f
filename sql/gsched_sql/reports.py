"""Sums over groups of jobs, by the named queries in ``queries/``."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import fields, replace
from typing import Any

from sqlalchemy import (
    CTE,
    ColumnElement,
    Connection,
    FromClause,
    Row,
    Table,
    bindparam,
    func,
    select,
    union_all,
)

from gsched.model.job import JobState
from gsched.model.past import HistoryFilter
from gsched.model.times import DAY_S
from gsched.model.usage_groups import (
    GroupedUsage,
    Grouping,
    GroupKey,
    Sums,
    add,
    arranged,
    date_key,
)
from gsched_sql.job_filters import conditions, conditions_of_pruned, counts_pruned
from gsched_sql.named_queries import named_query, over
from gsched_sql.names import chunks, find
from gsched_sql.schema import (
    clusters,
    job_names,
    jobs,
    name_groups,
    partitions,
    qos,
    tenants,
    usage_days,
    users,
)

_NAMED = {
    "user": (users, "user_id"),
    "account": (tenants, "tenant_id"),
    "partition": (partitions, "partition_id"),
    "qos": (qos, "qos_id"),
    "name": (name_groups, "group_id"),
}
"""Groupings by a text that is a row of another table, and the column that refers to it."""

_SUMS = [field.name for field in fields(Sums)]


def usage_by(conn: Connection, wanted: HistoryFilter, by: Grouping) -> GroupedUsage:
    """Sums over the wanted jobs, pruned ones included where they can be told apart.

    At most `wanted.limit` groups are given.
    """
    rows = list(conn.execute(over("usage_by", _chosen_jobs(conn, wanted, by))))
    pruned: list[Row[Any]] = []
    left_out = 0
    if by in ("name", "qos") or not counts_pruned(wanted):
        left_out = _pruned_jobs(conn, wanted)
    else:
        pruned = list(conn.execute(over("usage_by_of_pruned", _chosen_days(conn, wanted, by))))
    key_of = _keys(conn, by, {row.grp for row in [*rows, *pruned]})
    found: dict[GroupKey, dict[JobState, Sums]] = {}
    for row in [*rows, *pruned]:
        sums = Sums(*(int(getattr(row, name) or 0) for name in _SUMS))
        add(found, key_of(row.grp), JobState(row.state), sums)
    usage = replace(
        arranged(found, by, wanted.limit, {}),
        pruned_jobs=sum(int(row.jobs) for row in pruned),
        pruned_left_out=left_out,
    )
    return _with_examples(conn, usage) if by == "name" else usage


def _with_examples(conn: Connection, usage: GroupedUsage) -> GroupedUsage:
    """Groups of names, each with the last and the first name of it that was met."""
    masks = [str(group.key) for group in usage.groups if group.key is not None]
    ids = find(conn, name_groups, masks)
    query = named_query("name_groups").bindparams(bindparam("groups", expanding=True))
    ends: dict[int, tuple[int, int]] = {}
    for some in chunks(sorted(ids.values())):
        for row in conn.execute(query, {"groups": list(some)}):
            ends[row.group_id] = (row.last_id, row.first_id)
    names = _names(conn, job_names, {number for pair in ends.values() for number in pair})
    examples = {
        mask: tuple(dict.fromkeys(names[number] for number in ends[group]))
        for mask, group in ids.items()
    }
    groups = tuple(replace(g, examples=examples.get(str(g.key), ())) for g in usage.groups)
    return replace(usage, groups=groups)


def _chosen_jobs(conn: Connection, wanted: HistoryFilter, by: Grouping) -> CTE:
    c = jobs.c
    source: FromClause = jobs
    grp: ColumnElement[Any]
    if by == "name":
        source = jobs.outerjoin(job_names, job_names.c.id == c.name_id)
        grp = job_names.c.group_id
    elif by in ("day", "month"):
        grp = c.end_time - c.end_time % DAY_S
    elif by == "gpus":
        grp = c.num_gpus
    elif by in _NAMED:
        grp = c[_NAMED[by][1]] + 0  # not by the order of an index: all rows are read
    else:
        grp = c[by]
    summed = (c.state, c.num_attempts, c.gpu_time_s, c.cpu_time_s, c.duration_s, c.queueing_s)
    query = select(grp.label("grp"), *summed).select_from(source)
    if wanted.since is None:
        return query.where(*conditions(conn, wanted)).cte("chosen")
    # Of an OR over two ranges no engine makes two reads of an index.
    of_clusters = c.cluster_id.in_(select(clusters.c.id))
    rest = query.where(of_clusters, *conditions(conn, replace(wanted, since=None)))
    ended, open_ = rest.where(c.end_time >= wanted.since), rest.where(c.end_time.is_(None))
    return union_all(ended, open_).cte("chosen")


def _chosen_days(conn: Connection, wanted: HistoryFilter, by: Grouping) -> CTE:
    c = usage_days.c
    grp: ColumnElement[Any]
    if by in ("day", "month"):
        grp = c.day
    elif by == "gpus":
        grp = func.nullif(c.num_gpus, -1)
    elif by in _NAMED:
        grp = func.nullif(c[_NAMED[by][1]], 0)
    else:
        grp = func.nullif(c[by], "")
    query = select(grp.label("grp"), c.state, *(c[name] for name in _SUMS))
    return query.where(*conditions_of_pruned(conn, wanted)).cte("chosen")


def _pruned_jobs(conn: Connection, wanted: HistoryFilter) -> int:
    query = select(func.sum(usage_days.c.jobs)).where(*conditions_of_pruned(conn, wanted))
    return int(conn.execute(query).scalar() or 0)


def _keys(conn: Connection, by: Grouping, found: set[Any]) -> Callable[[Any], GroupKey]:
    """What a value of `grp` stands for."""
    if by in _NAMED:
        return _names(conn, _NAMED[by][0], found - {None}).get
    if by in ("day", "month"):
        return lambda day: None if day is None else date_key(int(day), by)
    return lambda value: value


def _names(conn: Connection, table: Table, ids: Collection[int]) -> dict[int, str]:
    found: dict[int, str] = {}
    for some in chunks(sorted(ids)):
        rows = conn.execute(select(table.c.id, table.c.name).where(table.c.id.in_(some)))
        found.update((row_id, name) for row_id, name in rows)
    return found
