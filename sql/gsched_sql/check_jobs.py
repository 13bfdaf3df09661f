"""Check of jobs: each must be what chaining its attempts gives. One pass over the attempts."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import groupby
from typing import Any

from sqlalchemy import Connection, Select, select

from gsched.model.job import JobState
from gsched.model.logical_jobs import LogicalJob, chain
from gsched.model.merge import NO_PART, PLAIN_FIELDS, STATUS, TRES_FIELDS
from gsched.model.phases import PhaseRules
from gsched.model.progress import Progress
from gsched.model.times import DAY_S
from gsched_sql import derive
from gsched_sql.attempt_rows import attempt_of_row
from gsched_sql.findings import Findings
from gsched_sql.job_rows import job_phase
from gsched_sql.schema import SLOT, attempts, jobs
from gsched_sql.texts import JOB_TEXTS, TEXT_TABLES, with_texts

_ROWS_AT_ONCE = 2000
_STATES = frozenset(state.value for state in JobState)
_CLAIMED = frozenset((STATUS, *PLAIN_FIELDS, *TRES_FIELDS))
_FACTS = tuple(c.name for c in jobs.c if c.name not in ("id", *SLOT, "epoch"))
_JOB = "of_job_"


def check(
    conn: Connection,
    found: Findings,
    rules: PhaseRules,
    now: int,
    on_progress: Progress,
) -> None:
    """Chain the attempts of each slot and compare; look at every attempt meanwhile."""
    if "phase" in derive.outdated(conn, rules):
        facts = tuple(name for name in _FACTS if name != "phase")
    else:
        facts = _FACTS
    seen = 0
    for _, group in groupby(_rows(conn), key=lambda row: tuple(getattr(row, n) for n in SLOT)):
        rows = list(group)
        unreadable = [row for row in rows if not _is_readable(row, found)]
        if not unreadable:
            for row in rows:
                _check_times(row, now, found)
            _check_slot(rows, rules, facts, found)
        if (seen + len(rows)) // 100_000 > seen // 100_000:
            on_progress("attempts", seen + len(rows))
        seen += len(rows)
    _without_attempts(conn, found)


def _rows(conn: Connection) -> Iterator[Any]:
    """Attempts with their texts and the job that they belong to, slot by slot."""
    query: Select[Any] = with_texts(attempts, TEXT_TABLES)
    query = query.add_columns(*(column.label(_JOB + column.name) for column in jobs.c))
    query = query.outerjoin(jobs, jobs.c.id == attempts.c.logical_job)
    query = query.order_by(*(attempts.c[name] for name in SLOT), attempts.c.submit_time)
    with conn.execute(query.execution_options(yield_per=_ROWS_AT_ONCE)) as result:
        yield from result


def _name(row: Any) -> str:
    parts = [f"cluster {row.cluster_id} job {row.job_id}"]
    parts += [f"task {row.array_task}"] if row.array_task != NO_PART else []
    parts += [f"component {row.het_offset}"] if row.het_offset != NO_PART else []
    return " ".join(parts)


def _where(row: Any) -> str:
    return f"{_name(row)} submitted {row.submit_time}"


def _is_readable(row: Any, found: Findings) -> bool:
    """Whether state and claims of an attempt, and of its job, can be read."""
    states = {row.state, row._mapping[_JOB + "state"]} - {None}
    if not states <= _STATES:
        found.add("state", f"{_where(row)}: {', '.join(sorted(states - _STATES))}")
        return False
    if not _is_object(row.extra):
        found.add("json", f"attempts.extra of {_where(row)}")
    if not (_are_claims(row.claims) and row.claim >= 0):
        found.add("claims", _where(row))
        return False
    return True


def _is_object(text: str | None) -> bool:
    return text is None or isinstance(_loaded(text), dict)


def _are_claims(text: str | None) -> bool:
    if text is None:
        return True
    claims = _loaded(text)
    return isinstance(claims, dict) and all(
        name in _CLAIMED and type(claim) is int and claim >= 0 for name, claim in claims.items()
    )


def _loaded(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _check_times(row: Any, now: int, found: Findings) -> None:
    start, end = row.start_time, row.end_time
    wrong = []
    if start is not None and start < row.submit_time:
        wrong.append("started before it was submitted")
    if end is not None and end < (row.submit_time if start is None else start):
        wrong.append("ended before it began")
    if max(row.submit_time, start or 0, end or 0) > now + DAY_S:
        wrong.append("lies in the future")
    if wrong:
        found.add("times", f"{_where(row)}: {', '.join(wrong)}")


def _check_slot(
    rows: list[Any], rules: PhaseRules, facts: tuple[str, ...], found: Findings
) -> None:
    by_submit_time = {row.submit_time: row for row in rows}
    for job in chain([attempt_of_row("", row, {}) for row in rows]):
        members = [by_submit_time[a.key.submit_time] for a in job.attempts]
        stored = members[0]._mapping
        name = f"{_name(members[0])} of epoch {job.epoch}"
        if {row.logical_job for row in members} != {stored[_JOB + "id"]}:
            found.add("job", f"{name}: its attempts belong to several jobs, or to none")
            continue
        expected = _expected(job, members, rules)
        wrong = [n for n in facts if stored[_JOB + n] != expected[n]]
        key = {n: getattr(members[0], n) for n in SLOT} | {"epoch": job.epoch}
        wrong += [n for n, value in key.items() if stored[_JOB + n] != value]
        if wrong:
            found.add("job", f"{name}: {', '.join(wrong)}")


def _expected(job: LogicalJob, members: list[Any], rules: PhaseRules) -> dict[str, Any]:
    """The columns of the job's row."""
    facts = job.facts()
    facts["phase"] = job_phase(rules, facts)
    if facts["state_text"] == facts["state"]:
        facts["state_text"] = None
    for field in JOB_TEXTS:
        text = facts.pop(field)
        ids = {getattr(row, field): getattr(row, f"{field}_id") for row in members}
        facts[f"{field}_id"] = None if text is None else ids[text]
    return facts


def _without_attempts(conn: Connection, found: Findings) -> None:
    query = (
        select(jobs)
        .outerjoin(attempts, attempts.c.logical_job == jobs.c.id)
        .where(attempts.c.id.is_(None))
        .limit(1000)
    )
    found.add_all(
        "no-attempts", (f"{_name(row)} of epoch {row.epoch}" for row in conn.execute(query))
    )
