"""What of a row of squeue an id means: one row may stand for many tasks that wait together."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from gsched.model.jobid import JobId, parse_tasks
from gsched.slurm.records import QueueRow


def is_whole(job: JobId) -> bool:
    """Whether an id means all of a job, not some tasks or a component of it."""
    return not job.tasks and job.het_offset is None


def means(job: JobId, row: QueueRow) -> bool:
    """Whether an id means a row or a part of it; Slurm's own number of an array task does, too."""
    if row.raw_id == job.job_id and is_whole(job):
        return True
    if row.job_id != job.job_id:
        return False
    if job.het_offset is not None:
        return row.het_offset == job.het_offset
    if is_whole(job):
        return True
    # a row whose tasks are not understood is better shown than lost
    return row.tasks is None or len(job.tasks.common(row.tasks)) > 0


def part_of(row: QueueRow, jobs: Iterable[JobId]) -> QueueRow:
    """The tasks of `row` that `jobs` name, as squeue shows them: ``7_2``, ``7_[2,4]``.

    Each of `jobs` means a part of the row, or all of it.
    """
    waiting = row.tasks
    named = [job.tasks for job in jobs]
    if not row.is_unsplit_array or waiting is None or not all(named):
        return row
    found = sorted({task for tasks in named for task in tasks.common(waiting)})
    if len(found) == 1:
        return replace(row, array_task=found[0], array_tasks="", is_unsplit_array=False)
    if len(found) == len(waiting):
        return row
    chosen = replace(parse_tasks(",".join(map(str, found))), throttle=waiting.throttle)
    return replace(row, array_tasks=str(chosen))
