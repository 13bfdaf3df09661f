"""One batch of a source into the history: merge, chain, write. One transaction by the caller."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sqlalchemy import Connection, insert, select, update

from gsched.errors import GschedError
from gsched.model.history import AttemptRecord, Batch, Reject
from gsched.model.logical_jobs import Attempt, chain
from gsched.model.merge import AttemptKey, Claimed, Slot, fold, join, numbers_of
from gsched_sql import schema, standings
from gsched_sql.attempt_rows import load_slots, update_attempts, write_new_attempts
from gsched_sql.columns import text_digest
from gsched_sql.job_rows import JobRows
from gsched_sql.names import chunks, intern
from gsched_sql.values import IngestSummary

MAX_INTEGER = 2**63 - 1
"""The largest number that a column takes."""


def check_accounts(batch: Batch, source_key: str | None) -> None:
    """Raise GschedError when rows were read that the batch does not account for.

    A reader may reject more than rows: a file that is gone, for one.
    """
    if batch.rows_in > len(batch.records) + len(batch.rejects) + batch.rows_skipped:
        raise GschedError(
            f"the reader of {source_key or 'a source'} lost rows: {batch.rows_in} in, "
            f"{len(batch.records)} records, {len(batch.rejects)} rejects, "
            f"{batch.rows_skipped} skipped"
        )


def ingest(conn: Connection, batch: Batch, source_key: str | None) -> IngestSummary:
    """Merge a batch and set the cursor of `source_key` (None: keep no cursor)."""
    records, unstorable = _split(batch.records)
    rejects = (*batch.rejects, *unstorable)
    by_cluster: dict[str, dict[AttemptKey, Claimed]] = {}
    for key, fields in fold(records).items():
        by_cluster.setdefault(key.slot.cluster, {})[key] = fields
    cluster_ids = intern(conn, schema.clusters, by_cluster)
    new = updated = 0
    for cluster, folded in sorted(by_cluster.items()):
        counts = _merge_into(conn, cluster, cluster_ids[cluster], folded)
        new, updated = new + counts[0], updated + counts[1]
    rejected_new = _keep_rejects(conn, rejects)
    if source_key is not None:
        _set_cursor(conn, source_key, batch.cursor)
    return IngestSummary(
        rows_in=len(batch.records) + len(batch.rejects) + batch.rows_skipped,
        attempts_new=new,
        attempts_updated=updated,
        unchanged=len(records) - new - updated,
        rejected=len(rejects),
        skipped=batch.rows_skipped,
        rejected_new=rejected_new,
    )


def _split(records: Sequence[AttemptRecord]) -> tuple[list[AttemptRecord], list[Reject]]:
    """Records that fit the tables, and rejects for those with a number beyond 64 bits."""
    fitting: list[AttemptRecord] = []
    rejects: list[Reject] = []
    for record in records:
        if all(abs(number) <= MAX_INTEGER for number in numbers_of(record)):
            fitting.append(record)
        else:
            rejects.append(Reject(record.source, 0, "a number beyond 64 bits", repr(record)))
    return fitting, rejects


def _merge_into(
    conn: Connection, cluster: str, cluster_id: int, folded: Mapping[AttemptKey, Claimed]
) -> tuple[int, int]:
    """Merge the records of one cluster; returns how many attempts are new and how many changed."""
    slots = list({key.slot.part for key in folded})
    known = {a.key: a for a in load_slots(conn, cluster, cluster_id, slots)}
    new: list[Attempt] = []
    changed: list[Attempt] = []
    for key, fields in folded.items():
        attempt = known.get(key)
        if attempt is None:
            attempt = known[key] = Attempt(key, fields)
            new.append(attempt)
        elif (joined := join(attempt.fields, fields)) != attempt.fields:
            attempt.fields = joined
            changed.append(attempt)
    if new or changed:
        touched = {a.key.slot for a in (*new, *changed)}
        group = [a for a in known.values() if a.key.slot in touched]
        _write(conn, cluster_id, group, new, changed)
    return len(new), len(changed)


def _write(
    conn: Connection,
    cluster_id: int,
    attempts: Sequence[Attempt],
    new: Sequence[Attempt],
    changed: Sequence[Attempt],
) -> None:
    """Write what changed of `attempts`, which are all attempts of the slots they are in."""
    by_slot: dict[Slot, list[Attempt]] = {}
    for attempt in attempts:
        by_slot.setdefault(attempt.key.slot, []).append(attempt)
    user_ids = intern(conn, schema.users, {a["user"] for a in attempts})
    tenant_ids = intern(conn, schema.tenants, {a["tenant"] for a in attempts})
    job_rows = JobRows(conn, cluster_id, [slot.part for slot in by_slot])
    jobs = [(slot.part, job) for slot, group in by_slot.items() for job in chain(group)]
    row_ids = job_rows.write(jobs, user_ids, tenant_ids)
    moved = []
    for (part, job), row_id in zip(jobs, row_ids, strict=True):
        for attempt in job.attempts:
            if attempt.job_row_id != row_id:
                attempt.job_row_id = row_id
                moved.append((part, attempt, job.epoch))
    write_new_attempts(conn, cluster_id, new, user_ids, tenant_ids)
    fresh = {a.key for a in new}
    rewritten = {a.key: a for _, a, _ in moved if a.key not in fresh}
    rewritten |= {a.key: a for a in changed}
    update_attempts(conn, cluster_id, list(rewritten.values()), user_ids, tenant_ids)
    job_rows.drop_unused(row_ids)
    # Attempts that the journal may know under another epoch: a first attempt cannot be one.
    standings.rekey(
        conn,
        cluster_id,
        [
            (part, attempt.key.submit_time, epoch)
            for part, attempt, epoch in moved
            if attempt.key not in fresh or epoch != attempt.key.submit_time
        ],
    )


def _keep_rejects(conn: Connection, rejects: Sequence[Reject]) -> int:
    """Keep rows that were not understood, each content once; returns how many are new."""
    by_digest = {text_digest(r.source, r.reason, r.raw): r for r in rejects}
    column = schema.rejects.c.content_digest
    for some in chunks(list(by_digest)):
        for digest in conn.execute(select(column).where(column.in_(some))).scalars().all():
            del by_digest[digest]
    if by_digest:
        conn.execute(
            insert(schema.rejects),
            [
                {
                    "content_digest": digest,
                    "source": r.source,
                    "line": r.line,
                    "reason": r.reason,
                    "raw": r.raw,
                }
                for digest, r in by_digest.items()
            ],
        )
    return len(by_digest)


def cursor(conn: Connection, source_key: str) -> str:
    """Where the next read of a source begins, "" before the first one."""
    c = schema.ingest_cursors.c
    query = select(c.cursor).where(c.source_digest == text_digest(source_key))
    return conn.execute(query).scalar() or ""


def _set_cursor(conn: Connection, source_key: str, value: str) -> None:
    digest = text_digest(source_key)
    table = schema.ingest_cursors
    mine = table.c.source_digest == digest
    if conn.execute(select(table.c.source_digest).where(mine)).scalar() is None:
        row = {"source_digest": digest, "source_key": source_key, "cursor": value}
        conn.execute(insert(table).values(row))
    else:
        conn.execute(update(table).where(mine).values(cursor=value))
