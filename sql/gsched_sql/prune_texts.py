"""Interned texts that nobody refers to any more: job names, their groups, lists.

Users, accounts, partitions, QOS, clusters and nodes stay: they are few, and the sums of pruned
jobs refer to them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from sqlalchemy import (
    Column,
    CompoundSelect,
    Connection,
    Engine,
    Index,
    MetaData,
    Table,
    except_,
    select,
)

from gsched.model.progress import Progress
from gsched_sql.engine import reading, writing
from gsched_sql.prune_rows import delete_where
from gsched_sql.schema import (
    attempts,
    job_names,
    jobs,
    name_groups,
    node_list_members,
    node_lists,
    tres_counts,
    tres_lists,
)

REFERENCES: tuple[tuple[Table, tuple[Any, ...], tuple[Any, ...]], ...] = (
    (job_names, (jobs.c.name_id, attempts.c.name_id), ()),
    (name_groups, (job_names.c.group_id,), ()),
    (node_lists, (attempts.c.node_list_id,), (node_list_members.c.node_list_id,)),
    (
        tres_lists,
        (attempts.c.requested_id, attempts.c.allocated_id),
        (tres_counts.c.tres_list_id,),
    ),
)
"""Tables of texts, the columns that use them, and those of the rows that are their parts."""


def unused(table: Table, users: Sequence[Any]) -> CompoundSelect[Any]:
    """The row numbers of the texts of a table that no row uses."""
    # EXCEPT reads each table once; no engine does so for NOT EXISTS without an index.
    return except_(select(table.c.id), *(select(column) for column in users))


def prune(engine: Engine, on_progress: Progress) -> Iterator[tuple[str, int]]:
    """Delete unused texts, a transaction a table; yields how many."""
    for table, users, parts in REFERENCES:
        with writing(engine) as conn, _indexed(conn, users):
            ids = conn.execute(unused(table, users)).scalars().all()
            for part in parts:
                delete_where(conn, part, ids)
            gone = delete_where(conn, table.c.id, ids)
        on_progress(f"texts of {table.name}", gone)
        yield "texts", gone


def may_prune(engine: Engine) -> bool:
    """Whether this login can: PostgreSQL lets only the owner of a table make its indexes.

    Without them the server would read all attempts for each text that goes.
    """
    if engine.dialect.name != "postgresql":
        return True
    query = "SELECT pg_has_role(relowner, 'USAGE') FROM pg_class WHERE oid = 'attempts'::regclass"
    with reading(engine) as conn:
        return bool(conn.exec_driver_sql(query).scalar_one())


@contextmanager
def _indexed(conn: Connection, columns: Sequence[Any]) -> Iterator[None]:
    """Indexes for as long as the block runs, within its transaction.

    Whoever deletes a text has it looked up in each column that refers to it, a scan of millions
    of rows each time without one; ingest itself needs none. MariaDB always has them.
    """
    lacks = [column for column in columns if not column.index]
    made = [_index(column) for column in lacks] if conn.dialect.name != "mariadb" else []
    for index in made:
        index.create(conn)
    yield
    for index in made:
        index.drop(conn)


def _index(column: Any) -> Index:
    """An index that the schema does not know of."""
    table = column.table.name
    alone = Table(table, MetaData(), Column(column.name, column.type))
    return Index(f"prune_{table}_{column.name}", alone.c[column.name])
