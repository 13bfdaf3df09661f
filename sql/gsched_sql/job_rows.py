"""Rows of `jobs`: logical jobs as the attempts of their slots make them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, bindparam, delete, select, update

from gsched.model.logical_jobs import LogicalJob
from gsched.model.merge import Part
from gsched.model.phases import PhaseRules, phase_of
from gsched_sql.attempt_rows import in_slots
from gsched_sql.inserts import insert_rows, next_id
from gsched_sql.names import chunks
from gsched_sql.schema import jobs
from gsched_sql.texts import JOB_TEXTS, TextIds

COLUMNS = tuple(column.name for column in jobs.c)


class JobRows:
    """The rows of some slots of one cluster, as stored when this object was made."""

    def __init__(
        self, conn: Connection, cluster_id: int, slots: Sequence[Part], rules: PhaseRules
    ) -> None:
        self._conn = conn
        self._cluster_id = cluster_id
        self._rules = rules
        self._stored: dict[tuple[Part, int], Any] = {}
        for some in chunks(slots, 2000):
            for row in conn.execute(select(jobs).where(in_slots(jobs, cluster_id, some))):
                part = Part(row.job_id, row.array_task, row.het_offset)
                self._stored[part, row.epoch] = row

    def write(
        self, logical_jobs: Sequence[tuple[Part, LogicalJob]], text_ids: TextIds
    ) -> list[int]:
        """Insert and update rows where something changed; returns the row of each job."""
        new: list[dict[str, Any]] = []
        changed: list[dict[str, Any]] = []
        row_ids: list[int] = []
        free = next_id(self._conn, jobs)
        for part, job in logical_jobs:
            row = self._row(part, job, text_ids)
            stored = self._stored.get((part, job.epoch))
            row["id"] = free + len(new) if stored is None else stored.id
            row_ids.append(row["id"])
            if stored is None:
                new.append(row)
            elif any(getattr(stored, name) != row[name] for name in COLUMNS):
                changed.append({"row_id": row.pop("id"), **row})
        if changed:
            self._conn.execute(update(jobs).where(jobs.c.id == bindparam("row_id")), changed)
        insert_rows(self._conn, jobs, COLUMNS, [[row[name] for name in COLUMNS] for row in new])
        return row_ids

    def _row(self, part: Part, job: LogicalJob, text_ids: TextIds) -> dict[str, Any]:
        facts = job.facts()
        facts["phase"] = job_phase(self._rules, facts)
        texts = {f"{field}_id": text_ids[field].get(facts.pop(field)) for field in JOB_TEXTS}
        if facts["state_text"] == facts["state"]:
            facts["state_text"] = None
        return {
            "cluster_id": self._cluster_id,
            "job_id": part.job_id,
            "array_task": part.array_task,
            "het_offset": part.het_offset,
            "epoch": job.epoch,
            **texts,
            **facts,
        }

    def drop_unused(self, used: Sequence[int]) -> None:
        """Delete the stored rows that no attempt belongs to any more."""
        unused = sorted({row.id for row in self._stored.values()} - set(used))
        for some in chunks(unused):
            self._conn.execute(delete(jobs).where(jobs.c.id.in_(some)))


def job_phase(rules: PhaseRules, facts: dict[str, Any]) -> str | None:
    """The phase of a logical job, given what its attempts tell."""
    return phase_of(
        rules,
        facts["phase"],
        name=facts["name"],
        user=facts["user"],
        account=facts["tenant"],
        partition=facts["partition"],
        qos=facts["qos"],
        num_gpus=facts["num_gpus"],
    )
