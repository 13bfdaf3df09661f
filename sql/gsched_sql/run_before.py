"""For how long the earlier attempts of jobs have run: what a requeued job has behind it."""

from __future__ import annotations

from collections.abc import Mapping

from sqlalchemy import Connection, select

from gsched.model.job import JobKey
from gsched.model.merge import part_of
from gsched_sql.attempt_rows import in_slots, job_key
from gsched_sql.names import chunks, cluster_id
from gsched_sql.schema import attempts, jobs

_SLOTS_A_READ = 2000


def run_before(conn: Connection, cluster: str, present: Mapping[JobKey, int]) -> dict[JobKey, int]:
    """By job, the seconds of its attempts before the one that was submitted at `present`.

    An attempt of which no end was told has ended when the next one was submitted. Jobs that the
    history does not know are left out.
    """
    known = cluster_id(conn, cluster)
    if known is None:
        return {}
    found: dict[JobKey, int] = {}
    following = dict(present)
    parts = sorted({part_of(key.job_id, key.array_task, key.het_offset) for key in present})
    j, a = jobs.c, attempts.c
    for some in chunks(parts, _SLOTS_A_READ):
        query = (
            select(j.job_id, j.array_task, j.het_offset, j.epoch)
            .add_columns(a.submit_time, a.start_time, a.end_time)
            .join(attempts, a.logical_job == j.id)
            .where(in_slots(jobs, known, some))
            .order_by(a.submit_time.desc())
        )
        for row in conn.execute(query):
            key = job_key(cluster, row)
            if key not in present or row.submit_time >= present[key]:
                continue
            end = following[key] if row.end_time is None else row.end_time
            ran_s = 0 if row.start_time is None else max(0, end - row.start_time)
            found[key] = found.get(key, 0) + ran_s
            following[key] = row.submit_time
    return found
