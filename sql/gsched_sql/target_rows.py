"""Deadlines in SQL: what was asked, promised and planned, and what came of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    Engine,
    and_,
    bindparam,
    func,
    insert,
    select,
    update,
)

from gsched.model.job import JobKey, JobState
from gsched.model.merge import Part, part_of
from gsched.model.target_records import (
    OUTCOMES,
    RESERVED,
    UNRESERVED,
    TargetEvent,
    TargetRecord,
    TargetState,
)
from gsched_sql import schema
from gsched_sql.attempt_rows import in_slots, job_key
from gsched_sql.engine import reading, writing
from gsched_sql.inserts import insert_rows, next_id
from gsched_sql.leaders import check_fence
from gsched_sql.names import chunks, cluster_id, find, intern
from gsched_sql.prune_rows import delete_where
from gsched_sql.schema import jobs, target_events, target_runs, targets, users
from gsched_sql.target_columns import columns_of, record_of

_SLOTS_A_READ = 2000

Kept = tuple[TargetRecord, Sequence[TargetEvent]]
"""A record as it is now, and what has befallen it since it was kept last."""

_Name = tuple[Part, int, int]  # slot, epoch, when it was asked


class SqlTargets:
    """The deadlines in one database. Every call is a transaction of its own.

    With a `fence` every writing call raises LostLeadershipError, and keeps nothing, once another
    daemon has taken over (see ``gsched_sql.leaders``).
    """

    def __init__(self, engine: Engine, fence: int | None = None) -> None:
        self._engine = engine
        self._fence = fence

    def keep(self, cluster: str, changed: Sequence[Kept]) -> None:
        """Keep records with their plans, in place of what was kept of them, and events beside.

        The same again changes nothing: an event is known by its target, its time and what it is.
        """
        if not changed:
            return
        with writing(self._engine) as conn:
            number = intern(conn, schema.clusters, [cluster])[cluster]
            check_fence(conn, number, self._fence)
            user_ids = intern(conn, users, {record.user for record, _ in changed})
            known = _rows_of(conn, number, [record.key for record, _ in changed])
            rows = _upsert(conn, number, user_ids, [record for record, _ in changed], known)
            _replace_runs(conn, {rows[_name(record)]: record for record, _ in changed})
            befell: dict[int, list[TargetEvent]] = {}
            for record, events in changed:
                befell.setdefault(rows[_name(record)], []).extend(events)
            _add_events(conn, befell)

    def latest(self, cluster: str, keys: Sequence[JobKey]) -> dict[JobKey, TargetRecord]:
        """Of each of these jobs that has asked for a deadline the last request, with its plan."""
        with reading(self._engine) as conn:
            known = cluster_id(conn, cluster)
            if known is None or not keys:
                return {}
            found: dict[JobKey, TargetRecord] = {}
            wanted = set(keys)
            parts = sorted({part_of(k.job_id, k.array_task, k.het_offset) for k in keys})
            for some in chunks(parts, _SLOTS_A_READ):
                for record in _records(conn, cluster, in_slots(targets, known, some)):
                    if record.key in wanted:
                        found[record.key] = record
            return found

    def standing(self, cluster: str) -> list[TargetRecord]:
        """The promises of a cluster whose jobs have not ended, with their plans, oldest first."""
        with reading(self._engine) as conn:
            known = cluster_id(conn, cluster)
            here = targets.c.cluster_id == known
            return _records(conn, cluster, here & (targets.c.state == TargetState.STANDING.value))

    def asked(
        self,
        cluster: str,
        *,
        since: int | None = None,
        until: int | None = None,
        user: str | None = None,
        limit: int = 100,
    ) -> list[TargetRecord]:
        """Requests that were made in [since, until), of one user or all, newest first; no plans."""
        with reading(self._engine) as conn:
            wanted = [targets.c.cluster_id == cluster_id(conn, cluster)]
            if since is not None:
                wanted.append(targets.c.asked_time >= since)
            if until is not None:
                wanted.append(targets.c.asked_time < until)
            if user is not None:
                wanted.append(targets.c.user_id == find(conn, users, [user]).get(user))
            query = _with_user().where(and_(True, *wanted))
            newest = (targets.c.asked_time.desc(), targets.c.id.desc())
            rows = conn.execute(query.order_by(*newest).limit(limit)).all()
            return [record_of(cluster, row, ()) for row in rows]

    def events(self, record: TargetRecord) -> list[TargetEvent]:
        """What befell a target, oldest first."""
        with reading(self._engine) as conn:
            row = _row_of(conn, record)
            return [] if row is None else [event for _, event in _events(conn, [row])[row]]

    def counts(self, cluster: str, since: int) -> dict[TargetState, int]:
        """How many promises came to each outcome at `since` (epoch) or later."""
        with reading(self._engine) as conn:
            c = targets.c
            query = (
                select(c.state, func.count())
                .where(
                    c.cluster_id == cluster_id(conn, cluster),
                    c.state.in_([state.value for state in OUTCOMES]),
                    c.state_since >= since,
                    c.admitted_time.is_not(None),
                )
                .group_by(c.state)
            )
            return {TargetState(state): number for state, number in conn.execute(query)}

    def untold(
        self, cluster: str, since: int, what: Iterable[str]
    ) -> list[tuple[TargetRecord, TargetEvent]]:
        """Events of these kinds, not older than `since`, of which no warning was handed over."""
        with reading(self._engine) as conn:
            e = target_events.c
            query = (
                _with_user()
                .add_columns(
                    e.at, e.what, e.finish_time.label("event_end"), e.probability.label("event_p")
                )
                .join(target_events, e.target_row == targets.c.id)
                .where(
                    targets.c.cluster_id == cluster_id(conn, cluster),
                    e.at >= since,
                    e.told_time.is_(None),
                    e.what.in_(list(what)),
                )
                .order_by(e.id)
            )
            return [
                (
                    record_of(cluster, row, ()),
                    TargetEvent(row.at, row.what, row.event_end, row.event_p),
                )
                for row in conn.execute(query)
            ]

    def told(self, record: TargetRecord, event: TargetEvent, at: int) -> None:
        """Keep that the warning of an event was handed over at that time."""
        with writing(self._engine) as conn:
            check_fence(conn, cluster_id(conn, record.key.cluster), self._fence)
            row = _row_of(conn, record)
            e = target_events.c
            mine = (e.target_row == row) & (e.at == event.at) & (e.what == event.what)
            conn.execute(update(target_events).where(mine).values(told_time=at))

    def note(self, record: TargetRecord, event: TargetEvent) -> None:
        """Keep one more event of a target whose record stays as it is kept."""
        with writing(self._engine) as conn:
            check_fence(conn, cluster_id(conn, record.key.cluster), self._fence)
            row = _row_of(conn, record)
            if row is not None:
                values = {"id": next_id(conn, target_events), "target_row": row}
                conn.execute(
                    insert(target_events), [{**values, "at": event.at, "what": event.what}]
                )

    def reserved(self, cluster: str) -> list[TargetRecord]:
        """Those for which nodes were reserved last, and not unreserved since; no plans."""
        with reading(self._engine) as conn:
            e = target_events.c
            last = (
                select(func.max(e.id))
                .where(e.what.in_([RESERVED, UNRESERVED]))
                .group_by(e.target_row)
            )
            query = (
                _with_user()
                .join(target_events, e.target_row == targets.c.id)
                .where(
                    targets.c.cluster_id == cluster_id(conn, cluster),
                    e.what == RESERVED,
                    e.id.in_(last),
                )
                .order_by(targets.c.id)
            )
            return [record_of(cluster, row, ()) for row in conn.execute(query)]

    def ended(
        self, cluster: str, keys: Sequence[JobKey]
    ) -> dict[JobKey, tuple[JobState, int | None]]:
        """Of those of the jobs that are over, as the history knows: their last state, their end."""
        with reading(self._engine) as conn:
            known = cluster_id(conn, cluster)
            if known is None or not keys:
                return {}
            found: dict[JobKey, tuple[JobState, int | None]] = {}
            wanted = set(keys)
            c = jobs.c
            query = select(c.job_id, c.array_task, c.het_offset, c.epoch, c.state, c.end_time)
            parts = sorted({part_of(k.job_id, k.array_task, k.het_offset) for k in keys})
            for some in chunks(parts, _SLOTS_A_READ):
                for row in conn.execute(query.where(in_slots(jobs, known, some))):
                    key, state = job_key(cluster, row), JobState(row.state)
                    is_over = row.end_time is not None and state is not JobState.REQUEUED
                    if key in wanted and is_over:
                        found[key] = (state, row.end_time)
            return found


def _name(record: TargetRecord) -> _Name:
    key = record.key
    return (
        part_of(key.job_id, key.array_task, key.het_offset),
        key.epoch,
        record.asked_time,
    )


def _rows_of(conn: Connection, known: int, keys: Sequence[JobKey]) -> dict[_Name, int]:
    """The rows that are kept of these jobs."""
    c = targets.c
    found: dict[_Name, int] = {}
    query = select(c.id, c.job_id, c.array_task, c.het_offset, c.epoch, c.asked_time)
    parts = sorted({part_of(k.job_id, k.array_task, k.het_offset) for k in keys})
    for some in chunks(parts, _SLOTS_A_READ):
        for row in conn.execute(query.where(in_slots(targets, known, some)).order_by(c.id)):
            name = (Part(row.job_id, row.array_task, row.het_offset), row.epoch, row.asked_time)
            found[name] = row.id
    return found


def _row_of(conn: Connection, record: TargetRecord) -> int | None:
    known = cluster_id(conn, record.key.cluster)
    return None if known is None else _rows_of(conn, known, [record.key]).get(_name(record))


def _upsert(
    conn: Connection,
    known: int,
    user_ids: Mapping[str, int],
    records: Sequence[TargetRecord],
    stored: Mapping[_Name, int],
) -> dict[_Name, int]:
    """Insert what is new, update the rest; the row of each."""
    rows = dict(stored)
    new: list[dict[str, Any]] = []
    old: list[dict[str, Any]] = []
    free = next_id(conn, targets)
    for record in records:
        name = _name(record)
        values = columns_of(record, user_ids[record.user])
        if name in rows:
            old.append({"my_id": rows[name], **values})
        else:
            rows[name] = free + len(new)
            new.append({"id": rows[name], "cluster_id": known, **values})
    if new:
        insert_rows(conn, targets, list(new[0]), [tuple(row.values()) for row in new])
    if old:
        change = update(targets).where(targets.c.id == bindparam("my_id"))
        conn.execute(change, old)
    return rows


def _replace_runs(conn: Connection, by_row: Mapping[int, TargetRecord]) -> None:
    delete_where(conn, target_runs.c.target_row, list(by_row))
    runs = {
        (row, run.start_time): (row, run.start_time, run.end_time, run.num_gpus)
        for row, record in by_row.items()
        for run in record.plan
    }
    names = ("target_row", "start_time", "end_time", "num_gpus")
    insert_rows(conn, target_runs, names, list(runs.values()))


def _add_events(conn: Connection, by_row: Mapping[int, Sequence[TargetEvent]]) -> None:
    by_row = {row: events for row, events in by_row.items() if events}
    if not by_row:
        return
    known = {
        row: {(event.at, event.what) for _, event in events}
        for row, events in _events(conn, list(by_row)).items()
    }
    new = [
        {"target_row": row, "at": e.at, "what": e.what, "finish_time": e.finish_time,
         "probability": e.probability, "told_time": e.told_time}
        for row, events in by_row.items()
        for e in events
        if (e.at, e.what) not in known[row]
    ]  # fmt: skip
    free = next_id(conn, target_events)
    if new:
        conn.execute(insert(target_events), [{"id": free + n, **row} for n, row in enumerate(new)])


def _events(
    conn: Connection, target_rows: Sequence[int]
) -> dict[int, list[tuple[int, TargetEvent]]]:
    """By target, oldest first, with their own rows."""
    e = target_events.c
    found: dict[int, list[tuple[int, TargetEvent]]] = {row: [] for row in target_rows}
    for some in chunks(target_rows):
        query = select(target_events).where(e.target_row.in_(some)).order_by(e.id)
        for row in conn.execute(query):
            event = TargetEvent(row.at, row.what, row.finish_time, row.probability, row.told_time)
            found[row.target_row].append((row.id, event))
    return found


def _with_user() -> Any:
    return select(targets, users.c.name.label("user")).join(users, users.c.id == targets.c.user_id)


def _records(conn: Connection, cluster: str, chosen: ColumnElement[bool]) -> list[TargetRecord]:
    """With their plans, in the order in which they were asked."""
    query = _with_user().where(chosen).order_by(targets.c.asked_time, targets.c.id)
    rows = conn.execute(query).all()
    runs: dict[int, list[Any]] = {row.id: [] for row in rows}
    r = target_runs.c
    for some in chunks(list(runs)):
        plan = select(target_runs).where(r.target_row.in_(some)).order_by(r.start_time)
        for run in conn.execute(plan):
            runs[run.target_row].append(run)
    return [record_of(cluster, row, runs[row.id]) for row in rows]
