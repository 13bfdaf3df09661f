"""Steps of jobs: kept beside their attempts, the last that is told of each.

Of a step that is told more than once the best telling is kept whole: a final one before one of a
running step, then the later end, then the one that says more; between equally good ones the
greater. That is the maximum in one order of all tellings, so that they may come in any order, any
number of times.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from typing import Any

from sqlalchemy import Connection, Row, bindparam, select, update

from gsched.model.history import StepRecord
from gsched.model.job import JobState
from gsched.model.merge import Part, part_of, unpart
from gsched_sql import schema
from gsched_sql.inserts import insert_rows
from gsched_sql.names import chunks, cluster_id

_KEY = ("cluster", "job_id", "array_task", "het_offset", "submit_time", "step")
_TOLD = tuple(field.name for field in fields(StepRecord) if field.name not in _KEY)
"""The columns that are no part of the key."""

_Place = tuple[int, str]  # attempt's row, step


def keep(conn: Connection, steps: Sequence[StepRecord]) -> tuple[int, int]:
    """Keep steps of attempts that are stored; returns how many are new and how many altered.

    Steps of attempts that are not stored (rejected, pruned) are left out.
    """
    new = updated = 0
    for cluster in sorted({step.cluster for step in steps}):
        known = cluster_id(conn, cluster)
        mine = [step for step in steps if step.cluster == cluster]
        for some in chunks(mine):
            counts = (0, 0) if known is None else _keep(conn, known, some)
            new, updated = new + counts[0], updated + counts[1]
    return new, updated


def _keep(conn: Connection, cluster: int, steps: Sequence[StepRecord]) -> tuple[int, int]:
    attempts = _attempt_rows(conn, cluster, {step.job_id for step in steps})
    told: dict[_Place, tuple[Any, ...]] = {}
    for step in steps:
        attempt = attempts.get(
            (part_of(step.job_id, step.array_task, step.het_offset), step.submit_time)
        )
        if attempt is not None:
            place, values = (attempt, step.step), _values(step)
            told[place] = max(told.get(place, values), values, key=_rank)
    stored = _stored(conn, sorted({attempt for attempt, _ in told}))
    new = {place: values for place, values in told.items() if place not in stored}
    better = {
        place: values
        for place, values in told.items()
        if place in stored and _rank(values) > _rank(stored[place])
    }
    insert_rows(conn, schema.steps, ("attempt_id", "step", *_TOLD), _rows(new))
    _update(conn, better)
    return len(new), len(better)


def _rows(steps: Mapping[_Place, tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    return [(*place, *values) for place, values in steps.items()]


def _update(conn: Connection, steps: Mapping[_Place, tuple[Any, ...]]) -> None:
    if not steps:
        return
    t = schema.steps
    mine = (t.c.attempt_id == bindparam("of_attempt")) & (t.c.step == bindparam("of_step"))
    names = ("of_attempt", "of_step", *_TOLD)
    rows = [dict(zip(names, row, strict=True)) for row in _rows(steps)]
    conn.execute(update(t).where(mine), rows)


def _values(step: StepRecord) -> tuple[Any, ...]:
    """What a step tells, as stored."""
    told = (getattr(step, name) for name in _TOLD)
    return tuple(value.value if isinstance(value, JobState) else value for value in told)


def _rank(values: tuple[Any, ...]) -> tuple[Any, ...]:
    """The place of a telling in the order of all."""
    told = dict(zip(_TOLD, values, strict=True))
    number_told = sum(value is not None for value in values)
    each = tuple((value is not None, value) if value is not None else (False,) for value in values)
    is_final = JobState(told["state"]).is_terminal
    return is_final, told["end_time"] or 0, number_told, each


def _attempt_rows(
    conn: Connection, cluster: int, job_ids: Iterable[int]
) -> dict[tuple[Part, int], int]:
    a = schema.attempts.c
    found: dict[tuple[Part, int], int] = {}
    for some in chunks(sorted(job_ids)):
        query = select(a.id, a.job_id, a.array_task, a.het_offset, a.submit_time).where(
            a.cluster_id == cluster, a.job_id.in_(some)
        )
        for row in conn.execute(query):
            part = Part(row.job_id, row.array_task, row.het_offset)
            found[part, row.submit_time] = row.id
    return found


def _stored(conn: Connection, attempts: Sequence[int]) -> dict[_Place, tuple[Any, ...]]:
    s = schema.steps.c
    columns = [s[name] for name in _TOLD]
    found: dict[_Place, tuple[Any, ...]] = {}
    for some in chunks(attempts):
        query = select(s.attempt_id, s.step, *columns).where(s.attempt_id.in_(some))
        found |= {(row[0], row[1]): tuple(row[2:]) for row in conn.execute(query)}
    return found


def of_attempts(
    conn: Connection, cluster: str, part: Part, submit_times: Sequence[int]
) -> dict[int, tuple[StepRecord, ...]]:
    """The steps of some attempts of one slot by submit time, in the order of their start."""
    known = cluster_id(conn, cluster)
    if known is None:
        return {}
    a, s = schema.attempts.c, schema.steps.c
    mine = (a.cluster_id == known) & (a.job_id == part.job_id) & (a.array_task == part.array_task)
    query = (
        select(schema.steps, a.submit_time)
        .join(schema.attempts, s.attempt_id == a.id)
        .where(mine, a.het_offset == part.het_offset, a.submit_time.in_(submit_times))
        .order_by(a.submit_time, s.start_time.is_(None), s.start_time, s.step)
    )
    found: dict[int, tuple[StepRecord, ...]] = {}
    for row in conn.execute(query):
        step = _record(cluster, part, row)
        found[row.submit_time] = (*found.get(row.submit_time, ()), step)
    return found


def _record(cluster: str, part: Part, row: Row[Any]) -> StepRecord:
    told = {name: getattr(row, name) for name in _TOLD}
    return StepRecord(
        cluster=cluster,
        job_id=part.job_id,
        array_task=unpart(part.array_task),
        het_offset=unpart(part.het_offset),
        submit_time=row.submit_time,
        step=row.step,
        **told | {"state": JobState(row.state)},
    )
