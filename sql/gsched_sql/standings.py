"""What gsched's values on jobs are: the journalled changes of each job and channel, folded.

The table `standings` keeps the fold of every job that may still carry a value of gsched's, so that
a round reads few rows however long the journal is. It is written in the transaction of the change.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from sqlalchemy import (
    Column,
    Connection,
    Select,
    Table,
    and_,
    delete,
    exists,
    func,
    select,
)

from gsched.model.job import JobKey
from gsched.model.journal import ChangeState, Standing
from gsched.model.merge import Part, unpart
from gsched_sql.attempt_rows import in_slots
from gsched_sql.inserts import insert_rows
from gsched_sql.names import chunks
from gsched_sql.schema import SLOT, actions, audit_events, jobs, standings

FORGET_AFTER_S = 86400
"""For so long after its end a job's standing is kept: it may be requeued meanwhile."""

_SLOTS_A_READ = 2000
_NONE = "[]"
_SUBJECT = (*SLOT, "epoch", "channel")
_COLUMNS = (*_SUBJECT, "attempt", "found", "written", "may_be", "base_action")
_NEVER_SENT = frozenset({ChangeState.OBSERVED.value, ChangeState.REJECTED.value})


class Subject(NamedTuple):
    """One channel of one logical job of a cluster."""

    part: Part
    epoch: int
    channel: str


@dataclass(frozen=True)
class _State:
    """Where the fold stands. `base_action` is the last confirmed change: none before it matters."""

    found: int
    written: int
    attempt: int
    confirmed: int | None = None
    unconfirmed: tuple[int, ...] = ()
    base_action: int = 0

    @property
    def may_be(self) -> tuple[int, ...]:
        """Values that Slurm may show: with unconfirmed ones also the one that was there before."""
        if not self.unconfirmed or self.confirmed is None or self.confirmed in self.unconfirmed:
            return self.unconfirmed
        return (self.confirmed, *self.unconfirmed)


def _step(state: _State | None, change: Any) -> _State | None:
    """The standing after one more row of `actions`, taken in the order of decision.

    VOID ones count as "may be there": the job left the queue, or another value was seen, but Slurm
    may have taken the write.
    """
    if change.state in _NEVER_SENT:
        return state
    is_confirmed = change.state == ChangeState.CONFIRMED.value
    if is_confirmed and change.takes_back:
        return None
    if state is None:
        # A value that could not be read is taken for Slurm's own: nobody had set it.
        found = change.before if change.before is not None else 0
        state = _State(found=found, written=found, attempt=change.attempt)
    if is_confirmed:
        return _State(state.found, change.after, change.attempt, change.after, (), change.id)
    known = change.after in state.unconfirmed
    return replace(
        state,
        written=state.written if change.state == ChangeState.VOID.value else change.after,
        attempt=change.attempt,
        unconfirmed=state.unconfirmed if known else (*state.unconfirmed, change.after),
    )


def subject_columns(table: Table) -> tuple[Column[Any], ...]:
    """The columns with which a row for `subject_of` begins."""
    return tuple(table.c[name] for name in _SUBJECT)


def subject_of(row: Any) -> Subject:
    """What a row of `actions` or `standings` is about: one that begins with `subject_columns`."""
    return Subject(Part(*row[1:4]), row[4], row[5])


def refresh(conn: Connection, cluster_id: int, subjects: Iterable[Subject]) -> None:
    """Fold the changes of `subjects` again, from their last confirmed one on."""
    for some in chunks(sorted(set(subjects)), _SLOTS_A_READ):
        parts = sorted({s.part for s in some})
        states: dict[Subject, _State | None] = dict.fromkeys(some)
        here = in_slots(standings, cluster_id, parts)
        stored = conn.execute(select(standings).where(here)).all()
        rows = []
        for row in stored:
            subject = subject_of(row)
            if subject not in states:
                rows.append(tuple(row))
            elif row.base_action:
                states[subject] = _State(row.found, row.found, row.attempt)
        for change in conn.execute(_changes_since_base(cluster_id, parts)):
            subject = subject_of(change)
            if subject in states:
                states[subject] = _step(states[subject], change)
        rows += [_row(cluster_id, subject, s) for subject, s in states.items() if s is not None]
        if stored:
            conn.execute(delete(standings).where(here))
        insert_rows(conn, standings, _COLUMNS, rows)


def _changes_since_base(cluster_id: int, parts: Sequence[Part]) -> Select[Any]:
    c = actions.c
    same = and_(*(c[name] == standings.c[name] for name in _SUBJECT))
    return (
        select(*subject_columns(actions), c.id, c.attempt, c.before, c.after, c.takes_back, c.state)
        .outerjoin(standings, same)
        .where(in_slots(actions, cluster_id, parts))
        .where(c.id >= func.coalesce(standings.c.base_action, 0))
        .order_by(c.id)
    )


def _row(cluster_id: int, subject: Subject, state: _State) -> tuple[Any, ...]:
    """A row by _COLUMNS."""
    may_be = json.dumps(state.may_be) if state.may_be else _NONE
    return (
        *(cluster_id, *subject.part, subject.epoch, subject.channel, state.attempt),
        *(state.found, state.written, may_be, state.base_action),
    )


class Cache:
    """What was read last, as long as no transition has been kept since, by whatever process.

    Every change of a standing comes with a row of `audit_events`, but for the end of those whose
    jobs have been pruned: no round asks for them any more.
    """

    def __init__(self) -> None:
        self._read: dict[str, tuple[Any, Mapping[tuple[JobKey, str], Standing]]] = {}

    def read(
        self, conn: Connection, cluster: str, cluster_id: int
    ) -> Mapping[tuple[JobKey, str], Standing]:
        """The standings of a cluster by (job, channel)."""
        mark = _newest_event(conn)
        known = self._read.get(cluster)
        if known is None or known[0] != mark:
            known = (mark, read(conn, cluster, cluster_id))
            self._read[cluster] = known
        return known[1]


def _newest_event(conn: Connection) -> Any:
    """The whole row: SQLite gives the number of one that was pruned to the next."""
    return conn.execute(select(audit_events).order_by(audit_events.c.id.desc()).limit(1)).first()


def read(conn: Connection, cluster: str, cluster_id: int) -> dict[tuple[JobKey, str], Standing]:
    """The standings of a cluster by (job, channel)."""
    found = {}
    c = standings.c
    columns = (c[name] for name in _COLUMNS[1:-1])
    query = select(*columns).where(c.cluster_id == cluster_id)
    for job_id, task, offset, epoch, channel, attempt, has, written, may_be in conn.execute(query):
        key = JobKey(cluster, job_id, unpart(task), unpart(offset), epoch)
        values = () if may_be == _NONE else tuple(json.loads(may_be))
        found[key, channel] = Standing(key, attempt, channel, has, written, values)
    return found


def forget(conn: Connection, cluster_id: int, now: int) -> None:
    """Drop the standings of jobs that ended so long ago that Slurm cannot requeue them."""
    same = and_(*(jobs.c[name] == standings.c[name] for name in (*SLOT, "epoch")))
    over = exists().where(same, jobs.c.end_time < now - FORGET_AFTER_S)
    conn.execute(delete(standings).where(standings.c.cluster_id == cluster_id, over))
