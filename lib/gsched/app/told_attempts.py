"""What a job's launcher, hooks and GPU samplers tell of its attempts and GPUs.

It is the job's own word, as its progress is (`told_progress`): its owner may have forged it, nobody
else, and nothing is decided by it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from typing import Any

from gsched.app.told_progress import file_job
from gsched.app.user_names import user_number
from gsched.config.settings import Settings
from gsched.errors import DataError
from gsched.explain.words import count
from gsched.model.hostlist import expand
from gsched.model.job import JobState
from gsched.model.past import HistoryJob
from gsched.slurm.records import QueueRow
from gsched.telemetry import gpu_file
from gsched.telemetry.attempts import JobAttempt, read_register
from gsched.telemetry.gpu_file import GpuRecord
from gsched.telemetry.heartbeats import CLOCK_SKEW_S
from gsched.telemetry.user_folders import UserFolders

MAX_NODES = 4096
"""Of a job with more nodes only so many are asked for their GPUs."""


def told_attempts(
    settings: Settings, job: QueueRow | HistoryJob
) -> tuple[list[dict[str, Any]], list[dict[str, Any]], str]:
    """Attempts by restart count and GPUs by node, as JSON, and what is not believed of them ("").

    Both are empty for a job that tells nothing.
    """
    uid = user_number(job.user or "")
    if not settings.heartbeat.dir or uid is None:
        return [], [], ""
    doubts: list[str] = []
    with UserFolders(Path(settings.heartbeat.dir)) as folder:
        attempts: Sequence[JobAttempt] = ()
        try:
            register = read_register(folder, uid, file_job(job))
            if register is not None:
                attempts = [a for a in register.attempts if _is_of(job, a.restart, a.heard_time)]
                if register.num_unreadable:
                    doubts.append(f"{count(register.num_unreadable, 'line')} of its register")
        except DataError as e:
            doubts.append(e.message)
        gpus = list(_gpu_records(folder, uid, job, attempts, doubts))
    latest = max((record.restart for record in gpus), default=0)
    return (
        [_attempt(attempt, job) for attempt in attempts],
        [gpu for record in gpus if record.restart == latest for gpu in _gpus(record, job)],
        "; ".join(dict.fromkeys(doubts)),
    )


def _gpu_records(
    folder: UserFolders,
    uid: int,
    job: QueueRow | HistoryJob,
    attempts: Sequence[JobAttempt],
    doubts: list[str],
) -> Iterator[GpuRecord]:
    for node in islice(_nodes(job, attempts), MAX_NODES):
        name = gpu_file.file_name(file_job(job), node)
        try:
            data = folder.read(uid, name, gpu_file.FILE_BYTES, 0, gpu_file.FILE_BYTES)
            record = gpu_file.decode(data) if data else None
        except DataError as e:
            doubts.append(e.message)
            continue
        if record is None or record.job != file_job(job):
            continue
        if _is_of(job, record.restart, record.written_time):
            yield record


def _nodes(job: QueueRow | HistoryJob, attempts: Sequence[JobAttempt]) -> Iterator[str]:
    """Where the job runs; else where it last ran, by Slurm's word or its own."""
    if isinstance(job, QueueRow):
        listed = [job.node_list]
    else:
        listed = [attempt.node_list or "" for attempt in reversed(job.attempts)]
    listed += [attempt.nodes or "" for attempt in reversed(attempts)]
    for text in filter(None, listed):
        try:
            names = expand(text)
        except DataError:
            continue
        yield from (name for name in names if "/" not in name)
        return


def _is_of(job: QueueRow | HistoryJob, restart: int, told_time: float) -> bool:
    """Whether this job has told it, rather than one that had its number before."""
    if isinstance(job, QueueRow):
        if restart > job.restarts:
            return False
        return bool(job.restarts) or told_time >= job.submit_time - CLOCK_SKEW_S
    if job.end_time is not None and told_time > job.end_time + CLOCK_SKEW_S:
        return False
    return told_time >= job.key.epoch - CLOCK_SKEW_S


def _is_running(job: QueueRow | HistoryJob, restart: int) -> bool:
    return isinstance(job, QueueRow) and job.state is JobState.RUNNING and restart == job.restarts


def _attempt(attempt: JobAttempt, job: QueueRow | HistoryJob) -> dict[str, Any]:
    document: dict[str, Any] = {}
    for name, value in asdict(attempt).items():
        document |= {f"num_{name}": len(value)} if isinstance(value, set) else {name: value}
    document |= {
        "heard_time": round(attempt.heard_time),
        "started_time": _whole(attempt.started_time),
        "signals": [[name, round(when)] for name, when in attempt.signals],
        "ended_time": _whole(attempt.ended_time),
    }
    return document | {
        "is_running": attempt.ended_time is None and _is_running(job, attempt.restart)
    }


def _gpus(record: GpuRecord, job: QueueRow | HistoryJob) -> Iterator[dict[str, Any]]:
    for gpu in record.gpus:
        yield {
            "node": record.node,
            **asdict(gpu.last),
            "mean_utilisation": gpu.mean_utilisation,
            "max_memory_used_bytes": gpu.max_memory_used_bytes,
            "busy_time": _whole(gpu.busy_time),
            "restart": record.restart,
            "started_time": round(record.started_time),
            "written_time": round(record.written_time),
            "is_running": record.ended_time is None and _is_running(job, record.restart),
        }


def _whole(time: float | None) -> int | None:
    return None if time is None else round(time)
