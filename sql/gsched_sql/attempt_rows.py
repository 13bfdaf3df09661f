"""Rows of `attempts` and `conflicts` ↔ merged attempts and records."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    Row,
    Table,
    and_,
    bindparam,
    delete,
    select,
    tuple_,
    update,
)

from gsched.model.history import AttemptRecord, Tres
from gsched.model.job import JobKey, JobState
from gsched.model.logical_jobs import Attempt
from gsched.model.merge import (
    NO_PART,
    PLAIN_FIELDS,
    STATUS,
    TRES_FIELDS,
    AttemptKey,
    Part,
    Slot,
    Value,
    pack_claims,
    unpack_claims,
    unpart,
)
from gsched.model.tres import tres_of, tres_text
from gsched_sql.columns import text_digest
from gsched_sql.inserts import insert_rows, next_id
from gsched_sql.names import chunks
from gsched_sql.schema import attempts, conflicts
from gsched_sql.texts import TEXT_TABLES, TextIds, intern_fields, with_texts

_ROWS_A_READ = 2000

_NUMBERS_AND_OWN_TEXTS = tuple(name for name in PLAIN_FIELDS if name not in TEXT_TABLES)
COLUMNS = (
    "id",
    "logical_job",
    "cluster_id",
    "job_id",
    "array_task",
    "het_offset",
    "submit_time",
    *(f"{field}_id" for field in TEXT_TABLES),
    "state",
    "state_text",
    "source",
    *_NUMBERS_AND_OWN_TEXTS,
    "claim",
    "claims",
)
"""The columns of `attempts` in the order in which rows are made here."""

Conflicts = Mapping[str, Iterable[Value]]


def job_key(cluster: str, row: Any) -> JobKey:
    """The key of a row that has a slot and an epoch."""
    return JobKey(cluster, row.job_id, unpart(row.array_task), unpart(row.het_offset), row.epoch)


def in_slots(table: Table, cluster_id: int, slots: Collection[Part]) -> ColumnElement[bool]:
    """The rows of `table` in any of `slots`."""
    c = table.c
    if all(slot.array_task == slot.het_offset == NO_PART for slot in slots):
        plain = c.job_id.in_([slot.job_id for slot in slots])  # a quarter of the values
        whole = (c.array_task == NO_PART) & (c.het_offset == NO_PART)
        return and_(c.cluster_id == cluster_id, plain, whole)
    key = tuple_(c.job_id, c.array_task, c.het_offset)
    # SQLite finds no index by a list of tuples: the ids alone lead it to the rows.
    ids = c.job_id.in_(sorted({slot.job_id for slot in slots}))
    return and_(c.cluster_id == cluster_id, ids, key.in_(list(slots)))


def state_text(row: Any) -> str:
    """The state as Slurm wrote it: NULL where that is the state's own name."""
    text: str | None = row.state_text
    return str(row.state) if text is None else text


def load_slots(
    conn: Connection, cluster: str, cluster_id: int, slots: Sequence[Part]
) -> list[Attempt]:
    """All stored attempts of `slots`."""
    loaded: list[Attempt] = []
    for some in chunks(slots, _ROWS_A_READ):
        query = with_texts(attempts, TEXT_TABLES).where(in_slots(attempts, cluster_id, some))
        rows = conn.execute(query).all()
        others = load_conflicts(conn, [row.id for row in rows])
        loaded += [attempt_of_row(cluster, row, others.get(row.id, {})) for row in rows]
    return loaded


def records_of_jobs(
    conn: Connection, cluster_names: Mapping[int, str], job_rows: Sequence[int]
) -> dict[int, list[AttemptRecord]]:
    """The attempts of logical jobs (by row), oldest first."""
    found: dict[int, list[AttemptRecord]] = {}
    query = with_texts(attempts, TEXT_TABLES).order_by(attempts.c.submit_time)
    for some in chunks(job_rows, _ROWS_A_READ):
        for row in conn.execute(query.where(attempts.c.logical_job.in_(some))):
            record = record_of_row(cluster_names[row.cluster_id], row)
            found.setdefault(row.logical_job, []).append(record)
    return found


def load_conflicts(conn: Connection, ids: Sequence[int]) -> dict[int, dict[str, list[Value]]]:
    """The conflicts of attempts (by row), by field."""
    found: dict[int, dict[str, list[Value]]] = {}
    c = conflicts.c
    for some in chunks(ids):
        query = select(c.attempt_id, c.field, c.value).where(c.attempt_id.in_(some))
        for attempt_id, field, value in conn.execute(query):
            told = _from_json(field, json.loads(value))
            found.setdefault(attempt_id, {}).setdefault(field, []).append(told)
    return found


def _from_json(field: str, value: Any) -> Value:
    if field in TRES_FIELDS:
        return tuple((name, count) for name, count in value)
    return tuple(value) if field == STATUS else value


def attempt_of_row(cluster: str, row: Row[Any], others: Conflicts) -> Attempt:
    """The attempt that a row, with its texts, and its conflicts keep."""
    values = {name: getattr(row, name) for name in PLAIN_FIELDS}
    values |= {name: tres_of(getattr(row, name)) for name in TRES_FIELDS}
    values[STATUS] = (row.state, state_text(row), row.source)
    slot = Slot(cluster, Part(row.job_id, row.array_task, row.het_offset))
    return Attempt(
        key=AttemptKey(slot, row.submit_time),
        fields=unpack_claims(row.claim, row.claims, values, others),
        row_id=row.id,
        job_row_id=row.logical_job,
    )


def record_of_row(cluster: str, row: Row[Any]) -> AttemptRecord:
    """What a row, with its texts, tells."""
    return AttemptRecord(
        cluster=cluster,
        job_id=row.job_id,
        array_task=unpart(row.array_task),
        het_offset=unpart(row.het_offset),
        submit_time=row.submit_time,
        state=JobState(row.state),
        state_text=state_text(row),
        source=row.source,
        requested=tuple(Tres(*told) for told in tres_of(row.requested)),
        allocated=tuple(Tres(*told) for told in tres_of(row.allocated)),
        **{name: getattr(row, name) for name in PLAIN_FIELDS},
    )


def intern_texts(conn: Connection, written: Iterable[Attempt]) -> TextIds:
    """Rows of all texts of some attempts."""
    texts: dict[str, set[str | None]] = {field: set() for field in TEXT_TABLES}
    for attempt in written:
        for field, told in texts.items():
            told.add(_text(attempt, field))
    return intern_fields(conn, texts)


def _text(attempt: Attempt, field: str) -> str | None:
    """What is interned of a field: a list of resources as a text, None for an empty one."""
    return tres_text(attempt[field]) or None if field in TRES_FIELDS else attempt[field]


def write_new_attempts(
    conn: Connection, cluster_id: int, new: Sequence[Attempt], text_ids: TextIds
) -> None:
    """Insert attempts that have their logical job's row and no row of their own yet."""
    if not new:
        return
    for row_id, attempt in enumerate(new, next_id(conn, attempts)):
        attempt.row_id = row_id
    insert_rows(conn, attempts, COLUMNS, [_row(a, cluster_id, text_ids) for a in new])
    _insert_conflicts(conn, new)


def update_attempts(
    conn: Connection, cluster_id: int, changed: Sequence[Attempt], text_ids: TextIds
) -> None:
    """Write attempts over their rows."""
    if not changed:
        return
    rows = [
        dict(zip(("row_id", *COLUMNS[1:]), _row(a, cluster_id, text_ids), strict=True))
        for a in changed
    ]
    values: dict[str, Any] = {name: bindparam(name) for name in COLUMNS[1:]}
    mine = attempts.c.id == bindparam("row_id")
    conn.execute(update(attempts).where(mine).values(values), rows)
    for some in chunks([a.row_id for a in changed]):
        conn.execute(delete(conflicts).where(conflicts.c.attempt_id.in_(some)))
    _insert_conflicts(conn, changed)


def _row(attempt: Attempt, cluster_id: int, text_ids: TextIds) -> tuple[Any, ...]:
    """The columns of an attempt, in the order of COLUMNS."""
    state, text, source = attempt.fields[STATUS].value
    claim, claims = pack_claims(attempt.fields)
    return (
        attempt.row_id,
        attempt.job_row_id,
        cluster_id,
        *attempt.key.slot.part,
        attempt.key.submit_time,
        *(text_ids[field].get(_text(attempt, field)) for field in TEXT_TABLES),  # type: ignore[arg-type]
        state,
        None if text == state else text,
        source,
        *(attempt[name] for name in _NUMBERS_AND_OWN_TEXTS),
        claim,
        claims,
    )


def _insert_conflicts(conn: Connection, written: Iterable[Attempt]) -> None:
    rows = []
    for attempt in written:
        for field, told in attempt.fields.items():
            for other in told.others:
                text = json.dumps(other)
                rows.append((attempt.row_id, field, text_digest(text), text, told.claim))
    names = ("attempt_id", "field", "value_digest", "value", "claim")
    insert_rows(conn, conflicts, names, rows)
