"""The journal of the daemon's rounds. Implements ``gsched.engine.ports.Journal``.

Every call is one transaction that is on disk before the call returns.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, Engine, bindparam, insert, select, update

from gsched.errors import GschedError
from gsched.model.decision import JsonValue
from gsched.model.job import JobKey, Prediction
from gsched.model.journal import (
    Change,
    ChangeState,
    JournalEntry,
    RoundInfo,
    Standing,
)
from gsched_sql import prediction_rows, schema, standings
from gsched_sql.action_rows import entry_of, row_of
from gsched_sql.engine import reading, writing
from gsched_sql.names import chunks, cluster_id, intern
from gsched_sql.schema import actions, audit_events, policy_memory, rounds

_OPEN = (ChangeState.INTENT.value, ChangeState.SENT.value)
_ROUND_ENDED = "round-ended"


class SqlJournal:
    """Durable record of what was decided, sent and seen."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def begin_round(self, info: RoundInfo) -> None:
        """Keep that a round has begun."""
        with writing(self._engine) as conn:
            row = {
                "round_id": info.round_id,
                "cluster_id": intern(conn, schema.clusters, [info.cluster])[info.cluster],
                "policy": info.policy,
                "model_id": info.model_id,
                "acting": info.acting,
                "seq": info.seq,
                "started_at": info.started_at,
            }
            conn.execute(insert(rounds), row)

    def end_round(
        self,
        round_id: str,
        ended_at: int,
        summary: Mapping[str, JsonValue],
        memory: Mapping[str, JsonValue],
    ) -> None:
        """Keep a round's counts and the policy's memory. Raises GschedError for no such round."""
        with writing(self._engine) as conn:
            mine = rounds.c.round_id == round_id
            info = conn.execute(select(rounds).where(mine)).one_or_none()
            if info is None:
                raise GschedError(f"the journal has no round {round_id}")
            counts = json.dumps(dict(summary))
            conn.execute(update(rounds).where(mine).values(ended_at=ended_at, summary=counts))
            _keep_memory(conn, info, memory)
            _audit(conn, [_event(ended_at, round_id, None, None, _ROUND_ENDED, "")])
            standings.forget(conn, info.cluster_id, ended_at)

    def memory(self, cluster: str, policy: str) -> Mapping[str, JsonValue]:
        """The policy's memory after its last finished round, {} at first."""
        c = policy_memory.c
        with reading(self._engine) as conn:
            mine = (c.cluster_id == cluster_id(conn, cluster)) & (c.policy == policy)
            kept = conn.execute(select(c.memory).where(mine)).scalar()
        return json.loads(kept) if kept else {}

    def record(self, round_id: str, changes: Sequence[Change], state: ChangeState, at: int) -> None:
        """Keep new changes as INTENT or OBSERVED. A change_id already there is left alone."""
        if state not in (ChangeState.INTENT, ChangeState.OBSERVED):
            raise ValueError(f"a change begins as INTENT or OBSERVED, not as {state.name}")
        if not changes:
            return
        with writing(self._engine) as conn:
            known = _states(conn, [c.change_id for c in changes])
            new = {c.change_id: c for c in changes if c.change_id not in known}
            ids = intern(conn, schema.clusters, {c.key.cluster for c in new.values()})
            rows = [row_of(c, ids[c.key.cluster], round_id, state, at) for c in new.values()]
            if rows:
                conn.execute(insert(actions), rows)
                _audit(conn, [_event(at, round_id, i, None, state.value, "") for i in new])
                _refresh_standings(conn, list(new))

    def settle(self, settled: Sequence[tuple[str, ChangeState, str]], at: int) -> None:
        """Move changes (change_id, new state, detail) on.

        Raises GschedError, and changes nothing, for an unknown change and for one that has come to
        its end in another state.
        """
        if not settled:
            return
        with writing(self._engine) as conn:
            known = _states(conn, [change_id for change_id, _, _ in settled])
            events, rows = [], []
            for change_id, state, detail in settled:
                stored = known.get(change_id)
                if stored is None:
                    raise GschedError(f"the journal has no change {change_id}")
                if (stored.state, stored.detail) == (state.value, detail):
                    continue
                if stored.state not in _OPEN and stored.state != state.value:
                    raise GschedError(
                        f"change {change_id} is {stored.state}, it cannot become {state.value}"
                    )
                events.append(
                    _event(at, stored.round_id, change_id, stored.state, state.value, detail)
                )
                is_open = state.value in _OPEN
                rows.append(
                    {
                        "my_id": change_id,
                        "state": state.value,
                        "detail": detail,
                        "settled_at": None if is_open else at,
                    }
                )
            _move(conn, rows, events)

    def unsettled(self, cluster: str) -> Sequence[JournalEntry]:
        """Changes in state INTENT or SENT, oldest first: what an interrupted round left behind."""
        with reading(self._engine) as conn:
            open_here = (actions.c.cluster_id == cluster_id(conn, cluster)) & actions.c.state.in_(
                _OPEN
            )
            rows = conn.execute(select(actions).where(open_here).order_by(actions.c.id)).all()
        return [entry_of(row, cluster) for row in rows]

    def standing(self, cluster: str) -> Mapping[tuple[JobKey, str], Standing]:
        """By (job, channel): the values that gsched has put on jobs and not taken back."""
        with reading(self._engine) as conn:
            known = cluster_id(conn, cluster)
            return {} if known is None else standings.read(conn, cluster, known)

    def record_predictions(
        self, predictions: Sequence[tuple[JobKey, int, Prediction]], at: int
    ) -> None:
        """Keep (job, attempt, prediction): of each attempt the first one that each model gave."""
        if predictions:
            with writing(self._engine) as conn:
                prediction_rows.keep(conn, predictions, at)


def _states(conn: Connection, change_ids: Sequence[str]) -> dict[str, Any]:
    c = actions.c
    found = {}
    for some in chunks(change_ids):
        query = select(c.change_id, c.round_id, c.state, c.detail).where(c.change_id.in_(some))
        found.update({row.change_id: row for row in conn.execute(query)})
    return found


def _move(
    conn: Connection, rows: Sequence[Mapping[str, Any]], events: Sequence[Mapping[str, Any]]
) -> None:
    if not rows:
        return
    conn.execute(update(actions).where(actions.c.change_id == bindparam("my_id")), rows)
    _audit(conn, events)
    _refresh_standings(conn, [row["my_id"] for row in rows])


def _refresh_standings(conn: Connection, change_ids: Sequence[str]) -> None:
    subjects: dict[int, set[standings.Subject]] = {}
    for some in chunks(change_ids):
        rows = conn.execute(select(actions).where(actions.c.change_id.in_(some)))
        for row in rows:
            subjects.setdefault(row.cluster_id, set()).add(standings.subject_of(row))
    for cluster, touched in subjects.items():
        standings.refresh(conn, cluster, touched)


def _event(
    at: int, round_id: str, change_id: str | None, before: str | None, after: str, detail: str
) -> dict[str, Any]:
    return {
        "at": at,
        "round_id": round_id,
        "change_id": change_id,
        "from_state": before,
        "to_state": after,
        "detail": detail,
    }


def _audit(conn: Connection, events: Sequence[Mapping[str, Any]]) -> None:
    conn.execute(insert(audit_events), events)


def _keep_memory(conn: Connection, info: Any, memory: Mapping[str, JsonValue]) -> None:
    c = policy_memory.c
    mine = (c.cluster_id == info.cluster_id) & (c.policy == info.policy)
    values = {"memory": json.dumps(dict(memory)), "round_id": info.round_id}
    if conn.execute(select(c.policy).where(mine)).scalar() is None:
        key = {"cluster_id": info.cluster_id, "policy": info.policy}
        conn.execute(insert(policy_memory), {**key, **values})
    else:
        conn.execute(update(policy_memory).where(mine).values(values))
