"""Past jobs for an evaluation of the estimators: from files of any format, or from the history."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from gsched.app.trace_formats import TraceOptions, in_reading_order, reader_of
from gsched.errors import DataError, UsageError
from gsched.model.history import AttemptRecord, PastJob
from gsched.model.job import JobState
from gsched.model.past import HistoryJob, logical_jobs
from gsched.model.progress import Progress
from gsched.traces.source import STDIN, open_trace

LEFT_OUT = {
    "rejected": "rows that could not be understood",
    "not-ended": "jobs still waiting or running, or of which nobody tells an end",
    "never-ran": "jobs that never ran",
    "ended-before-start": "jobs with an end before the start",
}
"""Why rows of a file are no past jobs."""


@dataclass(slots=True)
class PastFromFiles:
    """Jobs that ran and ended, by submission; `left_out` counts the others by their reason.

    `waits_known` is False where the source tells no start of any job, which is taken to be its
    submission then.
    """

    jobs: list[PastJob]
    left_out: Counter[str] = field(default_factory=Counter)
    waits_known: bool = True


def read_past_jobs(
    files: Sequence[str], options: TraceOptions, told: Progress = lambda *_: None
) -> PastFromFiles:
    """The past jobs in some files of one format.

    Raises DataError for a file that is cut off, is not of the format or has no job that ran,
    UsageError for standard input that is named twice.
    """
    if list(files).count(STDIN) > 1:
        raise UsageError("standard input can be read once only")
    rejected: Counter[str] = Counter()
    records = _records(files, options, rejected, told)
    past = PastFromFiles([], rejected, waits_known=False)
    for job in _logical(records):
        reason = _unfit(job)
        if reason:
            past.left_out[reason] += 1
        else:
            past.jobs.append(_past_job(job))
            past.waits_known |= not _last_attempt(job).start_assumed
    if not past.jobs:
        counted = ", ".join(f"{n} {LEFT_OUT[reason]}" for reason, n in past.left_out.items())
        raise DataError(f"{', '.join(files)}: no job that ran and ended", counted or "it is empty")
    past.jobs.sort(key=submit_order)
    return past


def submit_order(job: PastJob) -> tuple[int, ...]:
    """A key that sorts jobs by submission, and those of one second always alike."""
    task = -1 if job.array_task is None else job.array_task
    offset = -1 if job.het_offset is None else job.het_offset
    return (job.submit_time, job.job_id, task, offset, job.start_time, job.end_time)


def _records(
    files: Sequence[str], options: TraceOptions, rejected: Counter[str], told: Progress
) -> Iterator[AttemptRecord]:
    seen: dict[str, Any] = {}
    counts_gpus = options.counts_gpus(files)
    for name in in_reading_order(options.format, files):
        rows = 0
        with open_trace(name) as stream:
            told_of = options.for_file(name, seen, counts_gpus)
            for chunk in reader_of(options.format)(stream, told_of):
                if chunk.rejects:
                    rejected["rejected"] += len(chunk.rejects)
                yield from chunk.attempts.records()
                rows += chunk.rows_in
                told(f"reading {name}, rows", rows)
            if stream.damage:
                raise DataError(stream.damage, "get the whole file; nothing is evaluated")


def _logical(records: Iterable[AttemptRecord]) -> Iterator[HistoryJob | AttemptRecord]:
    """Logical jobs; a record that is alone of its id stands for its job itself."""
    by_id: dict[tuple[Any, ...], list[AttemptRecord]] = {}
    for record in records:
        key = (record.cluster, record.job_id, record.array_task, record.het_offset)
        by_id.setdefault(key, []).append(record)
    several = []
    for same in by_id.values():
        if len(same) == 1:
            yield same[0]
        else:
            several += same
    yield from logical_jobs(several)


def _last_attempt(job: HistoryJob | AttemptRecord) -> AttemptRecord:
    return job.attempts[-1] if isinstance(job, HistoryJob) else job


def _unfit(job: HistoryJob | AttemptRecord) -> str:
    if job.end_time is None:
        return "not-ended"
    if job.start_time is None or job.state is JobState.REVOKED:
        return "never-ran"
    if job.end_time < job.start_time:
        return "ended-before-start"
    return ""


def _past_job(job: HistoryJob | AttemptRecord) -> PastJob:
    """Who has no user counts for the account (the virtual cluster)."""
    key = job.key if isinstance(job, HistoryJob) else job
    submit_time = job.key.epoch if isinstance(job, HistoryJob) else job.submit_time
    start_time, end_time = job.start_time, job.end_time
    if start_time is None or end_time is None:
        raise ValueError("a job that has not run is no past job")
    return PastJob(
        cluster=key.cluster,
        job_id=key.job_id,
        submit_time=submit_time,
        start_time=start_time,
        end_time=end_time,
        user=job.user or job.tenant or "",
        tenant=job.tenant or "",
        partition=job.partition or "",
        name=job.name or "",
        num_gpus=job.num_gpus or 0,
        num_cpus=job.num_cpus,
        num_nodes=job.num_nodes,
        time_limit_s=job.time_limit_s,
        state=job.state,
        array_task=key.array_task,
        het_offset=key.het_offset,
    )
