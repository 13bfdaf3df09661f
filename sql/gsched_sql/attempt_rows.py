"""Rows of `attempts` and `attempt_tres` ↔ merged attempts and records."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    Row,
    Select,
    Table,
    and_,
    bindparam,
    delete,
    insert,
    select,
    tuple_,
    update,
)

from gsched.model.history import AttemptRecord, Tres
from gsched.model.job import JobKey, JobState
from gsched.model.logical_jobs import Attempt
from gsched.model.merge import (
    PLAIN_FIELDS,
    STATUS,
    TRES_FIELDS,
    AttemptKey,
    Part,
    Slot,
    pack_claims,
    unpack_claims,
    unpart,
)
from gsched_sql.names import chunks
from gsched_sql.schema import attempt_tres, attempts, tenants, users

_ROWS_A_READ = 2000


def job_key(cluster: str, row: Any) -> JobKey:
    """The key of a row that has a slot and an epoch."""
    return JobKey(cluster, row.job_id, unpart(row.array_task), unpart(row.het_offset), row.epoch)


def in_slots(table: Table, cluster_id: int, slots: Collection[Part]) -> ColumnElement[bool]:
    """The rows of `table` in any of `slots`."""
    c = table.c
    key = tuple_(c.job_id, c.array_task, c.het_offset)
    # SQLite finds no index by a list of tuples: the ids alone lead it to the rows.
    ids = c.job_id.in_(sorted({slot.job_id for slot in slots}))
    return and_(c.cluster_id == cluster_id, ids, key.in_(list(slots)))


def _selected() -> Select[Any]:
    return (
        select(attempts, users.c.name.label("user"), tenants.c.name.label("tenant"))
        .outerjoin(users, users.c.id == attempts.c.user_id)
        .outerjoin(tenants, tenants.c.id == attempts.c.tenant_id)
    )


def load_slots(
    conn: Connection, cluster: str, cluster_id: int, slots: Sequence[Part]
) -> list[Attempt]:
    """All stored attempts of `slots`."""
    loaded: list[Attempt] = []
    for some in chunks(slots, _ROWS_A_READ):
        rows = conn.execute(_selected().where(in_slots(attempts, cluster_id, some))).all()
        tres = _load_tres(conn, [row.id for row in rows])
        loaded += [_attempt(cluster, row, tres.get(row.id, {})) for row in rows]
    return loaded


def records_of_jobs(
    conn: Connection, cluster_names: Mapping[int, str], job_rows: Sequence[int]
) -> dict[int, list[AttemptRecord]]:
    """The attempts of logical jobs (by row), oldest first."""
    found: dict[int, list[AttemptRecord]] = {}
    for some in chunks(job_rows, _ROWS_A_READ):
        query = _selected().where(attempts.c.logical_job.in_(some)).order_by(attempts.c.submit_time)
        rows = conn.execute(query).all()
        tres = _load_tres(conn, [row.id for row in rows])
        for row in rows:
            record = _record(cluster_names[row.cluster_id], row, tres.get(row.id, {}))
            found.setdefault(row.logical_job, []).append(record)
    return found


def _load_tres(
    conn: Connection, ids: Sequence[int]
) -> dict[int, dict[str, tuple[tuple[str, int], ...]]]:
    found: dict[int, dict[str, list[tuple[str, int]]]] = {}
    t = attempt_tres.c
    for some in chunks(ids):
        rows = conn.execute(
            select(t.attempt_id, t.kind, t.name, t.count)
            .where(t.attempt_id.in_(some))
            .order_by(t.attempt_id, t.kind, t.position)
        )
        for attempt_id, kind, name, count in rows:
            found.setdefault(attempt_id, {}).setdefault(kind, []).append((name, count))
    return {
        i: {kind: tuple(listed) for kind, listed in kinds.items()} for i, kinds in found.items()
    }


def _attempt(cluster: str, row: Row[Any], tres: Mapping[str, Any]) -> Attempt:
    values = {name: getattr(row, name) for name in PLAIN_FIELDS}
    values |= {name: tres.get(name, ()) for name in TRES_FIELDS}
    values[STATUS] = (row.state, row.state_text, row.source)
    slot = Slot(cluster, Part(row.job_id, row.array_task, row.het_offset))
    return Attempt(
        key=AttemptKey(slot, row.submit_time),
        fields=unpack_claims(row.claim, row.claims, values),
        row_id=row.id,
        job_row_id=row.logical_job,
    )


def _record(cluster: str, row: Row[Any], tres: Mapping[str, Any]) -> AttemptRecord:
    return AttemptRecord(
        cluster=cluster,
        job_id=row.job_id,
        array_task=unpart(row.array_task),
        het_offset=unpart(row.het_offset),
        submit_time=row.submit_time,
        state=JobState(row.state),
        state_text=row.state_text,
        source=row.source,
        requested=tuple(Tres(*told) for told in tres.get("requested", ())),
        allocated=tuple(Tres(*told) for told in tres.get("allocated", ())),
        **{name: getattr(row, name) for name in PLAIN_FIELDS},
    )


def write_new_attempts(
    conn: Connection,
    cluster_id: int,
    new: Sequence[Attempt],
    user_ids: Mapping[str, int],
    tenant_ids: Mapping[str, int],
) -> None:
    """Insert attempts that have their logical job's row and no row of their own yet."""
    if not new:
        return
    rows = [_columns(a, cluster_id, user_ids, tenant_ids) for a in new]
    statement = insert(attempts).returning(attempts.c.id, sort_by_parameter_order=True)
    for attempt, row_id in zip(new, conn.execute(statement, rows).scalars(), strict=True):
        attempt.row_id = row_id
    _insert_tres(conn, new)


def update_attempts(
    conn: Connection,
    cluster_id: int,
    changed: Sequence[Attempt],
    user_ids: Mapping[str, int],
    tenant_ids: Mapping[str, int],
) -> None:
    """Write attempts over their rows."""
    if not changed:
        return
    rows = [{**_columns(a, cluster_id, user_ids, tenant_ids), "row_id": a.row_id} for a in changed]
    conn.execute(update(attempts).where(attempts.c.id == bindparam("row_id")), rows)
    for some in chunks([a.row_id for a in changed]):
        conn.execute(delete(attempt_tres).where(attempt_tres.c.attempt_id.in_(some)))
    _insert_tres(conn, changed)


def _columns(
    attempt: Attempt,
    cluster_id: int,
    user_ids: Mapping[str, int],
    tenant_ids: Mapping[str, int],
) -> dict[str, Any]:
    part = attempt.key.slot.part
    state, state_text, source = attempt.fields[STATUS][1]
    claim, claims = pack_claims(attempt.fields)
    columns = {name: attempt[name] for name in PLAIN_FIELDS}
    return {
        "logical_job": attempt.job_row_id,
        "cluster_id": cluster_id,
        "job_id": part.job_id,
        "array_task": part.array_task,
        "het_offset": part.het_offset,
        "submit_time": attempt.key.submit_time,
        "user_id": user_ids.get(columns.pop("user")),
        "tenant_id": tenant_ids.get(columns.pop("tenant")),
        **columns,
        "state": state,
        "state_text": state_text,
        "source": source,
        "claim": claim,
        "claims": claims,
    }


def _insert_tres(conn: Connection, written: Iterable[Attempt]) -> None:
    rows = [
        {"attempt_id": a.row_id, "kind": kind, "position": position, "name": name, "count": count}
        for a in written
        for kind in TRES_FIELDS
        for position, (name, count) in enumerate(a[kind])
    ]
    if rows:
        conn.execute(insert(attempt_tres), rows)
