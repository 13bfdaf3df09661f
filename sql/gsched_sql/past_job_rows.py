"""Finished jobs for the predictor: hundreds of thousands at once, so texts are read once each."""

from __future__ import annotations

from collections.abc import Mapping

from sqlalchemy import ColumnElement, Connection, and_, select

from gsched.model.history import PastJob
from gsched.model.job import JobState
from gsched.model.merge import unpart
from gsched_sql.names import cluster_id
from gsched_sql.schema import jobs
from gsched_sql.texts import TEXT_TABLES
from gsched_sql.values import PastJobs

# States of jobs that have run to an end of their own or were ended. REVOKED ones ran on another
# cluster of the federation; a REQUEUED one goes on.
_NOT_RUN_HERE = (JobState.REVOKED.value, JobState.REQUEUED.value)


def past_jobs(conn: Connection, cluster: str, ended_after: int, ended_before: int) -> PastJobs:
    """Jobs that ran and ended in [ended_after, ended_before), by end time."""
    known = cluster_id(conn, cluster)
    if known is None:
        return PastJobs((), 0)
    c = jobs.c
    chosen = and_(
        c.cluster_id == known,
        c.end_time >= ended_after,
        c.end_time < ended_before,
        c.start_time.is_not(None),
        c.state.not_in(_NOT_RUN_HERE),
    )
    users, tenants, partitions, names = (
        _texts(conn, field, chosen) for field in ("user", "tenant", "partition", "name")
    )
    query = select(
        *(c.job_id, c.epoch, c.start_time, c.end_time),
        *(c.user_id, c.tenant_id, c.partition_id, c.name_id),
        *(c.num_gpus, c.num_cpus, c.num_nodes, c.time_limit_s),
        *(c.state, c.array_task, c.het_offset, c.duration_s),
    ).where(chosen)
    states = {state.value: state for state in JobState}
    found: list[PastJob] = []
    left_out = 0
    for row in conn.execute(query.order_by(c.end_time, c.id)):
        job_id, epoch, start, end, user, tenant, partition, name, *counts, limit_s = row[:12]
        state, array_task, het_offset, duration_s = row[12:]
        if state == JobState.UNKNOWN.value or user is None or None in (counts[0], duration_s):
            left_out += 1
            continue
        found.append(
            PastJob(
                *(cluster, job_id, epoch, start, end),
                *(users[user], tenants[tenant], partitions[partition], names[name]),
                *(*counts, limit_s, states[state], unpart(array_task), unpart(het_offset)),
            )
        )
    return PastJobs(found, left_out)


def _texts(conn: Connection, field: str, chosen: ColumnElement[bool]) -> Mapping[int | None, str]:
    """The texts of a field that the chosen jobs have, by row; "" where nobody told one."""
    table = TEXT_TABLES[field]
    used = select(jobs.c[f"{field}_id"]).where(chosen).distinct()
    rows = conn.execute(select(table.c.id, table.c.name).where(table.c.id.in_(used)))
    return {None: ""} | {row.id: row.name for row in rows}
