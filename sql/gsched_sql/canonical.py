"""What a database says of jobs, without what depends on how it was told: order, pieces, engine.

Two databases that were told the same give the same lines, whatever row numbers they use.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Sequence
from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, Table, literal, select, tuple_

from gsched_sql.attempt_rows import load_conflicts
from gsched_sql.names import find
from gsched_sql.schema import SLOT, attempts, clusters, jobs
from gsched_sql.texts import JOB_TEXTS, TEXT_TABLES, with_texts

_ROWS_A_READ = 5000
_ROW_NUMBERS = ("id", "cluster_id", "logical_job")


def canonical_dump(conn: Connection) -> Iterator[str]:
    """Every job and every attempt with its conflicts, one JSON object a line, by natural keys."""
    for cluster in sorted(conn.execute(select(clusters.c.name)).scalars()):
        number = find(conn, clusters, [cluster])[cluster]
        for some in _pieces(conn, jobs, "epoch", JOB_TEXTS, number):
            yield from (_line("job", cluster, row._asdict(), JOB_TEXTS) for row in some)
        for some in _pieces(conn, attempts, "submit_time", TEXT_TABLES, number):
            conflicts = load_conflicts(conn, [row.id for row in some])
            epochs = _epochs(conn, [row.logical_job for row in some])
            for row in some:
                others = conflicts.get(row.id, {})
                told = row._asdict() | {
                    "epoch": epochs[row.logical_job],
                    "conflicts": {field: sorted(others[field]) for field in sorted(others)},
                }
                yield _line("attempt", cluster, told, TEXT_TABLES)


def _pieces(
    conn: Connection, table: Table, time: str, fields: Collection[str], cluster_id: int
) -> Iterator[Sequence[Row[Any]]]:
    """The rows of a cluster by slot and time, each piece by a query of its own: memory is bounded
    on every engine, and other queries may come in between.
    """
    key = [table.c[name] for name in (*SLOT[1:], time)]
    query = with_texts(table, fields).where(table.c.cluster_id == cluster_id).order_by(*key)
    last: tuple[int, ...] | None = None
    while True:
        behind = query if last is None else query.where(_behind(key, last))
        piece = conn.execute(behind.limit(_ROWS_A_READ)).all()
        if not piece:
            return
        yield piece
        last = tuple(getattr(piece[-1], column.name) for column in key)


def _behind(key: Sequence[ColumnElement[int]], last: Sequence[int]) -> ColumnElement[bool]:
    """The rows behind `last` in the order of `key`."""
    return tuple_(*key) > tuple_(*map(literal, last))


def _epochs(conn: Connection, job_rows: Sequence[int]) -> dict[int, int]:
    rows = conn.execute(select(jobs.c.id, jobs.c.epoch).where(jobs.c.id.in_(set(job_rows))))
    return {row.id: row.epoch for row in rows}


def _line(kind: str, cluster: str, told: dict[str, Any], fields: Collection[str]) -> str:
    left_out = {*_ROW_NUMBERS, *(f"{field}_id" for field in fields)}
    kept = {name: value for name, value in told.items() if name not in left_out}
    return json.dumps({"kind": kind, "cluster": cluster, **kept})
