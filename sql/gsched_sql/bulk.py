"""The quick way in for attempts whose slot nobody has spoken of yet: no merge, no chain.

Such an attempt is a logical job of its own. Most rows of a trace, and of accounting that is read
for the first time, are of this kind. Rows that are stored already word for word change nothing.
All others are left to the merge (``ingest``); both ways make the same rows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from sqlalchemy import Connection, select

from gsched.model.phases import PhaseRules
from gsched.model.trace import AttemptColumns, Cells, Constant
from gsched_sql.attempt_columns import facts, job_columns, keys, listed, take, taken, text_columns
from gsched_sql.attempt_rows import COLUMNS
from gsched_sql.inserts import insert_columns, next_id, storable
from gsched_sql.names import chunks
from gsched_sql.pruned_rows import Key, not_pruned
from gsched_sql.schema import attempts as attempts_table
from gsched_sql.schema import jobs as jobs_table

_KEY = ("job_id", "array_task", "het_offset", "submit_time")
_COMPARED = (*_KEY, *(name for name in COLUMNS[3:] if name not in _KEY))  # what was told, key first


class Bulk(NamedTuple):
    """What became of the rows of one cluster; `rest` is to be merged."""

    new: int
    unchanged: int
    pruned: int
    rest: AttemptColumns


def store(
    conn: Connection,
    cluster_id: int,
    attempts: AttemptColumns,
    pruned_before: int | None,
    rules: PhaseRules,
) -> Bulk:
    """Insert what is new of the rows of one cluster; needs ``engine.writing``.

    Rows of jobs that have been pruned (see ``pruned_rows``) are left out.
    """
    columns = keys(attempts) | facts(attempts)
    stored = _stored(conn, cluster_id, columns)
    if not stored and pruned_before is None and _all_differ(columns, attempts.count):
        _insert(conn, cluster_id, attempts, columns, rules)
        return Bulk(attempts.count, 0, 0, AttemptColumns(0, {}))
    named = _named(columns, attempts.count)
    if pruned_before is not None:
        ends = listed(columns["end_time"], attempts.count)
        wanted = not_pruned(conn, cluster_id, attempts, named, ends, stored, pruned_before)
        if not all(wanted):
            inner = store(conn, cluster_id, take(attempts, wanted), None, rules)
            return inner._replace(pruned=wanted.count(False))
    slots = Counter(key[:3] for key in named)
    known = {key[:3] for key in stored}
    fresh = [slots[key[:3]] == 1 and key[:3] not in known for key in named]
    _insert(conn, cluster_id, take(attempts, fresh), taken(columns, fresh), rules)
    same = _same(conn, attempts, columns, [stored.get(key) for key in named])
    rest = [not new and not equal for new, equal in zip(fresh, same, strict=True)]
    return Bulk(sum(fresh), sum(same), 0, take(attempts, rest))


def _all_differ(columns: Mapping[str, Cells], count: int) -> bool:
    """Whether no two rows are of one slot, as far as the job ids tell."""
    return len(set(listed(columns["job_id"], count))) == count


def _named(columns: Mapping[str, Cells], count: int) -> list[Key]:
    return list(zip(*(listed(columns[name], count) for name in _KEY), strict=True))


def _stored(
    conn: Connection, cluster_id: int, columns: Mapping[str, Cells]
) -> dict[Key, tuple[Any, ...]]:
    """The stored attempts of all job ids that the rows have, by key; texts as they are stored."""
    c = attempts_table.c
    ids = _known_ids(conn, cluster_id, set(listed(columns["job_id"], 1)))
    found: dict[Key, tuple[Any, ...]] = {}
    tasks = listed(columns["array_task"], 1)
    if ids:
        query = select(*(c[name] for name in _COMPARED)).where(
            c.cluster_id == cluster_id, c.array_task.between(min(tasks), max(tasks))
        )
    for some in chunks(ids):
        cursor: Any = conn.execute(query.where(c.job_id.in_(some))).cursor
        found |= {row[:4]: row for row in cursor.fetchall()}  # of the driver: the quickest way
    return found


def _known_ids(conn: Connection, cluster_id: int, ids: set[int]) -> list[int]:
    """Those of the job ids that are stored, perhaps with others that are not."""
    if not ids:
        return []
    c = attempts_table.c
    # Ids mostly rise with time, so that a look at what lies between saves asking for each.
    among = select(c.job_id).where(c.cluster_id == cluster_id, c.job_id.between(min(ids), max(ids)))
    limit = 2 * len(ids)
    between = conn.execute(among.limit(limit)).scalars().all()
    return sorted(ids if len(between) == limit else ids.intersection(between))


def _same(
    conn: Connection,
    attempts: AttemptColumns,
    columns: Mapping[str, Cells],
    stored: Sequence[tuple[Any, ...] | None],
) -> list[bool]:
    """For each row whether it is stored as it would be if it were new."""
    known = [row is not None for row in stored]
    if not any(known):
        return known
    among = take(attempts, known)
    made = taken(columns, known) | text_columns(conn, among)
    made["claims"] = Constant(None)
    told = (storable(attempts_table, name, made[name]) for name in _COMPARED)
    rows = zip(*(listed(cells, among.count) for cells in told), strict=True)
    equal = iter([row == found for row, found in zip(rows, filter(None, stored), strict=True)])
    return [is_known and next(equal) for is_known in known]


def _insert(
    conn: Connection,
    cluster_id: int,
    attempts: AttemptColumns,
    columns: Mapping[str, Cells],
    rules: PhaseRules,
) -> None:
    count = attempts.count
    if not count:
        return
    common = {**columns, **text_columns(conn, attempts), "cluster_id": Constant(cluster_id)}
    first = next_id(conn, jobs_table)
    job_ids = range(first, first + count)
    jobs = {name: cells for name, cells in common.items() if name in jobs_table.c}
    jobs |= {"id": job_ids, "epoch": columns["submit_time"]}
    insert_columns(conn, jobs_table, count, jobs | job_columns(attempts, columns, rules))
    first = next_id(conn, attempts_table)
    own = {"id": range(first, first + count), "logical_job": job_ids}
    insert_columns(conn, attempts_table, count, common | own)
