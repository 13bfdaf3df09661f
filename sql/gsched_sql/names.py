"""Texts that come again: each one once, referred to by its row.

Every text is looked up once a transaction; nothing is remembered beyond it, so that memory stays
bounded and nobody holds the number of a row that has been pruned.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TypeVar

from sqlalchemy import Connection, Table, select

from gsched.errors import DataError
from gsched.model.hostlist import expand
from gsched.model.names import masked
from gsched.model.tres import tres_of
from gsched_sql import schema
from gsched_sql.columns import text_digest
from gsched_sql.inserts import insert_rows, next_id

MAX_IN_LIST = 5000
"""Values in one IN list; SQLite takes 32,766 parameters in a statement."""

T = TypeVar("T")


def chunks(items: Sequence[T], size: int = MAX_IN_LIST) -> Iterator[Sequence[T]]:
    """`items` in pieces that fit an IN list."""
    for start in range(0, len(items), size):
        yield items[start : start + size]


def find(conn: Connection, table: Table, names: Iterable[str]) -> dict[str, int]:
    """Rows of those of `names` that the table has."""
    return _find(conn, table, {text_digest(name): name for name in names})


def _find(conn: Connection, table: Table, digests: Mapping[str, str]) -> dict[str, int]:
    found: dict[str, int] = {}
    for part in chunks(list(digests)):
        rows = conn.execute(
            select(table.c.name_digest, table.c.id).where(table.c.name_digest.in_(part))
        )
        found.update({digests[digest]: row_id for digest, row_id in rows})
    return found


def intern(conn: Connection, table: Table, names: Iterable[str | None]) -> dict[str, int]:
    """Rows of `names`, made where there is none yet; None is left out. Needs ``engine.writing``."""
    digests = {text_digest(name): name for name in set(names) if name is not None}
    found = _find(conn, table, digests)
    new = sorted((name, digest) for digest, name in digests.items() if name not in found)
    if new:
        found |= _add(conn, table, new)
    return found


def _add(conn: Connection, table: Table, new: Sequence[tuple[str, str]]) -> dict[str, int]:
    """Add texts, given with their digests, and what is kept of their parts."""
    made = {name: number for number, (name, _) in enumerate(new, next_id(conn, table))}
    columns = ["id", "name_digest", "name"]
    rows: list[tuple[int | str, ...]] = [(made[name], digest, name) for name, digest in new]
    if table is schema.job_names:
        masks = {name: masked(name) for name in made}
        groups = intern(conn, schema.name_groups, masks.values())
        columns.append("group_id")
        rows = [(*row, groups[masks[name]]) for row, (name, _) in zip(rows, new, strict=True)]
    insert_rows(conn, table, columns, rows)
    if table is schema.node_lists:
        _add_members(conn, made)
    elif table is schema.tres_lists:
        _add_counts(conn, made)
    return made


def _add_members(conn: Connection, node_lists: Mapping[str, int]) -> None:
    members = {number: _hosts(listed) for listed, number in node_lists.items()}
    node_ids = intern(conn, schema.nodes, {name for names in members.values() for name in names})
    rows = [(number, node_ids[name]) for number, names in members.items() for name in names]
    insert_rows(conn, schema.node_list_members, ("node_list_id", "node_id"), rows)


def _hosts(listed: str) -> list[str]:
    """The nodes of a list, none when it is no host list: the text itself is kept all the same."""
    try:
        return sorted(set(expand(listed)))
    except DataError:
        return []


def _add_counts(conn: Connection, tres_lists: Mapping[str, int]) -> None:
    rows = [
        (number, position, name, count)
        for listed, number in tres_lists.items()
        for position, (name, count) in enumerate(tres_of(listed))
    ]
    insert_rows(conn, schema.tres_counts, ("tres_list_id", "position", "name", "count"), rows)


def cluster_id(conn: Connection, cluster: str) -> int | None:
    """The row of a cluster, None when nothing is known of it."""
    return find(conn, schema.clusters, [cluster]).get(cluster)


def cluster_names(conn: Connection) -> list[str]:
    """Every cluster that the database knows of, sorted."""
    return sorted(conn.execute(select(schema.clusters.c.name)).scalars())
