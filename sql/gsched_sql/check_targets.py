"""Checks of what is kept of deadlines."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

from sqlalchemy import ColumnElement, Connection, or_, select

from gsched.model.target_records import OUTCOMES, RESERVED, UNRESERVED, Risk, TargetState
from gsched_sql.findings import Findings
from gsched_sql.schema import clusters, target_events, target_runs, targets, users
from gsched_sql.target_columns import record_of

_STATES = [state.value for state in TargetState]
_RISKS = [risk.value for risk in Risk]
_OUTCOMES = [state.value for state in OUTCOMES]
_MOST = 1000
_ROWS_AT_ONCE = 1000


def check(conn: Connection, found: Findings) -> None:
    """All checks of these tables."""
    for column, wrong in _rules():
        for value in conn.execute(select(column).where(wrong).limit(_MOST)).scalars():
            found.add("target", f"{column.table.name}: {column.name} {value}")
    for name, problem in _unreadable(conn):
        found.add("target", f"{name}: {problem}")


def _rules() -> Iterator[tuple[Any, ColumnElement[bool]]]:
    """The column by which a row is told, and what is wrong in a row."""
    t, r, e = targets.c, target_runs.c, target_events.c
    never = t.admitted_time.is_(None)
    half = [
        column.is_(None) != never
        for column in (t.promised_finish_time, t.promised_probability, t.budget_gpu_s)
    ]
    stands = t.state == TargetState.STANDING.value
    yield t.job_id, t.state.not_in(_STATES) | t.risk.not_in(_RISKS) | t.warned.not_in(_RISKS)
    yield t.job_id, or_(t.num_gpus < 0, t.budget_gpu_s < 0, never & stands, *half)
    yield t.job_id, or_(t.used_gpu_s < 0, t.used_attempt_gpu_s < 0, t.restarts < 0)
    yield t.job_id, or_(t.probability < 0, t.probability > 1)
    yield t.job_id, t.end_time.is_not(None) & t.state.not_in(_OUTCOMES)
    yield r.start_time, (r.end_time <= r.start_time) | (r.num_gpus < 1)
    yield e.at, e.what.not_in({*_STATES, *_RISKS, RESERVED, UNRESERVED})


def _unreadable(conn: Connection) -> Iterator[tuple[str, str]]:
    """Jobs with deadlines or answers that are not what was written."""
    query = (
        select(targets, users.c.name.label("user"), clusters.c.name.label("cluster"))
        .join(users, users.c.id == targets.c.user_id)
        .join(clusters, clusters.c.id == targets.c.cluster_id)
        .where(targets.c.state.in_(_STATES), targets.c.risk.in_(_RISKS))
        .where(targets.c.warned.in_(_RISKS))
        .execution_options(yield_per=_ROWS_AT_ONCE)
    )
    for row in conn.execute(query):
        try:
            steps = record_of(row.cluster, row, ()).steps
        except (ValueError, TypeError, AttributeError) as error:
            yield f"job {row.job_id}", f"{type(error).__name__}: {error}"[:200]
            continue
        times = steps.times
        if not times or any(b <= a for a, b in pairwise(times)):
            yield f"job {row.job_id}", f"deadlines {row.deadlines[:60]}"
