"""Clusters, users and tenants: each name once, referred to by its row."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TypeVar

from sqlalchemy import Connection, Table, insert, select

from gsched_sql import schema
from gsched_sql.columns import text_digest

MAX_IN_LIST = 5000
"""Values in one IN list; SQLite takes 32,766 parameters in a statement."""

T = TypeVar("T")


def chunks(items: Sequence[T], size: int = MAX_IN_LIST) -> Iterator[Sequence[T]]:
    """`items` in pieces that fit an IN list."""
    for start in range(0, len(items), size):
        yield items[start : start + size]


def find(conn: Connection, table: Table, names: Iterable[str]) -> dict[str, int]:
    """Rows of those of `names` that the table has."""
    digests = {text_digest(name): name for name in names}
    found: dict[str, int] = {}
    for part in chunks(list(digests)):
        rows = conn.execute(
            select(table.c.name_digest, table.c.id).where(table.c.name_digest.in_(part))
        )
        found.update({digests[digest]: row_id for digest, row_id in rows})
    return found


def intern(conn: Connection, table: Table, names: Iterable[str | None]) -> dict[str, int]:
    """Rows of `names`, made where there is none yet; None is left out."""
    wanted = {name for name in names if name is not None}
    found = find(conn, table, wanted)
    new = sorted(wanted - found.keys())
    if new:
        conn.execute(
            insert(table), [{"name_digest": text_digest(name), "name": name} for name in new]
        )
        found |= find(conn, table, new)
    return found


def cluster_id(conn: Connection, cluster: str) -> int | None:
    """The row of a cluster, None when nothing is known of it."""
    return find(conn, schema.clusters, [cluster]).get(cluster)


def cluster_names(conn: Connection) -> list[str]:
    """Every cluster that the database knows of, sorted."""
    return sorted(conn.execute(select(schema.clusters.c.name)).scalars())
