"""Every attempt that a database holds, as records that bring another database to the same."""

from __future__ import annotations

from collections.abc import Iterator

from sqlalchemy import Connection, select

from gsched.model.history import AttemptRecord
from gsched.model.merge import happened, is_requeuing
from gsched.model.trace import AttemptColumns, columns_of
from gsched.model.unmerge import records_of
from gsched_sql.attempt_rows import attempt_of_row, load_conflicts, record_of_row
from gsched_sql.schema import attempts, clusters
from gsched_sql.texts import TEXT_TABLES, with_texts

ROWS_AT_ONCE = 5000


def export(conn: Connection, cluster: str | None) -> Iterator[AttemptColumns]:
    """All attempts, or those of one cluster, in the order of their rows.

    What is told by weaker claims, or in conflict, has records of its own.
    """
    rows_of_clusters = conn.execute(select(clusters.c.id, clusters.c.name))
    names = {row.id: row.name for row in rows_of_clusters}
    c = attempts.c
    query = with_texts(attempts, TEXT_TABLES).order_by(c.id).limit(ROWS_AT_ONCE)
    if cluster is not None:
        query = query.where(c.cluster_id.in_([i for i, name in names.items() if name == cluster]))
    last = 0
    while rows := conn.execute(query.where(c.id > last)).all():
        last = rows[-1].id
        disputed = load_conflicts(conn, [row.id for row in rows])
        records: list[AttemptRecord] = []
        for row in rows:
            name = names[row.cluster_id]
            record = record_of_row(name, row)
            if row.claims is None and row.id not in disputed and _is_whole(record):
                records.append(record)
            else:
                merged = attempt_of_row(name, row, disputed.get(row.id, {}))
                records += records_of(merged.key, merged.fields)
        yield columns_of(records)


def _is_whole(record: AttemptRecord) -> bool:
    """Whether nothing that the record says would be left out when it is merged."""
    if is_requeuing(record.state, record.end_time):
        return False
    times = (record.start_time, record.end_time)
    return happened(record.state, *times, record.num_nodes, record.node_list) == times
