"""Checks of the tables of texts: keys, parts of lists, and who refers to them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from sqlalchemy import Connection, Table, func, select

from gsched.errors import DataError
from gsched.model.hostlist import expand
from gsched.model.tres import tres_of
from gsched_sql.columns import text_digest
from gsched_sql.findings import Findings
from gsched_sql.prune_texts import REFERENCES, unused
from gsched_sql.schema import (
    conflicts,
    ingest_cursors,
    metadata,
    node_list_members,
    node_lists,
    nodes,
    rejects,
    series,
    tres_counts,
    tres_lists,
)

_ROWS_AT_ONCE = 1000


def check(conn: Connection, found: Findings) -> None:
    """All checks of texts."""
    _digests(conn, found)
    _node_lists(conn, found)
    _tres_lists(conn, found)
    for table, users, _ in REFERENCES:
        free = unused(table, users).subquery()
        count = conn.execute(select(func.count()).select_from(free)).scalar_one()
        if count:
            found.add("unused", f"{table.name}: {count}", count)


def _digests(conn: Connection, found: Findings) -> None:
    keyed: list[tuple[Table, str, tuple[str, ...]]] = [
        (table, "name_digest", ("name",))
        for table in metadata.sorted_tables
        if "name_digest" in table.c
    ]
    keyed += [
        (series, "subject_digest", ("subject",)),
        (ingest_cursors, "source_digest", ("source_key",)),
        (conflicts, "value_digest", ("value",)),
        (rejects, "content_digest", ("source", "reason", "raw")),
    ]
    for table, digest, texts in keyed:
        for row in _stream(conn, select(table.c[digest], *(table.c[name] for name in texts))):
            if row[0] != text_digest(*row[1:]):
                found.add("digest", f"{table.name}: {row[1][:80]}")


def _node_lists(conn: Connection, found: Findings) -> None:
    m = node_list_members.c
    query = (
        select(node_lists.c.id, node_lists.c.name, nodes.c.name)
        .outerjoin(node_list_members, m.node_list_id == node_lists.c.id)
        .outerjoin(nodes, nodes.c.id == m.node_id)
        .order_by(node_lists.c.id)
    )
    for listed, names in _grouped(conn, query):
        if {name for (name,) in names} != _hosts(listed):
            found.add("parts", f"node list {listed[:80]}")


def _hosts(listed: str) -> set[str]:
    try:
        return set(expand(listed))
    except DataError:
        return set()


def _tres_lists(conn: Connection, found: Findings) -> None:
    c = tres_counts.c
    query = (
        select(tres_lists.c.id, tres_lists.c.name, c.name, c.count)
        .outerjoin(tres_counts, c.tres_list_id == tres_lists.c.id)
        .order_by(tres_lists.c.id, c.position)
    )
    for listed, counts in _grouped(conn, query):
        try:
            is_same = tuple(counts) == tres_of(listed)
        except DataError:
            is_same = False
        if not is_same:
            found.add("parts", f"resources {listed[:80]}")


def _grouped(conn: Connection, query: Any) -> Iterator[tuple[str, list[tuple[Any, ...]]]]:
    """Texts with their parts, from rows of (id, text, part…) in the order of ids."""
    last: Any = None
    parts: list[tuple[Any, ...]] = []
    for row in _stream(conn, query):
        if last is not None and row[0] != last[0]:
            yield last[1], parts
            parts = []
        last = row
        if row[2] is not None:
            parts.append(tuple(row[2:]))
    if last is not None:
        yield last[1], parts


def _stream(conn: Connection, query: Any) -> Iterator[Any]:
    with conn.execute(query.execution_options(yield_per=_ROWS_AT_ONCE)) as result:
        yield from result
