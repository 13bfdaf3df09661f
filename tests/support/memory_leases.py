"""Leases in memory; one contract test holds them to what the database does."""

from __future__ import annotations

from dataclasses import replace

from gsched.errors import GschedError
from gsched.model.accounts import LeaseEvent, LeaseGrant, LeaseRevoke, Told
from gsched.model.job import JobKey, LeaseState


class MemoryLeases:
    """Implements ``gsched.engine.lease_ports.LeaseStore`` without a file."""

    def __init__(self) -> None:
        self.kept: dict[str, LeaseGrant] = {}
        self._events: dict[str, list[LeaseEvent]] = {}
        self._saves: list[tuple[str, int]] = []

    def grant(self, grant: LeaseGrant, at: int, detail: str = "") -> None:
        lease_id = grant.lease.lease_id
        stored = self.kept.get(lease_id)
        if stored is None:
            begun = replace(grant.lease, state=LeaseState.GRANTED)
            self.kept[lease_id] = replace(grant, lease=begun, since=at, revoke=None)
            self._events[lease_id] = [LeaseEvent(at, None, LeaseState.GRANTED, detail)]
        elif _identity(stored) != _identity(grant):
            raise GschedError(f"another lease has the id {lease_id}")

    def renew(self, lease_id: str, following: LeaseGrant, at: int, detail: str = "") -> None:
        self.move(lease_id, LeaseState.RENEWED, at, detail)
        self.grant(following, at, detail)

    def revoke(self, lease_id: str, revoke: LeaseRevoke, at: int, detail: str = "") -> None:
        stored = self.kept.get(lease_id)
        if stored is not None and stored.revoke is not None:
            if stored.revoke.revoke_id != revoke.revoke_id:
                raise GschedError(
                    f"lease {lease_id} is revoked by {stored.revoke.revoke_id} already"
                )
            return
        self.move(lease_id, LeaseState.ENDING, at, detail)
        self.kept[lease_id] = replace(self.kept[lease_id], revoke=revoke)

    def move(
        self,
        lease_id: str,
        state: LeaseState,
        at: int,
        detail: str = "",
        told: Told | None = None,
    ) -> None:
        stored = self.kept.get(lease_id)
        if stored is None:
            raise GschedError(f"there is no lease {lease_id}")
        before, events = stored.lease.state, self._events[lease_id]
        if before is state or any((e.after, e.at) == (state, at) for e in events):
            return
        if not before.may_become(state):
            raise GschedError(f"lease {lease_id} is {before.value}, it cannot become {state.value}")
        if state is LeaseState.SAVED:
            told_at = next(e.at for e in events if e.after is LeaseState.SIGNALLED)
            self._saves.insert(0, (stored.key.cluster, at - told_at))
        lease = replace(stored.lease, state=state)
        kept = told or stored.told
        self.kept[lease_id] = replace(stored, lease=lease, since=at, told=kept)
        events.append(LeaseEvent(at, before, state, detail))

    def standing(self, cluster: str) -> list[LeaseGrant]:
        mine = [g for g in self.kept.values() if g.key.cluster == cluster]
        return sorted((g for g in mine if not g.lease.state.is_over), key=_begins)

    def of_job(self, key: JobKey) -> list[LeaseGrant]:
        return sorted((g for g in self.kept.values() if g.key == key), key=_begins)

    def events(self, lease_id: str) -> list[LeaseEvent]:
        return list(self._events.get(lease_id, ()))

    def save_times(self, cluster: str) -> list[int]:
        return [seconds for where, seconds in self._saves if where == cluster][:20]


def _begins(grant: LeaseGrant) -> int:
    return grant.lease.start_time


def _identity(grant: LeaseGrant) -> tuple[object, ...]:
    lease = grant.lease
    return (
        grant.key, grant.attempt, grant.restarts, grant.num_gpus, lease.start_time, lease.length_s,
    )  # fmt: skip
