"""Reading logical jobs: lists for people, epochs for the daemon."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Connection, select

from gsched.model.job import JobState
from gsched.model.merge import Part, part_of
from gsched.model.past import HistoryFilter, HistoryJob
from gsched_sql.attempt_rows import in_slots, job_key, records_of_jobs, state_text
from gsched_sql.job_filters import conditions, newest_first
from gsched_sql.names import chunks
from gsched_sql.schema import attempts, clusters, jobs
from gsched_sql.texts import JOB_TEXTS, with_texts
from gsched_sql.values import LiveAttempt

_SLOTS_A_READ = 5000


def list_jobs(conn: Connection, wanted: HistoryFilter) -> list[HistoryJob]:
    """Logical jobs with their attempts, newest first."""
    query = with_texts(jobs, JOB_TEXTS).where(*conditions(conn, wanted)).order_by(*newest_first())
    if wanted.limit is not None:
        query = query.limit(wanted.limit)
    rows = conn.execute(query).all()
    names = {row.id: row.name for row in conn.execute(select(clusters))}
    records = records_of_jobs(conn, names, [row.id for row in rows])
    return [
        HistoryJob(
            key=job_key(names[row.cluster_id], row),
            user=row.user,
            tenant=row.tenant,
            partition=row.partition,
            qos=row.qos,
            name=row.name,
            state=JobState(row.state),
            state_text=state_text(row),
            start_time=row.start_time,
            end_time=row.end_time,
            time_limit_s=row.time_limit_s,
            num_nodes=row.num_nodes,
            num_cpus=row.num_cpus,
            num_gpus=row.num_gpus,
            queueing_s=row.queueing_s,
            duration_s=row.duration_s,
            gpu_time_s=row.gpu_time_s,
            cpu_time_s=row.cpu_time_s,
            phase=row.phase,
            attempts=tuple(records[row.id]),
        )
        for row in rows
    ]


def epochs(conn: Connection, cluster_id: int, live: Sequence[LiveAttempt]) -> list[int]:
    """The epoch of each live attempt's logical job.

    An attempt that the history has not seen yet continues the slot's last job when Slurm says
    that it was restarted; else it is the first of its job.
    """
    known: dict[Part, list[tuple[int, int]]] = {}
    parts = sorted({part_of_live(row) for row in live})
    c = attempts.c
    for some in chunks(parts, _SLOTS_A_READ):
        query = (
            select(c.job_id, c.array_task, c.het_offset, c.submit_time, jobs.c.epoch)
            .join(jobs, jobs.c.id == c.logical_job)
            .where(in_slots(attempts, cluster_id, some))
        )
        for job_id, array_task, het_offset, submit_time, epoch in conn.execute(query):
            part = Part(job_id, array_task, het_offset)
            known.setdefault(part, []).append((submit_time, epoch))
    return [_epoch(row, known.get(part_of_live(row), [])) for row in live]


def _epoch(row: LiveAttempt, stored: Sequence[tuple[int, int]]) -> int:
    earlier = max((s for s in stored if s[0] <= row.submit_time), default=None)
    if earlier is not None and (earlier[0] == row.submit_time or row.restarts > 0):
        return earlier[1]
    return row.submit_time


def named(conn: Connection, cluster_id: int, live: Sequence[LiveAttempt]) -> set[tuple[Part, int]]:
    """Those attempts, (slot, submit time), whose job name the history has, from squeue too.

    Who gives the name first, jobcomp or slurmdbd, does not give the comment with the job's phase;
    that squeue has told of an attempt is seen by the count of restarts.
    """
    found: set[tuple[Part, int]] = set()
    c = attempts.c
    for some in chunks(sorted({part_of_live(row) for row in live}), _SLOTS_A_READ):
        query = select(c.job_id, c.array_task, c.het_offset, c.submit_time).where(
            in_slots(attempts, cluster_id, some),
            c.name_id.is_not(None),
            c.restarts.is_not(None),
        )
        for job_id, array_task, het_offset, submit_time in conn.execute(query):
            found.add((Part(job_id, array_task, het_offset), submit_time))
    return found


def part_of_live(row: LiveAttempt) -> Part:
    """The slot of a live attempt."""
    return part_of(row.job_id, row.array_task, row.het_offset)
