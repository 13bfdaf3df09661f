"""Reads what jobs tell of their progress, and to which attempt of which job it belongs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from gsched.app.job_progress import JobProgress
from gsched.app.queued_job import QueuedJob
from gsched.app.user_names import user_number
from gsched.config.settings import Settings
from gsched.errors import DataError
from gsched.model.job import JobState
from gsched.model.past import HistoryJob
from gsched.slurm.records import QueueRow
from gsched.telemetry.heartbeat_file import HeartbeatRecord
from gsched.telemetry.heartbeats import CLOCK_SKEW_S, HeartbeatFolder
from gsched.telemetry.loss_curve import LossCurve


class Told(NamedTuple):
    """What one job tells: rank 0's progress, the loss of all attempts, what each rank last said."""

    progress: JobProgress
    curve: LossCurve
    ranks: Sequence[HeartbeatRecord]

    def document(self) -> dict[str, Any]:
        """As JSON; `behind` is the rank that has been silent for longest."""
        behind = min(self.ranks, key=lambda rank: rank.step_time)
        return self.progress.document() | {
            "num_ranks_heard": len(self.ranks),
            "behind": {
                "rank": behind.rank,
                "host": behind.host,
                "step": behind.step,
                "step_time": round(behind.step_time),
            },
            "attempts": [
                {
                    "restart": attempt.restart,
                    "first_step": attempt.first_step,
                    "last_step": attempt.last_step,
                    "started_time": round(attempt.started_time),
                    "step_time": round(attempt.step_time),
                }
                for attempt in self.curve.attempts
            ],
            "losses": [[point.step, point.loss] for point in self.curve.points],
        }


def with_progress(settings: Settings, jobs: Iterable[QueuedJob]) -> Iterator[QueuedJob]:
    """`jobs` with what they tell of themselves; files that are not to be believed tell nothing."""
    if not settings.heartbeat.dir:
        yield from jobs
        return
    with HeartbeatFolder(Path(settings.heartbeat.dir)) as folder:
        for job in jobs:
            try:
                progress = _queued(folder, job.row, job.at)
            except DataError:  # `gsched show` says which, and why
                progress = None
            yield replace(job, progress=progress) if progress else job


def told_by(settings: Settings, job: QueueRow | HistoryJob, at: int) -> Told | None:
    """All that a job of the queue, or of the history, tells; None where it tells nothing.

    Raises DataError for what is not to be believed.
    """
    if not settings.heartbeat.dir:
        return None
    with HeartbeatFolder(Path(settings.heartbeat.dir)) as folder:
        progress = _progress(folder, job, at)
        uid = _uid(job.user or "")
        if progress is None or uid is None:
            return None
        record = progress.record
        ranks = folder.ranks(uid, record.job, record.world_size) or [record]
        curve = LossCurve()
        with suppress(DataError):  # a job that tells no loss, or is making its file
            curve = folder.curve(uid, record.job) or curve
        return Told(progress, curve, ranks)


def file_job(job: QueueRow | HistoryJob) -> str:
    """The id by which a job names its files in the heartbeat folder."""
    if isinstance(job, QueueRow):
        return str(job.raw_id) if job.array_task is None else f"{job.job_id}_{job.array_task}"
    key = job.key
    if key.array_task is not None:
        return f"{key.job_id}_{key.array_task}"
    return str(key.job_id + (key.het_offset or 0))


def _progress(folder: HeartbeatFolder, job: QueueRow | HistoryJob, at: int) -> JobProgress | None:
    if isinstance(job, QueueRow):
        return _queued(folder, job, at)
    return _past(folder, job, at)


def _queued(folder: HeartbeatFolder, row: QueueRow, at: int) -> JobProgress | None:
    if row.is_unsplit_array or (row.state is JobState.PENDING and not row.restarts):
        return None
    record = _record(folder, row.user, file_job(row))
    if record is None or record.restart > row.restarts:
        return None
    if row.state is JobState.PENDING or record.restart < row.restarts:
        return JobProgress(record, at, is_running=False)
    if record.step_time < (row.start_time or row.submit_time) - CLOCK_SKEW_S:
        return None  # of a job that had this number before
    return JobProgress(record, at, row.state is JobState.RUNNING)


def _past(folder: HeartbeatFolder, past: HistoryJob, at: int) -> JobProgress | None:
    record = _record(folder, past.user or "", file_job(past))
    if record is None or record.step_time < past.key.epoch - CLOCK_SKEW_S:
        return None
    if past.end_time is not None and record.started_time > past.end_time + CLOCK_SKEW_S:
        return None
    return JobProgress(record, at, is_running=False)


def _record(folder: HeartbeatFolder, user: str, job: str) -> HeartbeatRecord | None:
    uid = _uid(user)
    return None if uid is None else folder.record(uid, job)


@lru_cache(maxsize=4096)
def _uid(user: str) -> int | None:
    return user_number(user)
