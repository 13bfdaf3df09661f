"""What a source told into the history: the new by the quick way, the rest merged and chained.

One transaction by the caller.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from sqlalchemy import Connection, insert, select, update

from gsched.errors import GschedError
from gsched.model.history import AttemptRecord, Reject
from gsched.model.logical_jobs import Attempt, chain
from gsched.model.merge import Claimed, Slot, fold, join
from gsched.model.phases import PhaseRules
from gsched.model.trace import AttemptColumns, Constant, TraceChunk
from gsched_sql import bulk, rekey, schema
from gsched_sql.attempt_columns import cells_of, fitting, take
from gsched_sql.attempt_rows import (
    intern_texts,
    load_slots,
    update_attempts,
    write_new_attempts,
)
from gsched_sql.columns import text_digest
from gsched_sql.job_rows import JobRows
from gsched_sql.names import chunks, intern
from gsched_sql.values import IngestSummary


class _Merged(NamedTuple):
    """How many attempts a merge made, how many it altered, and how many conflicts are new."""

    new: int
    updated: int
    conflicts: int


def check_accounts(chunk: TraceChunk, source: str | None) -> None:
    """Raise GschedError when rows were read that the chunk does not account for.

    A reader may reject more than rows: a file that is gone, for one.
    """
    attempts, rejects, skipped = chunk.attempts.count, len(chunk.rejects), chunk.rows_skipped
    if chunk.rows_in > attempts + rejects + skipped:
        raise GschedError(
            f"the reader of {source or 'a source'} lost rows: {chunk.rows_in} in, "
            f"{attempts} records, {rejects} rejects, {skipped} skipped"
        )


def ingest(conn: Connection, chunk: TraceChunk, rules: PhaseRules) -> IngestSummary:
    """Take in what a reader has delivered."""
    attempts, unstorable = _split(chunk.attempts)
    rejects = (*chunk.rejects, *unstorable)
    summary = IngestSummary(
        rows_in=chunk.attempts.count + len(chunk.rejects) + chunk.rows_skipped,
        rejected=len(rejects),
        skipped=chunk.rows_skipped,
        rejected_new=_keep_rejects(conn, rejects),
    )
    for cluster, rows in _by_cluster(attempts):
        summary += _take_in(conn, cluster, rows, rules)
    return summary


def _split(attempts: AttemptColumns) -> tuple[AttemptColumns, list[Reject]]:
    """Attempts that fit the tables, and rejects for those with a number beyond 64 bits."""
    fits = fitting(attempts)
    if fits is None:
        return attempts, []
    bad = take(attempts, [not fit for fit in fits]).records()
    rejects = [Reject(r.source, 0, "a number beyond 64 bits", repr(r)) for r in bad]
    return take(attempts, fits), rejects


def _by_cluster(attempts: AttemptColumns) -> Iterator[tuple[str, AttemptColumns]]:
    if not attempts.count:
        return
    cells = cells_of(attempts, "cluster")
    names = [cells.value] if isinstance(cells, Constant) else sorted(set(cells))
    if len(names) == 1:
        yield names[0], attempts
        return
    for cluster in names:
        yield cluster, take(attempts, [name == cluster for name in attempts.column("cluster")])


def _take_in(
    conn: Connection, cluster: str, attempts: AttemptColumns, rules: PhaseRules
) -> IngestSummary:
    """The rows of one cluster; gives the summary of these but for `rows_in`."""
    cluster_id = intern(conn, schema.clusters, [cluster])[cluster]
    m = schema.prune_marks.c
    mark = conn.execute(select(m.ended_before).where(m.cluster_id == cluster_id)).scalar()
    stored = bulk.store(conn, cluster_id, attempts, mark, rules)
    merged = merge_into(conn, cluster, cluster_id, list(stored.rest.records()), rules)
    return IngestSummary(
        attempts_new=stored.new + merged.new,
        attempts_updated=merged.updated,
        unchanged=stored.unchanged + stored.rest.count - merged.new - merged.updated,
        pruned=stored.pruned,
        conflicts=merged.conflicts,
    )


def merge_into(
    conn: Connection,
    cluster: str,
    cluster_id: int,
    records: Sequence[AttemptRecord],
    rules: PhaseRules,
) -> _Merged:
    """Merge records of one cluster with what is stored."""
    folded = fold(records)
    slots = list({key.slot.part for key in folded})
    known = {a.key: a for a in load_slots(conn, cluster, cluster_id, slots)}
    new: list[Attempt] = []
    changed: list[Attempt] = []
    conflicts = 0
    for key, fields in folded.items():
        attempt = known.get(key)
        if attempt is None:
            attempt = known[key] = Attempt(key, fields)
            conflicts += _new_conflicts({}, fields)
            new.append(attempt)
        elif (joined := join(attempt.fields, fields)) != attempt.fields:
            conflicts += _new_conflicts(attempt.fields, joined)
            attempt.fields = joined
            changed.append(attempt)
    if new or changed:
        touched = {a.key.slot for a in (*new, *changed)}
        group = [a for a in known.values() if a.key.slot in touched]
        _write(conn, cluster_id, group, new, changed, rules)
    return _Merged(len(new), len(changed), conflicts)


def _new_conflicts(before: Claimed, after: Claimed) -> int:
    """How many conflicts `after` has in fields where `before` had fewer."""
    return sum(
        max(0, len(told.others) - (len(before[name].others) if name in before else 0))
        for name, told in after.items()
    )


def _write(
    conn: Connection,
    cluster_id: int,
    attempts: Sequence[Attempt],
    new: Sequence[Attempt],
    changed: Sequence[Attempt],
    rules: PhaseRules,
) -> None:
    """Write what changed of `attempts`, which are all attempts of the slots they are in."""
    by_slot: dict[Slot, list[Attempt]] = {}
    for attempt in attempts:
        by_slot.setdefault(attempt.key.slot, []).append(attempt)
    text_ids = intern_texts(conn, attempts)
    job_rows = JobRows(conn, cluster_id, [slot.part for slot in by_slot], rules)
    jobs = [(slot.part, job) for slot, group in by_slot.items() for job in chain(group)]
    row_ids = job_rows.write(jobs, text_ids)
    moved = []
    for (part, job), row_id in zip(jobs, row_ids, strict=True):
        for attempt in job.attempts:
            if attempt.job_row_id != row_id:
                attempt.job_row_id = row_id
                moved.append((part, attempt, job.epoch))
    write_new_attempts(conn, cluster_id, new, text_ids)
    fresh = {a.key for a in new}
    rewritten = {a.key: a for _, a, _ in moved if a.key not in fresh}
    rewritten |= {a.key: a for a in changed}
    update_attempts(conn, cluster_id, list(rewritten.values()), text_ids)
    job_rows.drop_unused(row_ids)
    # Attempts that the journal may know under another epoch: a first attempt cannot be one.
    rekey.rekey(
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


def set_cursor(conn: Connection, source_key: str, value: str) -> None:
    """Keep where the next read of a source begins."""
    digest = text_digest(source_key)
    table = schema.ingest_cursors
    mine = table.c.source_digest == digest
    row = {"cursor": value, "updated_at": int(time.time())}
    if conn.execute(select(table.c.source_digest).where(mine)).scalar() is None:
        conn.execute(insert(table).values(source_digest=digest, source_key=source_key, **row))
    else:
        conn.execute(update(table).where(mine).values(row))
