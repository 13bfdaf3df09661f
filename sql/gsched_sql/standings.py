"""What gsched's values on jobs are: the journalled changes of each job and channel, folded.

The table `standings` keeps the fold of every job that may still carry a value of gsched's, so that
a round reads few rows however long the journal is. It is written in the transaction of the change.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from sqlalchemy import (
    Connection,
    Select,
    Table,
    and_,
    bindparam,
    delete,
    exists,
    func,
    insert,
    select,
    update,
)

from gsched.model.job import JobKey
from gsched.model.journal import ChangeState, Standing
from gsched.model.merge import Part
from gsched_sql.attempt_rows import in_slots, job_key
from gsched_sql.names import chunks
from gsched_sql.prune_rows import delete_where
from gsched_sql.schema import SLOT, actions, jobs, leases, predictions, requests, standings

FORGET_AFTER_S = 86400
"""For so long after its end a job's standing is kept: it may be requeued meanwhile."""

_SLOTS_A_READ = 2000
_SUBJECT = (*SLOT, "epoch", "channel")
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


def subject_of(row: Any) -> Subject:
    """What a row of `actions` or `standings` is about."""
    return Subject(Part(row.job_id, row.array_task, row.het_offset), row.epoch, row.channel)


def refresh(conn: Connection, cluster_id: int, subjects: Iterable[Subject]) -> None:
    """Fold the changes of `subjects` again, from their last confirmed one on."""
    wanted = sorted(set(subjects))
    for some in chunks(wanted, _SLOTS_A_READ):
        states: dict[Subject, _State | None] = dict.fromkeys(some)
        parts = sorted({s.part for s in some})
        stored = conn.execute(select(standings).where(in_slots(standings, cluster_id, parts))).all()
        for row in stored:
            if row.base_action and subject_of(row) in states:
                states[subject_of(row)] = _State(row.found, row.found, row.attempt)
        for change in conn.execute(_changes_since_base(cluster_id, parts)):
            subject = subject_of(change)
            if subject in states:
                states[subject] = _step(states[subject], change)
        _delete(conn, cluster_id, [subject_of(row) for row in stored if subject_of(row) in states])
        _insert(conn, cluster_id, states)


def _changes_since_base(cluster_id: int, parts: Sequence[Part]) -> Select[Any]:
    same = and_(*(actions.c[name] == standings.c[name] for name in _SUBJECT))
    return (
        select(actions)
        .outerjoin(standings, same)
        .where(in_slots(actions, cluster_id, parts))
        .where(actions.c.id >= func.coalesce(standings.c.base_action, 0))
        .order_by(actions.c.id)
    )


def _columns(cluster_id: int, subject: Subject) -> dict[str, Any]:
    part = subject.part
    return {
        "cluster_id": cluster_id,
        "job_id": part.job_id,
        "array_task": part.array_task,
        "het_offset": part.het_offset,
        "epoch": subject.epoch,
        "channel": subject.channel,
    }


def _delete(conn: Connection, cluster_id: int, subjects: Sequence[Subject]) -> None:
    if subjects:
        mine = and_(*(standings.c[name] == bindparam(f"my_{name}") for name in _SUBJECT))
        keys = [_columns(cluster_id, s) for s in subjects]
        conn.execute(
            delete(standings).where(mine),
            [{f"my_{name}": value for name, value in key.items()} for key in keys],
        )


def _insert(conn: Connection, cluster_id: int, states: Mapping[Subject, _State | None]) -> None:
    rows = [
        {
            **_columns(cluster_id, subject),
            "attempt": state.attempt,
            "found": state.found,
            "written": state.written,
            "may_be": json.dumps(state.may_be),
            "base_action": state.base_action,
        }
        for subject, state in states.items()
        if state is not None
    ]
    if rows:
        conn.execute(insert(standings), rows)


def read(conn: Connection, cluster: str, cluster_id: int) -> dict[tuple[JobKey, str], Standing]:
    """The standings of a cluster by (job, channel)."""
    found = {}
    for row in conn.execute(select(standings).where(standings.c.cluster_id == cluster_id)):
        key = job_key(cluster, row)
        found[key, row.channel] = Standing(
            key, row.attempt, row.channel, row.found, row.written, tuple(json.loads(row.may_be))
        )
    return found


def forget(conn: Connection, cluster_id: int, now: int) -> None:
    """Drop the standings of jobs that ended so long ago that Slurm cannot requeue them."""
    same = and_(*(jobs.c[name] == standings.c[name] for name in (*SLOT, "epoch")))
    over = exists().where(same, jobs.c.end_time < now - FORGET_AFTER_S)
    conn.execute(delete(standings).where(standings.c.cluster_id == cluster_id, over))


def rekey(conn: Connection, cluster_id: int, moved: Sequence[tuple[Part, int, int]]) -> None:
    """Follow attempts, (slot, submit time, epoch), that turned out to belong to another job.

    An earlier attempt may be told of later than the one that the daemon has acted on.
    """
    for table in (actions, predictions, leases):
        here = _slots_with_rows(conn, table, cluster_id, [part for part, _, _ in moved])
        rows = [
            {**_my_slot(cluster_id, part), "my_attempt": attempt, "new_epoch": epoch}
            for part, attempt, epoch in moved
            if part in here
        ]
        if not rows:
            continue
        mine = and_(
            *(table.c[name] == bindparam(f"my_{name}") for name in (*SLOT, "attempt")),
            table.c.epoch != bindparam("new_epoch"),
        )
        conn.execute(update(table).where(mine).values(epoch=bindparam("new_epoch")), rows)
        if table is actions:
            _fold_anew(conn, cluster_id, here)
    _rekey_requests(conn, cluster_id, moved)


def _rekey_requests(
    conn: Connection, cluster_id: int, moved: Sequence[tuple[Part, int, int]]
) -> None:
    """The same for what users asked, which is kept by job alone: the first attempt's goes along."""
    here = _slots_with_rows(conn, requests, cluster_id, [part for part, _, _ in moved])
    rows = [
        {**_my_slot(cluster_id, part), "old_epoch": attempt, "new_epoch": epoch}
        for part, attempt, epoch in moved
        if part in here and attempt != epoch
    ]
    if not rows:
        return
    mine = and_(*(requests.c[name] == bindparam(f"my_{name}") for name in SLOT))
    change = update(requests).where(mine, requests.c.epoch == bindparam("old_epoch"))
    conn.execute(change.values(epoch=bindparam("new_epoch")), rows)
    _drop_repeated(conn, cluster_id, here)


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
    subjects: set[Subject] = set()
    for some in chunks(sorted(parts), _SLOTS_A_READ):
        conn.execute(delete(standings).where(in_slots(standings, cluster_id, some)))
        rows = conn.execute(select(actions).where(in_slots(actions, cluster_id, some)))
        subjects |= {subject_of(row) for row in rows}
    refresh(conn, cluster_id, subjects)
