"""Leases with their present state, and every transition that brought them there."""

from __future__ import annotations

from typing import Any

from sqlalchemy import ColumnElement, Connection, Engine, insert, select, update

from gsched.errors import GschedError
from gsched.model.accounts import LeaseEvent, LeaseGrant
from gsched.model.job import JobKey, Lease, LeaseState
from gsched.model.merge import part_of
from gsched_sql import schema
from gsched_sql.attempt_rows import in_slots, job_key
from gsched_sql.engine import reading, writing
from gsched_sql.inserts import next_id
from gsched_sql.names import cluster_id, intern
from gsched_sql.schema import lease_events, leases

_ORDER = {state: number for number, state in enumerate(LeaseState)}


class SqlLeases:
    """The leases in one database. Every call is a transaction of its own."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def grant(self, grant: LeaseGrant, at: int, detail: str = "") -> None:
        """Keep a new lease. One that is kept already changes nothing, whatever its state is now.

        Raises GschedError where its id belongs to another lease.
        """
        with writing(self._engine) as conn:
            cluster = intern(conn, schema.clusters, [grant.key.cluster])[grant.key.cluster]
            row = {**_columns(grant, cluster), "state": LeaseState.GRANTED.value}
            stored = _find(conn, grant.lease.lease_id)
            if stored is None:
                row["id"] = next_id(conn, leases)
                conn.execute(insert(leases), [row])
                _note(conn, row["id"], at, None, LeaseState.GRANTED, detail)
            elif any(getattr(stored, n) != value for n, value in row.items() if n != "state"):
                raise GschedError(f"another lease has the id {grant.lease.lease_id}")

    def move(self, lease_id: str, state: LeaseState, at: int, detail: str = "") -> None:
        """Take a lease on to a later state; what is told again changes nothing.

        Raises GschedError for a lease that is not kept, and for one that is further on.
        """
        with writing(self._engine) as conn:
            stored = _find(conn, lease_id)
            if stored is None:
                raise GschedError(f"there is no lease {lease_id}")
            before = LeaseState(stored.state)
            if _ORDER[state] < _ORDER[before] and not _has_been(conn, stored.id, state, at):
                raise GschedError(
                    f"lease {lease_id} is {before.value}, it cannot become {state.value}"
                )
            if _ORDER[state] > _ORDER[before]:
                mine = leases.c.id == stored.id
                conn.execute(update(leases).where(mine).values(state=state.value))
                _note(conn, stored.id, at, before, state, detail)

    def standing(self, cluster: str) -> list[LeaseGrant]:
        """The leases of a cluster that have not come to their last state, oldest first."""
        with reading(self._engine) as conn:
            known = cluster_id(conn, cluster)
            still = (leases.c.cluster_id == known) & (leases.c.state != LeaseState.REGRANTED.value)
            return _grants(conn, cluster, still)

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
        e = lease_events.c
        query = (
            select(e.at, e.from_state, e.to_state, e.detail)
            .join(leases, leases.c.id == e.lease_row)
            .where(leases.c.lease_id == lease_id)
            .order_by(e.id)
        )
        with reading(self._engine) as conn:
            return [
                LeaseEvent(at, None if before is None else LeaseState(before), LeaseState(to), why)
                for at, before, to, why in conn.execute(query)
            ]


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
    return [
        LeaseGrant(
            Lease(row.lease_id, LeaseState(row.state), row.start_time, row.length_s),
            job_key(cluster, row),
            row.attempt,
            row.num_gpus,
        )
        for row in conn.execute(query)
    ]
