"""Which rows of an ingest are of jobs that a prune has taken away, or would have."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence

from sqlalchemy import Connection

from gsched.model.history import AttemptRecord
from gsched.model.logical_jobs import Attempt, LogicalJob, chain
from gsched.model.merge import Slot, fold, join
from gsched.model.trace import AttemptColumns
from gsched_sql.attempt_columns import take
from gsched_sql.attempt_rows import load_slots

Key = tuple[int, int, int, int]
"""(job_id, array_task, het_offset, submit_time) of an attempt, as stored."""


def not_pruned(
    conn: Connection,
    cluster_id: int,
    attempts: AttemptColumns,
    named: Sequence[Key],
    ends: Sequence[int | None],
    stored: Collection[Key],
    pruned_before: int,
) -> list[bool]:
    """For each row of one cluster whether it is to be taken in.

    A prune judges whole jobs by the end of their last attempt, so a job is judged here as a whole
    too, as far as the rows and what is stored of its slot tell. What has not ended counts by its
    submit time: it has been read from an old file, or it would have been stored before.
    """
    is_old = [_is_old(end, key[3], pruned_before) for key, end in zip(named, ends, strict=True)]
    rows = Counter(key[:3] for key in named)
    known = {key[:3] for key in stored}
    doubtful = {
        key[:3]
        for key, old in zip(named, is_old, strict=True)
        if old and (rows[key[:3]] > 1 or key[:3] in known)
    }
    is_doubtful = [key[:3] in doubtful for key in named]
    gone: set[Key] = set()
    if doubtful:
        records = list(take(attempts, is_doubtful).records())
        gone = _attempts_of_old_jobs(conn, cluster_id, records, pruned_before)
    return [
        key in stored or not (key in gone if doubts else old)
        for key, doubts, old in zip(named, is_doubtful, is_old, strict=True)
    ]


def _is_old(end_time: int | None, submit_time: int, pruned_before: int) -> bool:
    return (submit_time if end_time is None else end_time) < pruned_before


def _attempts_of_old_jobs(
    conn: Connection, cluster_id: int, records: Sequence[AttemptRecord], pruned_before: int
) -> set[Key]:
    told = fold(records)
    slots: dict[Slot, list[Attempt]] = {key.slot: [] for key in told}
    known = load_slots(conn, records[0].cluster, cluster_id, [slot.part for slot in slots])
    for attempt in known:
        if attempt.key in told:
            attempt.fields = join(attempt.fields, told.pop(attempt.key))
        slots[attempt.key.slot].append(attempt)
    for key, fields in told.items():
        slots[key.slot].append(Attempt(key, fields))
    return {
        (*slot.part, attempt.key.submit_time)
        for slot, group in slots.items()
        for job in chain(group)
        if _is_old_job(job, pruned_before)
        for attempt in job.attempts
    }


def _is_old_job(job: LogicalJob, pruned_before: int) -> bool:
    last = job.attempts[-1]
    return _is_old(last["end_time"], last.key.submit_time, pruned_before)
