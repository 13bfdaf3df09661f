"""Columns that follow from rules: phases of jobs, groups of names. Table `derivations` knows by
which rules they were filled, so that a change of the rules can be carried over to old jobs."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, Engine, bindparam, insert, select, update

from gsched.model.names import MASK_VERSION, masked
from gsched.model.phases import NO_RULES, PhaseRules
from gsched.model.progress import Progress, silent
from gsched_sql.engine import reading, writing
from gsched_sql.job_rows import job_phase
from gsched_sql.names import intern
from gsched_sql.schema import attempts, derivations, job_names, jobs, name_groups
from gsched_sql.texts import JOB_TEXTS, with_texts

_PHASE = "phase"
_NAME_GROUPS = "name_groups"
_ROWS_AT_ONCE = 5000


def outdated(conn: Connection, rules: PhaseRules) -> list[str]:
    """What was derived by other rules than those in force: ``phase``, ``name_groups``.

    Where nothing is noted, no phase has been derived.
    """
    d = derivations.c
    stored = {row[0]: row[1] for row in conn.execute(select(d.name, d.digest))}
    known = _digests(NO_RULES) | stored
    return [name for name, digest in _digests(rules).items() if known[name] != digest]


def note(conn: Connection, before: str | None, rules: PhaseRules) -> None:
    """Note the rules in a database that has just been made (`before` None) or migrated."""
    digests = _digests(rules if before is None else NO_RULES)
    known = set(conn.execute(select(derivations.c.name)).scalars())
    rows = [{"name": n, "digest": digest} for n, digest in digests.items() if n not in known]
    if rows:
        conn.execute(insert(derivations), rows)


def refresh(
    engine: Engine,
    rules: PhaseRules,
    on_progress: Progress = silent,
) -> dict[str, int]:
    """Derive again what is outdated, some rows at a time; returns how many rows have changed.

    Killed in between, it begins anew: the rules are noted when all is done.
    """
    with reading(engine) as conn:
        wanted = outdated(conn, rules)
    steps = {_PHASE: lambda conn, last: _phases(conn, last, rules), _NAME_GROUPS: _groups}
    changed: dict[str, int] = {}
    for what in wanted:
        last, changed[what], seen = 0, 0, 0
        while True:
            with writing(engine) as conn:
                ids, rewritten = steps[what](conn, last)
                if not ids:
                    _keep_digest(conn, what, _digests(rules)[what])
                    break
            last = ids[-1]
            seen += len(ids)
            changed[what] += rewritten
            on_progress(what, seen)
    return changed


def _digests(rules: PhaseRules) -> dict[str, str]:
    masks = hashlib.sha256(f"masked names {MASK_VERSION}".encode()).hexdigest()
    return {_PHASE: rules.digest, _NAME_GROUPS: masks}


def _keep_digest(conn: Connection, name: str, digest: str) -> None:
    mine = derivations.c.name == name
    if conn.execute(update(derivations).where(mine).values(digest=digest)).rowcount:
        return
    if conn.execute(select(derivations.c.name).where(mine)).first() is None:
        conn.execute(insert(derivations), [{"name": name, "digest": digest}])


def _phases(conn: Connection, last: int, rules: PhaseRules) -> tuple[Sequence[int], int]:
    """The phases of the jobs behind row `last`: which rows, and how many have changed."""
    query = with_texts(jobs, JOB_TEXTS).where(jobs.c.id > last).order_by(jobs.c.id)
    rows = conn.execute(query.limit(_ROWS_AT_ONCE)).all()
    told = _told_phases(conn, [row.id for row in rows])
    changed = []
    for row in rows:
        facts = {name: getattr(row, name) for name in (*JOB_TEXTS, "num_gpus")}
        phase = job_phase(rules, {**facts, "phase": told.get(row.id)})
        if phase != row.phase:
            changed.append({"row_id": row.id, "new_phase": phase})
    if changed:
        mine = update(jobs).where(jobs.c.id == bindparam("row_id"))
        conn.execute(mine.values(phase=bindparam("new_phase")), changed)
    return [row.id for row in rows], len(changed)


def _told_phases(conn: Connection, job_ids: Sequence[int]) -> dict[int, str]:
    """What the latest attempt that tells a phase says of each job."""
    c = attempts.c
    query = select(c.logical_job, c.phase).where(c.logical_job.in_(job_ids), c.phase.is_not(None))
    return {row[0]: row[1] for row in conn.execute(query.order_by(c.submit_time))}


def _groups(conn: Connection, last: int) -> tuple[Sequence[int], int]:
    """The same of the groups of job names."""
    c = job_names.c
    query = (
        select(c.id, c.name, name_groups.c.name.label("group"))
        .join(name_groups, name_groups.c.id == c.group_id)
        .where(c.id > last)
        .order_by(c.id)
        .limit(_ROWS_AT_ONCE)
    )
    rows: Sequence[Any] = conn.execute(query).all()
    moved = {row.id: masked(row.name) for row in rows if masked(row.name) != row.group}
    if moved:
        groups = intern(conn, name_groups, moved.values())
        mine = update(job_names).where(c.id == bindparam("row_id"))
        conn.execute(
            mine.values(group_id=bindparam("new_group")),
            [{"row_id": row, "new_group": groups[mask]} for row, mask in moved.items()],
        )
    return [row.id for row in rows], len(moved)
