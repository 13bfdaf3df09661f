"""Rows of `jobs`: logical jobs as the attempts of their slots make them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, bindparam, delete, insert, select, update

from gsched.model.logical_jobs import LogicalJob
from gsched.model.merge import Part
from gsched_sql.attempt_rows import in_slots
from gsched_sql.names import chunks
from gsched_sql.schema import jobs

_COLUMNS = tuple(column.name for column in jobs.c if column.name != "id")


class JobRows:
    """The rows of some slots of one cluster, as stored when this object was made."""

    def __init__(self, conn: Connection, cluster_id: int, slots: Sequence[Part]) -> None:
        self._conn = conn
        self._cluster_id = cluster_id
        self._stored: dict[tuple[Part, int], Any] = {}
        for some in chunks(slots, 2000):
            for row in conn.execute(select(jobs).where(in_slots(jobs, cluster_id, some))):
                part = Part(row.job_id, row.array_task, row.het_offset)
                self._stored[part, row.epoch] = row

    def write(
        self,
        logical_jobs: Sequence[tuple[Part, LogicalJob]],
        user_ids: Mapping[str, int],
        tenant_ids: Mapping[str, int],
    ) -> list[int]:
        """Insert and update rows where something changed; returns the row of each job."""
        new: list[dict[str, Any]] = []
        changed: list[dict[str, Any]] = []
        row_ids: list[int | None] = []
        for part, job in logical_jobs:
            row = self._row(part, job, user_ids, tenant_ids)
            stored = self._stored.get((part, job.epoch))
            row_ids.append(None if stored is None else stored.id)
            if stored is None:
                new.append(row)
            elif any(getattr(stored, name) != row[name] for name in _COLUMNS):
                changed.append({**row, "row_id": stored.id})
        if changed:
            self._conn.execute(update(jobs).where(jobs.c.id == bindparam("row_id")), changed)
        made = iter(self._insert(new))
        return [next(made) if row_id is None else row_id for row_id in row_ids]

    def _row(
        self,
        part: Part,
        job: LogicalJob,
        user_ids: Mapping[str, int],
        tenant_ids: Mapping[str, int],
    ) -> dict[str, Any]:
        facts = job.facts()
        return {
            "cluster_id": self._cluster_id,
            "job_id": part.job_id,
            "array_task": part.array_task,
            "het_offset": part.het_offset,
            "epoch": job.epoch,
            "user_id": user_ids.get(facts.pop("user")),
            "tenant_id": tenant_ids.get(facts.pop("tenant")),
            **facts,
        }

    def _insert(self, rows: Sequence[Mapping[str, Any]]) -> list[int]:
        if not rows:
            return []
        statement = insert(jobs).returning(jobs.c.id, sort_by_parameter_order=True)
        return list(self._conn.execute(statement, rows).scalars())

    def drop_unused(self, used: Sequence[int]) -> None:
        """Delete the stored rows that no attempt belongs to any more."""
        unused = sorted({row.id for row in self._stored.values()} - set(used))
        for some in chunks(unused):
            self._conn.execute(delete(jobs).where(jobs.c.id.in_(some)))
