"""Is the database what it should be? Reads all of it and changes nothing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Engine, LargeBinary, func, select

from gsched.errors import DataError, UnavailableError
from gsched.model.job import JobKey
from gsched.model.merge import unpart
from gsched.model.phases import PhaseRules
from gsched.model.progress import Progress, silent
from gsched_sql import (
    check_fairness,
    check_jobs,
    check_journal,
    check_power,
    check_targets,
    check_texts,
    derive,
    roles,
)
from gsched_sql.columns import KeptText
from gsched_sql.engine import reading
from gsched_sql.findings import MAX_EXAMPLES, Finding, Findings
from gsched_sql.prune import marks
from gsched_sql.schema import REVISION, attempts, conflicts, jobs, metadata, rejects
from gsched_sql.stored_tables import KNOWN, kind_of_type
from gsched_sql.urls import location


@dataclass(frozen=True, slots=True)
class CheckReport:
    """What was looked at (rows by table) and found."""

    location: str
    schema: str
    rows: dict[str, int]
    findings: tuple[Finding, ...]

    @property
    def is_damaged(self) -> bool:
        """Whether something was found that is no mere note."""
        return any(finding.is_error for finding in self.findings)


def check(
    engine: Engine,
    rules: PhaseRules,
    now: int,
    on_progress: Progress = silent,
) -> CheckReport:
    """Look at everything; `now` (epoch seconds) tells which times lie in the future.

    Raises PermissionDeniedError for whoever sees only some rows.
    """
    with reading(engine) as conn:
        roles.see_all_rows(conn)
    found = Findings()
    rows: dict[str, int] = {}
    looks: tuple[tuple[str, Callable[[Connection], None]], ...] = (
        ("the file", lambda conn: _file(conn, found)),
        ("the schema", lambda conn: _schema(conn, found)),
        ("rows", lambda conn: rows.update(_count(conn))),
        ("references", lambda conn: _references(conn, found)),
        ("texts", lambda conn: check_texts.check(conn, found)),
        ("jobs", lambda conn: check_jobs.check(conn, found, rules, now, on_progress)),
        ("the journal", lambda conn: check_journal.check(conn, found)),
        ("accounts of tenants", lambda conn: check_fairness.check(conn, found)),
        ("deadlines", lambda conn: check_targets.check(conn, found)),
        ("nodes that sleep", lambda conn: check_power.check(conn, found)),
        ("what is derived", lambda conn: _derived(conn, found, rules)),
        ("what was told", lambda conn: _told(conn, found)),
    )
    for what, look in looks:
        on_progress(what, 0)
        try:
            with reading(engine) as conn:
                look(conn)
        except DataError as e:  # SQLite met a damaged page: what is left can still be looked at
            found.add("file", f"{what}: {e.message}")
        except UnavailableError as e:  # a table or a column is not there
            if not found.has("schema"):
                raise
            found.add("schema", f"{what}: {e.message}")
    return CheckReport(location(engine.url), REVISION, rows, found.listed())


def _file(conn: Connection, found: Findings) -> None:
    if conn.dialect.name == "sqlite":
        lines = conn.exec_driver_sql("PRAGMA integrity_check").scalars()
        found.add_all("file", (line for line in lines if line != "ok"))


def _schema(conn: Connection, found: Findings) -> None:
    from alembic.autogenerate import compare_metadata
    from alembic.migration import MigrationContext

    context = MigrationContext.configure(conn, opts={"compare_type": _has_another_type})
    for difference in compare_metadata(context, metadata):
        steps = difference if isinstance(difference, list) else [difference]
        for step in steps:
            if step[0] == "remove_table" and step[1].name not in KNOWN:
                continue  # somebody else's table beside ours
            found.add("schema", " ".join(_shown(part) for part in step if part is not None))


def _has_another_type(
    _context: Any, _stored: Any, _told: Any, stored_type: Any, told_type: Any
) -> bool | None:
    """Whether a column has not the type that it should; None: as alembic thinks."""
    # MariaDB has several types of text and of bytes that differ in limits beyond ours alone.
    kind = {KeptText: "text", LargeBinary: "binary"}.get(type(told_type))
    return None if kind is None else kind_of_type(stored_type) != kind


def _shown(part: object) -> str:
    name = getattr(part, "name", None)
    return str(part if name is None else name)


def _count(conn: Connection) -> dict[str, int]:
    return {
        table.name: conn.execute(select(func.count()).select_from(table)).scalar_one()
        for table in metadata.sorted_tables
    }


def _references(conn: Connection, found: Findings) -> None:
    """Rows whose foreign keys lead nowhere. Servers can be told not to look, so that all are."""
    for table in metadata.sorted_tables:
        for key in table.foreign_keys:
            column, target = key.parent, key.column
            away = target.table.alias()
            query = (
                select(column, func.count())
                .outerjoin(away, away.c[target.name] == column)
                .where(column.is_not(None), away.c[target.name].is_(None))
                .group_by(column)
                .limit(1000)
            )
            for value, count in conn.execute(query):
                found.add("reference", f"{table.name}.{column.name} = {value}", count)


def _derived(conn: Connection, found: Findings, rules: PhaseRules) -> None:
    found.add_all("derived", derive.outdated(conn, rules))
    for cluster, before in marks(conn).items():
        old = (jobs.c.cluster_id == cluster) & (jobs.c.end_time < before)
        left = conn.execute(select(func.count()).where(old)).scalar_one()
        if left:
            found.add("prunable", f"cluster {cluster}: ended before {before}", left)


def _disputed(conn: Connection, field: str) -> list[str]:
    """Some of the jobs of which a field is told otherwise, as `gsched history -j` takes them."""
    query = (
        select(attempts.c.job_id, attempts.c.array_task, attempts.c.het_offset)
        .join(conflicts, conflicts.c.attempt_id == attempts.c.id)
        .where(conflicts.c.field == field)
        .distinct()
        .order_by(attempts.c.job_id, attempts.c.array_task, attempts.c.het_offset)
        .limit(MAX_EXAMPLES)
    )
    keys = (
        JobKey("", job_id, unpart(task), unpart(offset), 0)
        for job_id, task, offset in conn.execute(query)
    )
    return [key.slurm_id for key in keys]


def _told(conn: Connection, found: Findings) -> None:
    field = conflicts.c.field
    for name, count in conn.execute(select(field, func.count()).group_by(field).order_by(field)):
        found.add("conflicts", f"{name}: {count}, of job {', '.join(_disputed(conn, name))}", count)
    source = rejects.c.source
    for name, count in conn.execute(select(source, func.count()).group_by(source).limit(1000)):
        found.add("rejects", f"{name}: {count}", count)
