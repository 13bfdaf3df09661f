"""What jobs used, from whoever has measured it: stored steps, the caller's own sacct, or nobody.

The database is asked first where it keeps steps of the job; of a job that has not ended sacct and
sstat know more. Without either the job itself is still known, without CPU time and memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from gsched.app.efficiency import Efficiency, efficiency
from gsched.app.past import PastQuery, chosen, one_job
from gsched.app.past_sources import Source, find_jobs
from gsched.app.usage import UsageReport
from gsched.app.waste import findings, wasted
from gsched.app.wiring import has_history, now, open_history, slurm_client
from gsched.config.settings import Settings
from gsched.errors import NoAccountingError, TryAgainError, UnavailableError, UsageError
from gsched.model.history import AttemptRecord, Reject, StepRecord
from gsched.model.job import JobKey, JobState
from gsched.model.jobid import JobId
from gsched.model.past import HistoryFilter, HistoryJob, logical_jobs
from gsched.slurm.parse_usage import StepUsage, UsageRecord

_IDS_A_CALL = 500
"""Job ids in one call of sacct."""


def usage_of(settings: Settings, job: str) -> UsageReport:
    """The efficiency of a job, of an array's tasks, or of the components of a het job.

    Raises UsageError for what is no id and for a job that nobody shows to the caller.
    """
    wanted = one_job(job)
    stored = _stored_jobs(settings, wanted)
    report = _stored(settings, job, stored) or _of_sacct(settings, job, wanted, stored)
    if not report.jobs:
        raise UsageError(
            f"nothing is known of job {job}: it does not exist, or is not yours to see",
            "`gsched history` lists past jobs",
        )
    return report


def usage_of_many(settings: Settings, query: PastQuery) -> UsageReport:
    """The efficiency of the newest `query.limit` jobs that have started, the worst waste first.

    Raises UsageError for a wrong word in the query.
    """
    found = find_jobs(settings, chosen(query, query.limit + 1, now()), now())
    jobs = [job for job in found.jobs[: query.limit] if job.start_time is not None]
    rows = _with_stored_steps(settings, jobs) if found.source == "database" else {}
    rejects = list(found.rejects)
    missing = [job for job in jobs if job.key not in rows]
    if missing:
        measured, not_read = _with_sacct(settings, missing)
        rows |= measured
        rejects += not_read
    is_measured = bool(rows)
    ranked = _worst_first(rows.get(job.key) or _of_stored(job, {}) for job in jobs)
    more = len(found.jobs) > query.limit
    return UsageReport(None, found.source, is_measured, ranked, len(rejects), more)


def _worst_first(jobs: Iterable[Efficiency]) -> tuple[Efficiency, ...]:
    return tuple(sorted(jobs, key=lambda job: wasted(findings(job)), reverse=True))


def _with_stored_steps(settings: Settings, jobs: Iterable[HistoryJob]) -> dict[JobKey, Efficiency]:
    """Those of the jobs, ended, of whose last attempt the database has steps."""
    found = {}
    with open_history(settings) as history:
        for job in jobs:
            steps = history.steps_of(job) if job.end_time is not None else {}
            if steps.get(job.attempts[-1].submit_time):
                found[job.key] = _of_stored(job, steps)
    return found


def _with_sacct(
    settings: Settings, jobs: Sequence[HistoryJob]
) -> tuple[dict[JobKey, Efficiency], list[Reject]]:
    """Those of the jobs that sacct shows to the caller; none where it cannot be asked."""
    by_attempt = {(job.key.slurm_id, job.attempts[-1].submit_time): job.key for job in jobs}
    ids = list(dict.fromkeys(job.key.slurm_id.partition("+")[0] for job in jobs))
    client = slurm_client(settings)
    found: dict[JobKey, Efficiency] = {}
    rejects: list[Reject] = []
    for start in range(0, len(ids), _IDS_A_CALL):
        try:
            records, not_read = client.usage(ids[start : start + _IDS_A_CALL])
        except (UnavailableError, TryAgainError):
            break  # what is known without it is told all the same
        rejects += not_read
        for attempts, queueing_s in _logical(records):
            key = by_attempt.get((attempts[-1].slurm_id, attempts[-1].submit_time))
            if key is not None:
                found[key] = efficiency(attempts, queueing_s)
    return found, rejects


def _stored_jobs(settings: Settings, wanted: JobId) -> list[HistoryJob]:
    if not has_history(settings):
        return []
    with open_history(settings) as history:
        return _newest(history.jobs(HistoryFilter.of_job(wanted)))


def _stored(settings: Settings, job: str, jobs: Sequence[HistoryJob]) -> UsageReport | None:
    """The answer of the database, None where it has not the steps of all ended parts."""
    rows = _with_stored_steps(settings, jobs) if jobs else {}
    if not jobs or len(rows) < len(jobs):
        return None
    return UsageReport(job, "database", True, tuple(rows[job.key] for job in jobs))


def _of_sacct(
    settings: Settings, job: str, wanted: JobId, stored: Sequence[HistoryJob]
) -> UsageReport:
    """What sacct says, and what the history keeps of jobs that sacct no longer has."""
    client = slurm_client(settings)
    try:
        records, rejects = client.usage([_asked(wanted)])
        if not records and wanted.array_task is not None:  # it may have ended with the others
            records, rejects = client.usage([str(wanted.job_id)])
    except (UnavailableError, TryAgainError) as error:
        if not isinstance(error, NoAccountingError) and not has_history(settings):
            raise
        return _unmeasured(settings, job, wanted)  # what others know is better than nothing
    told = _chained(wanted, records)
    known = {row.last.slurm_id for row in told}
    gone = [past for past in stored if past.key.slurm_id not in known]
    steps = _with_stored_steps(settings, gone) if gone else {}
    rows = [*told, *(steps.get(past.key) or _of_stored(past, {}) for past in gone)]
    source: Source = "sacct" if told or not gone else "database"
    return UsageReport(
        job, source, bool(told or steps), tuple(sorted(rows, key=_part)), len(rejects)
    )


def _unmeasured(settings: Settings, job: str, wanted: JobId) -> UsageReport:
    found = find_jobs(settings, HistoryFilter.of_job(wanted), now())
    rows = tuple(_of_stored(past, {}) for past in _newest(found.jobs))
    return UsageReport(job, found.source, False, rows, len(found.rejects))


def _newest(jobs: Iterable[HistoryJob]) -> list[HistoryJob]:
    """Of each id the newest job, in the order of tasks."""
    newest: dict[str, HistoryJob] = {}
    for job in jobs:
        newest.setdefault(job.key.slurm_id, job)
    return sorted(newest.values(), key=lambda j: (j.key.array_task or 0, j.key.het_offset or 0))


def _asked(wanted: JobId) -> str:
    if wanted.array_task is not None:
        return f"{wanted.job_id}_{wanted.array_task}"
    return str(wanted.job_id)


def _chained(wanted: JobId, records: Sequence[UsageRecord]) -> tuple[Efficiency, ...]:
    """The logical jobs that the records make, of each id the newest, in the order of tasks."""
    newest: dict[str, Efficiency] = {}
    for attempts, queueing_s in _logical(records):
        last = attempts[-1]
        if wanted.het_offset in {None, last.het_offset} and (
            wanted.array_task in {None, last.array_task}
        ):
            newest.setdefault(last.slurm_id, efficiency(attempts, queueing_s))
    return tuple(sorted(newest.values(), key=_part))


def _part(row: Efficiency) -> tuple[int, int]:
    return row.last.array_task or 0, row.last.het_offset or 0


def _logical(
    records: Sequence[UsageRecord],
) -> Iterator[tuple[list[UsageRecord], int | None]]:
    """The attempts of each logical job, newest job first, and its queueing time."""
    by_attempt = {_attempt_key(r, r.submit_time): r for r in records}
    for job in logical_jobs(_attempt_record(r) for r in records):
        attempts = [by_attempt[_attempt_key(job.key, a.submit_time)] for a in job.attempts]
        yield attempts, job.queueing_s


def _attempt_key(job: Any, submit_time: int) -> tuple[int, int | None, int | None, int]:
    return (job.job_id, job.array_task, job.het_offset, submit_time)


def _attempt_record(record: UsageRecord) -> AttemptRecord:
    return AttemptRecord(
        cluster="",
        job_id=record.job_id,
        array_task=record.array_task,
        het_offset=record.het_offset,
        submit_time=record.submit_time,
        state=record.state,
        state_text=record.state_text,
        source="sacct",
        user=record.user or None,
        start_time=record.start_time,
        end_time=record.end_time,
        num_nodes=record.num_nodes,
        node_list=record.node_list or None,
    )


def _of_stored(job: HistoryJob, steps: Mapping[int, Sequence[StepRecord]]) -> Efficiency:
    """A job of the history with the steps, by submit time, that it keeps."""
    records = [_usage_record(job, a, steps.get(a.submit_time, ())) for a in job.attempts]
    return efficiency(records, job.queueing_s)


def _usage_record(
    job: HistoryJob, attempt: AttemptRecord, steps: Sequence[StepRecord]
) -> UsageRecord:
    start, end = attempt.start_time, attempt.end_time
    if end is None and attempt.state is JobState.RUNNING:
        end = now()
    tres = {t.name: t.count for t in attempt.allocated or attempt.requested}
    types = {n.partition(":")[2]: c for n, c in tres.items() if n.startswith("gres/gpu:")}
    return UsageRecord(
        raw_id=attempt.job_id,
        job_id=attempt.job_id,
        array_task=attempt.array_task,
        het_offset=attempt.het_offset,
        user=attempt.user or job.user or "",
        account=attempt.tenant or job.tenant or "",
        partition=attempt.partition or "",
        qos=attempt.qos or "",
        name=attempt.name or job.name or "",
        state=attempt.state,
        state_text=attempt.state_text,
        exit_code=attempt.exit_code,
        exit_signal=attempt.exit_signal,
        submit_time=attempt.submit_time,
        eligible_time=attempt.eligible_time,
        start_time=start,
        end_time=attempt.end_time,
        elapsed_s=0 if start is None or end is None else max(0, end - start),
        time_limit_s=attempt.time_limit_s,
        num_nodes=attempt.num_nodes or 0,
        num_cpus=attempt.num_cpus or 0,
        num_gpus=attempt.num_gpus,
        gpu_types=tuple(types.items()),
        mem_bytes=tres.get("mem"),
        cpu_s=_cpu_time_s(steps),
        node_list=attempt.node_list or "",
        steps=tuple(_step_usage(step) for step in steps),
    )


def _cpu_time_s(steps: Iterable[StepRecord]) -> float | None:
    known = [step.cpu_time_s for step in steps if step.cpu_time_s is not None]
    return sum(known) if known else None


def _step_usage(step: StepRecord) -> StepUsage:
    peak, total = step.max_rss_bytes, step.rss_bytes
    if total is None and step.num_tasks == 1:
        total = peak  # of a release, or a saved listing, without the sum
    start, end = step.start_time, step.end_time
    return StepUsage(
        name=step.step,
        state_text=step.state.value,
        elapsed_s=None if start is None or end is None else max(0, end - start),
        num_tasks=step.num_tasks,
        cpu_s=step.cpu_time_s,
        max_task_mem_bytes=peak,
        mem_bytes=total,
        gpu_util_percent=step.gpu_utilization_pct,
    )
