"""The journal of the daemon's rounds. Implements ``gsched.engine.ports.Journal``.

Every call is one transaction that is on disk before the call returns.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, Engine, insert, select, update

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
from gsched.model.merge import Part
from gsched_sql import audit_rows, prediction_rows, schema, standings
from gsched_sql.action_rows import add_actions, entry_of, row_of
from gsched_sql.engine import reading, writing
from gsched_sql.leaders import check_fence
from gsched_sql.names import chunks, cluster_id, intern
from gsched_sql.schema import actions, policy_memory, rounds
from gsched_sql.standings import subject_columns

_OPEN = (ChangeState.INTENT.value, ChangeState.SENT.value)
_ROUND_ENDED = "round-ended"


class SqlJournal:
    """Durable record of what was decided, sent and seen.

    With a `fence` (see ``gsched_sql.leaders``) every call that writes raises LostLeadershipError,
    and keeps nothing, when another daemon has taken over the cluster that it is about.
    """

    def __init__(self, engine: Engine, fence: int | None = None) -> None:
        self._engine = engine
        self._fence = fence
        self._standings = standings.Cache()

    def begin_round(self, info: RoundInfo) -> None:
        """Keep that a round has begun."""
        with writing(self._engine) as conn:
            cluster = intern(conn, schema.clusters, [info.cluster])[info.cluster]
            check_fence(conn, cluster, self._fence)
            row = {
                "round_id": info.round_id,
                "cluster_id": cluster,
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
            check_fence(conn, info.cluster_id, self._fence)
            counts = json.dumps(dict(summary))
            conn.execute(update(rounds).where(mine).values(ended_at=ended_at, summary=counts))
            _keep_memory(conn, info, memory)
            audit_rows.add(conn, ended_at, [(round_id, None, None, _ROUND_ENDED, "")])
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
            known = _stored(conn, [c.change_id for c in changes])
            new = {c.change_id: c for c in changes if c.change_id not in known}
            ids = intern(conn, schema.clusters, {c.key.cluster for c in changes})
            for number in ids.values():
                check_fence(conn, number, self._fence)
            rows = [row_of(c, ids[c.key.cluster], round_id, state, at) for c in new.values()]
            if rows:
                add_actions(conn, rows)
                audit_rows.add(conn, at, [(round_id, i, None, state.value, "") for i in new])
            if state is not ChangeState.OBSERVED:  # what is never sent stands nowhere
                _refresh_standings(conn, ((r["cluster_id"], _subject(r)) for r in rows))

    def settle(self, settled: Sequence[tuple[str, ChangeState, str]], at: int) -> None:
        """Move changes (change_id, new state, detail) on.

        Raises GschedError, and changes nothing, for an unknown change and for one that has come to
        its end in another state.
        """
        if not settled:
            return
        with writing(self._engine) as conn:
            known = _stored(conn, [change_id for change_id, _, _ in settled])
            for number in {row.cluster_id for row in known.values()}:
                check_fence(conn, number, self._fence)
            ends: dict[str, tuple[ChangeState, str]] = {}
            events: list[audit_rows.Event] = []
            for change_id, state, detail in settled:
                stored = known.get(change_id)
                if stored is None:
                    raise GschedError(f"the journal has no change {change_id}")
                before = ends.get(change_id, (ChangeState(stored.state), stored.detail))
                if before == (state, detail):
                    continue
                if not before[0].may_become(state):
                    raise GschedError(
                        f"change {change_id} is {before[0].value}, it cannot become {state.value}"
                    )
                ends[change_id] = (state, detail)
                events.append((stored.round_id, change_id, before[0].value, state.value, detail))
            if ends:
                _move(conn, known, ends, at)
                audit_rows.add(conn, at, events)

    def unsettled(self, cluster: str) -> Sequence[JournalEntry]:
        """Changes in state INTENT or SENT, oldest first: what an interrupted round left behind."""
        with reading(self._engine) as conn:
            open_here = (actions.c.cluster_id == cluster_id(conn, cluster)) & actions.c.state.in_(
                _OPEN
            )
            rows = conn.execute(select(actions).where(open_here).order_by(actions.c.id)).all()
        return [entry_of(row, cluster) for row in rows]

    def standing(self, cluster: str) -> Mapping[tuple[JobKey, str], Standing]:
        """By (job, channel): the values that gsched has put on jobs and not taken back.

        What has not changed since the last call is not read again; callers share the answer.
        """
        with reading(self._engine) as conn:
            known = cluster_id(conn, cluster)
            return {} if known is None else self._standings.read(conn, cluster, known)

    def record_predictions(
        self, predictions: Sequence[tuple[JobKey, int, Prediction]], at: int
    ) -> None:
        """Keep (job, attempt, prediction): of each attempt the first one that each model gave."""
        if predictions:
            with writing(self._engine) as conn:
                for name in {key.cluster for key, _, _ in predictions}:
                    check_fence(conn, cluster_id(conn, name), self._fence)
                prediction_rows.keep(conn, predictions, at)


def _stored(conn: Connection, change_ids: Sequence[str]) -> dict[str, Any]:
    """What is kept of changes, as far as it takes to move them on."""
    c = actions.c
    found = {}
    columns = (*subject_columns(actions), c.id, c.change_id, c.round_id, c.state, c.detail)
    for some in chunks(change_ids):
        query = select(*columns).where(c.change_id.in_(some))
        found.update({row.change_id: row for row in conn.execute(query)})
    return found


def _move(
    conn: Connection,
    known: Mapping[str, Any],
    ends: Mapping[str, tuple[ChangeState, str]],
    at: int,
) -> None:
    """One statement for all that come to the same state with the same words."""
    alike: dict[tuple[ChangeState, str], list[int]] = {}
    for change_id, end in ends.items():
        alike.setdefault(end, []).append(known[change_id].id)
    for (state, detail), ids in alike.items():
        settled_at = None if state.is_open else at
        values = {"state": state.value, "detail": detail, "settled_at": settled_at}
        for some in chunks(ids):
            conn.execute(update(actions).where(actions.c.id.in_(some)).values(values))
    # sent or not yet: either may be there, so that the standing is the same
    settled = [known[change_id] for change_id, (state, _) in ends.items() if not state.is_open]
    _refresh_standings(conn, ((row.cluster_id, standings.subject_of(row)) for row in settled))


def _subject(row: Mapping[str, Any]) -> standings.Subject:
    part = Part(row["job_id"], row["array_task"], row["het_offset"])
    return standings.Subject(part, row["epoch"], row["channel"])


def _refresh_standings(conn: Connection, touched: Iterable[tuple[int, standings.Subject]]) -> None:
    subjects: dict[int, set[standings.Subject]] = {}
    for cluster, subject in touched:
        subjects.setdefault(cluster, set()).add(subject)
    for cluster, some in subjects.items():
        standings.refresh(conn, cluster, some)


def _keep_memory(conn: Connection, info: Any, memory: Mapping[str, JsonValue]) -> None:
    c = policy_memory.c
    mine = (c.cluster_id == info.cluster_id) & (c.policy == info.policy)
    values = {"memory": json.dumps(dict(memory)), "round_id": info.round_id}
    if conn.execute(select(c.policy).where(mine)).scalar() is None:
        key = {"cluster_id": info.cluster_id, "policy": info.policy}
        conn.execute(insert(policy_memory), {**key, **values})
    else:
        conn.execute(update(policy_memory).where(mine).values(values))
