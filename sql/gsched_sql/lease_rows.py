"""Leases with their present state, and every transition that brought them there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import ColumnElement, Connection, Engine, and_, insert, select, update

from gsched.errors import GschedError
from gsched.model.accounts import LeaseEvent, LeaseGrant, LeasePast, LeaseRevoke, Told
from gsched.model.job import JobKey, Lease, LeaseState
from gsched.model.jobid import JobId
from gsched.model.merge import part_of
from gsched_sql import schema
from gsched_sql.attempt_rows import in_slots, job_key
from gsched_sql.audit import of_job as rows_of_job
from gsched_sql.engine import reading, writing
from gsched_sql.inserts import next_id
from gsched_sql.leaders import check_fence
from gsched_sql.names import chunks, cluster_id, intern
from gsched_sql.run_before import run_before
from gsched_sql.schema import attempts, jobs, lease_events, leases
from gsched_sql.schema.base import SLOT

_STANDING = [state.value for state in LeaseState if not state.is_over]
_LATEST_SAVES = 20


class SqlLeases:
    """The leases in one database. Every call is a transaction of its own.

    With a `fence` every writing call raises LostLeadershipError, and keeps nothing, once another
    daemon has taken over (see ``gsched_sql.leaders``).
    """

    def __init__(self, engine: Engine, fence: int | None = None) -> None:
        self._engine = engine
        self._fence = fence

    def grant(self, grant: LeaseGrant, at: int, detail: str = "") -> None:
        """Keep a new lease. One that is kept already changes nothing, whatever its state is now.

        Raises GschedError where its id belongs to another lease.
        """
        with writing(self._engine) as conn:
            self._add(conn, grant, at, detail)

    def renew(self, lease_id: str, following: LeaseGrant, at: int, detail: str = "") -> None:
        """End a lease as RENEWED and keep the one that follows it, both or none.

        Told again it changes nothing. Raises GschedError as `move` and `grant` do.
        """
        with writing(self._engine) as conn:
            self._step(conn, lease_id, LeaseState.RENEWED, at, detail, {})
            self._add(conn, following, at, detail)

    def revoke(self, lease_id: str, revoke: LeaseRevoke, at: int, detail: str = "") -> None:
        """Take a lease on to ENDING and keep how it is revoked.

        The revoke that is kept already changes nothing. Raises GschedError as `move` does, and
        where the lease is being revoked by another one.
        """
        with writing(self._engine) as conn:
            stored = _find(conn, lease_id)
            if stored is not None and stored.revoke_id is not None:
                check_fence(conn, stored.cluster_id, self._fence)
                if stored.revoke_id != revoke.revoke_id:
                    raise GschedError(f"lease {lease_id} is revoked by {stored.revoke_id} already")
                return
            how = {
                "revoke_id": revoke.revoke_id,
                "grace_s": revoke.grace_s,
                "valid_until": revoke.valid_until,
                "beneficiary": revoke.beneficiary,
            }
            self._step(conn, lease_id, LeaseState.ENDING, at, detail, how)

    def move(
        self,
        lease_id: str,
        state: LeaseState,
        at: int,
        detail: str = "",
        told: Told | None = None,
    ) -> None:
        """Take a lease on to its next state; what is told again changes nothing.

        `told`, unless None, is kept with it. Raises GschedError for a lease that is not kept,
        and for one that cannot become that.
        """
        with writing(self._engine) as conn:
            said = {} if told is None else _told_columns(told)
            self._step(conn, lease_id, state, at, detail, said)

    def _add(self, conn: Connection, grant: LeaseGrant, at: int, detail: str) -> None:
        cluster = intern(conn, schema.clusters, [grant.key.cluster])[grant.key.cluster]
        check_fence(conn, cluster, self._fence)
        row = _columns(grant, cluster)
        stored = _find(conn, grant.lease.lease_id)
        if stored is None:
            lease_row = next_id(conn, leases)
            begun = {"id": lease_row, "state": LeaseState.GRANTED.value, "state_since": at}
            conn.execute(insert(leases), [{**row, **begun}])
            _note(conn, lease_row, at, None, LeaseState.GRANTED, detail)
        elif any(getattr(stored, name) != value for name, value in row.items()):
            raise GschedError(f"another lease has the id {grant.lease.lease_id}")

    def _step(
        self,
        conn: Connection,
        lease_id: str,
        state: LeaseState,
        at: int,
        detail: str,
        values: Mapping[str, Any],
    ) -> None:
        stored = _find(conn, lease_id)
        if stored is None:
            raise GschedError(f"there is no lease {lease_id}")
        check_fence(conn, stored.cluster_id, self._fence)
        before = LeaseState(stored.state)
        if before is state or _has_been(conn, stored.id, state, at):
            return
        if not before.may_become(state):
            raise GschedError(f"lease {lease_id} is {before.value}, it cannot become {state.value}")
        moved = {"state": state.value, "state_since": at, **values}
        conn.execute(update(leases).where(leases.c.id == stored.id).values(moved))
        _note(conn, stored.id, at, before, state, detail)

    def standing(self, cluster: str) -> list[LeaseGrant]:
        """The leases of a cluster that are not over, oldest first."""
        with reading(self._engine) as conn:
            here = leases.c.cluster_id == cluster_id(conn, cluster)
            return _grants(conn, cluster, here & leases.c.state.in_(_STANDING))

    def save_times(self, cluster: str) -> list[int]:
        """Seconds that the jobs told last took to save, or were given to; the latest first."""
        told, done = lease_events.alias(), lease_events.alias()
        query = (
            select(done.c.at - told.c.at)
            .join(told, told.c.lease_row == done.c.lease_row)
            .join(leases, leases.c.id == done.c.lease_row)
            .where(
                told.c.to_state == LeaseState.SIGNALLED.value,
                done.c.to_state == LeaseState.SAVED.value,
            )
            .order_by(done.c.id.desc())
            .limit(_LATEST_SAVES)
        )
        with reading(self._engine) as conn:
            here = leases.c.cluster_id == cluster_id(conn, cluster)
            return [int(seconds) for seconds in conn.execute(query.where(here)).scalars()]

    def waits(self, cluster: str) -> dict[JobKey, int]:
        """By job that was requeued by its lease and waits: seconds that its attempts up to that one
        waited for their GPUs, from when they could start. What nobody has told is left out.
        """
        a = attempts.c
        query = (
            select(leases, a.submit_time, a.eligible_time, a.start_time.label("started"))
            .join(jobs, and_(*(jobs.c[name] == leases.c[name] for name in (*SLOT, "epoch"))))
            .join(attempts, a.logical_job == jobs.c.id)
            .where(
                leases.c.state == LeaseState.REQUEUED.value,
                a.submit_time <= leases.c.attempt,
                a.start_time.is_not(None),
            )
        )
        waited: dict[JobKey, int] = {}
        with reading(self._engine) as conn:
            here = leases.c.cluster_id == cluster_id(conn, cluster)
            for row in conn.execute(query.where(here)):
                key = job_key(cluster, row)
                could_start = max(row.submit_time, row.eligible_time or 0)
                waited[key] = waited.get(key, 0) + max(0, row.started - could_start)
        return waited

    def run_before(self, cluster: str, present: Mapping[JobKey, int]) -> dict[JobKey, int]:
        """By job, for how long its attempts before that one (its submit time) have run."""
        with reading(self._engine) as conn:
            return run_before(conn, cluster, present)

    def revoked(self, cluster: str, job: JobId | None, limit: int) -> list[LeasePast]:
        """The leases that were revoked, with all that came of it; the latest first."""
        query = select(leases).where(leases.c.revoke_id.is_not(None), *rows_of_job(leases, job))
        query = query.order_by(leases.c.state_since.desc(), leases.c.id.desc()).limit(limit)
        with reading(self._engine) as conn:
            here = leases.c.cluster_id == cluster_id(conn, cluster)
            rows = list(conn.execute(query.where(here)))
            events = _events(conn, [row.id for row in rows])
        return [LeasePast(_grant(cluster, row), tuple(events[row.id])) for row in rows]

    def of_job(self, key: JobKey) -> list[LeaseGrant]:
        """The leases of a logical job, oldest first."""
        with reading(self._engine) as conn:
            known = cluster_id(conn, key.cluster)
            if known is None:
                return []
            part = part_of(key.job_id, key.array_task, key.het_offset)
            mine = in_slots(leases, known, [part]) & (leases.c.epoch == key.epoch)
            return _grants(conn, key.cluster, mine)

    def events(self, lease_id: str) -> list[LeaseEvent]:
        """The transitions of a lease, oldest first; none where it is not kept."""
        with reading(self._engine) as conn:
            found = conn.execute(select(leases.c.id).where(leases.c.lease_id == lease_id)).scalar()
            return [] if found is None else _events(conn, [found])[found]


def _find(conn: Connection, lease_id: str) -> Any:
    return conn.execute(select(leases).where(leases.c.lease_id == lease_id)).one_or_none()


def _has_been(conn: Connection, lease_row: int, state: LeaseState, at: int) -> bool:
    e = lease_events.c
    told = (e.lease_row == lease_row) & (e.to_state == state.value) & (e.at == at)
    return conn.execute(select(e.id).where(told)).first() is not None


def _columns(grant: LeaseGrant, cluster: int) -> dict[str, Any]:
    part = part_of(grant.key.job_id, grant.key.array_task, grant.key.het_offset)
    return {
        "lease_id": grant.lease.lease_id,
        "cluster_id": cluster,
        "job_id": part.job_id,
        "array_task": part.array_task,
        "het_offset": part.het_offset,
        "epoch": grant.key.epoch,
        "attempt": grant.attempt,
        "start_time": grant.lease.start_time,
        "length_s": grant.lease.length_s,
        "num_gpus": grant.num_gpus,
        "restarts": grant.restarts,
    }


def _note(
    conn: Connection,
    lease_row: int,
    at: int,
    before: LeaseState | None,
    after: LeaseState,
    detail: str,
) -> None:
    row = {
        "id": next_id(conn, lease_events),
        "lease_row": lease_row,
        "at": at,
        "from_state": None if before is None else before.value,
        "to_state": after.value,
        "detail": detail,
    }
    conn.execute(insert(lease_events), [row])


def _grants(conn: Connection, cluster: str, chosen: ColumnElement[bool]) -> list[LeaseGrant]:
    query = select(leases).where(chosen).order_by(leases.c.start_time, leases.c.id)
    return [_grant(cluster, row) for row in conn.execute(query)]


def _grant(cluster: str, row: Any) -> LeaseGrant:
    return LeaseGrant(
        Lease(row.lease_id, LeaseState(row.state), row.start_time, row.length_s),
        job_key(cluster, row),
        row.attempt,
        row.num_gpus,
        row.restarts,
        row.state_since,
        _revoke_of(row),
        _told_of(row),
    )


def _events(conn: Connection, lease_rows: Sequence[int]) -> dict[int, list[LeaseEvent]]:
    """By lease, oldest first."""
    e = lease_events.c
    found: dict[int, list[LeaseEvent]] = {row: [] for row in lease_rows}
    query = select(e.lease_row, e.at, e.from_state, e.to_state, e.detail).order_by(e.id)
    for some in chunks(lease_rows):
        for row, at, before, to, why in conn.execute(query.where(e.lease_row.in_(some))):
            was = None if before is None else LeaseState(before)
            found[row].append(LeaseEvent(at, was, LeaseState(to), why))
    return found


def _revoke_of(row: Any) -> LeaseRevoke | None:
    if row.revoke_id is None:
        return None
    return LeaseRevoke(row.revoke_id, row.grace_s, row.valid_until, row.beneficiary or "")


def _told_columns(told: Told) -> dict[str, Any]:
    return {"told_step": told.step, "told_run": told.run, "told_seq": told.seq}


def _told_of(row: Any) -> Told | None:
    if row.told_step is None:
        return None
    return Told(row.told_step, row.told_run or "", -1 if row.told_seq is None else row.told_seq)
