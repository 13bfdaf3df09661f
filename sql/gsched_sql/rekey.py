"""Attempts that turn out to belong to another job: what is kept by the job's epoch follows.

An earlier attempt may be told of later than the one that the daemon has acted on.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Sequence

from sqlalchemy import Connection, Table, and_, bindparam, delete, select, update

from gsched.model.merge import Part
from gsched_sql import audit_rows, schema, standings
from gsched_sql.attempt_rows import in_slots
from gsched_sql.names import chunks
from gsched_sql.prune_rows import delete_where
from gsched_sql.schema import SLOT, actions, leases, predictions, requests, targets

_SLOTS_A_READ = 2000


def rekey(conn: Connection, cluster_id: int, moved: Sequence[tuple[Part, int, int]]) -> None:
    """Follow attempts, (slot, submit time, epoch), that turned out to belong to another job."""
    for table in (actions, predictions, leases):
        here = _slots_with_rows(conn, table, cluster_id, [part for part, _, _ in moved])
        rows = [
            {**_my_slot(cluster_id, part), "my_attempt": attempt, "new_epoch": epoch}
            for part, attempt, epoch in moved
            if part in here
        ]
        if not rows:
            continue
        if table is actions:
            _note_rekeyed(conn, cluster_id, here, moved)
        mine = and_(
            *(table.c[name] == bindparam(f"my_{name}") for name in (*SLOT, "attempt")),
            table.c.epoch != bindparam("new_epoch"),
        )
        conn.execute(update(table).where(mine).values(epoch=bindparam("new_epoch")), rows)
        if table is actions:
            _fold_anew(conn, cluster_id, here)
    _rekey_requests(conn, cluster_id, moved)


def _note_rekeyed(
    conn: Connection,
    cluster_id: int,
    here: Collection[Part],
    moved: Sequence[tuple[Part, int, int]],
) -> None:
    epochs = {(part, attempt): epoch for part, attempt, epoch in moved}
    c = actions.c
    events: list[audit_rows.Event] = []
    for some in chunks(sorted(here), _SLOTS_A_READ):
        query = select(
            *standings.subject_columns(actions), c.attempt, c.round_id, c.change_id, c.state
        )
        for row in conn.execute(query.where(in_slots(actions, cluster_id, some)).order_by(c.id)):
            epoch = epochs.get((Part(*row[1:4]), row.attempt), row.epoch)
            if epoch != row.epoch:
                why = f"the job's first submit was at {epoch}, as was told later"
                events.append((row.round_id, row.change_id, row.state, row.state, why))
    audit_rows.add(conn, int(time.time()), events)


def _rekey_requests(
    conn: Connection, cluster_id: int, moved: Sequence[tuple[Part, int, int]]
) -> None:
    """The same for what users asked, which is kept by job alone: the first attempt's goes along."""
    here = _follow_first(conn, requests, cluster_id, moved)
    if here:
        _drop_repeated(conn, cluster_id, here)
    _follow_first(conn, targets, cluster_id, moved)


def _follow_first(
    conn: Connection, table: Table, cluster_id: int, moved: Sequence[tuple[Part, int, int]]
) -> set[Part]:
    """Rows by the epoch of a job that began as an attempt of another; the slots that have some."""
    here = _slots_with_rows(conn, table, cluster_id, [part for part, _, _ in moved])
    rows = [
        {**_my_slot(cluster_id, part), "old_epoch": attempt, "new_epoch": epoch}
        for part, attempt, epoch in moved
        if part in here and attempt != epoch
    ]
    if not rows:
        return set()
    mine = and_(*(table.c[name] == bindparam(f"my_{name}") for name in SLOT))
    change = update(table).where(mine, table.c.epoch == bindparam("old_epoch"))
    conn.execute(change.values(epoch=bindparam("new_epoch")), rows)
    return here


def _drop_repeated(conn: Connection, cluster_id: int, parts: Collection[Part]) -> None:
    """A requeued job kept its token, which was captured once as that of each of two jobs."""
    c = requests.c
    repeated = []
    for some in chunks(sorted(parts), _SLOTS_A_READ):
        query = select(c.id, c.job_id, c.array_task, c.het_offset, c.epoch, c.token).order_by(c.id)
        last: dict[tuple[Part, int], str] = {}
        for row in conn.execute(query.where(in_slots(requests, cluster_id, some))):
            job = (Part(row.job_id, row.array_task, row.het_offset), row.epoch)
            if last.get(job) == row.token:
                repeated.append(row.id)
            last[job] = row.token
    delete_where(conn, c.id, repeated)


def _my_slot(cluster_id: int, part: Part) -> dict[str, int]:
    values = (cluster_id, *part)
    return {f"my_{name}": value for name, value in zip(SLOT, values, strict=True)}


def _slots_with_rows(
    conn: Connection, table: Table, cluster_id: int, parts: Sequence[Part]
) -> set[Part]:
    c = table.c
    found: set[Part] = set()
    for some in chunks(sorted(set(parts)), _SLOTS_A_READ):
        query = select(c.job_id, c.array_task, c.het_offset).distinct()
        rows = conn.execute(query.where(in_slots(table, cluster_id, some)))
        found |= {Part(*row) for row in rows}
    return found


def _fold_anew(conn: Connection, cluster_id: int, parts: Collection[Part]) -> None:
    table = schema.standings
    subjects: set[standings.Subject] = set()
    for some in chunks(sorted(parts), _SLOTS_A_READ):
        conn.execute(delete(table).where(in_slots(table, cluster_id, some)))
        query = select(*standings.subject_columns(actions)).distinct()
        rows = conn.execute(query.where(in_slots(actions, cluster_id, some)))
        subjects |= {standings.subject_of(row) for row in rows}
    standings.refresh(conn, cluster_id, subjects)
