"""Rows of `actions` ↔ journalled changes."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Connection

from gsched.model.decision import Reason
from gsched.model.journal import Change, ChangeState, JournalEntry
from gsched.model.merge import part_of
from gsched_sql.attempt_rows import job_key
from gsched_sql.inserts import insert_rows, next_id
from gsched_sql.schema import actions


def row_of(
    change: Change, cluster_id: int, round_id: str, state: ChangeState, at: int
) -> dict[str, Any]:
    """A new row of `actions`."""
    key = change.key
    part = part_of(key.job_id, key.array_task, key.het_offset)
    return {
        "change_id": change.change_id,
        "round_id": round_id,
        "cluster_id": cluster_id,
        "job_id": part.job_id,
        "array_task": part.array_task,
        "het_offset": part.het_offset,
        "epoch": key.epoch,
        "attempt": change.attempt,
        "channel": change.channel,
        "before": change.before,
        "after": change.after,
        "reason_code": change.reason.code,
        "reason_params": json.dumps(dict(change.reason.params)),
        "takes_back": change.takes_back,
        "valid_until": change.valid_until,
        "state": state.value,
        "decided_at": at,
        "detail": "",
    }


def add_actions(conn: Connection, rows: Sequence[Mapping[str, Any]]) -> None:
    """Add rows of `row_of`. Needs ``engine.writing``."""
    first = next_id(conn, actions)
    told = [(number, *row.values()) for number, row in enumerate(rows, first)]
    insert_rows(conn, actions, ("id", *rows[0]), told)


def change_of(row: Any, cluster: str) -> Change:
    """The change that a row of `actions` keeps."""
    return Change(
        change_id=row.change_id,
        key=job_key(cluster, row),
        attempt=row.attempt,
        channel=row.channel,
        before=row.before,
        after=row.after,
        reason=Reason(row.reason_code, json.loads(row.reason_params)),
        takes_back=row.takes_back,
        valid_until=row.valid_until,
    )


def entry_of(row: Any, cluster: str) -> JournalEntry:
    """The journal entry that a row of `actions` keeps."""
    return JournalEntry(
        change=change_of(row, cluster),
        round_id=row.round_id,
        state=ChangeState(row.state),
        decided_at=row.decided_at,
        settled_at=row.settled_at,
        detail=row.detail,
    )
