"""Efficiency and waste of one job: what it was given, what it used, what was lost.

Every ratio has its denominator beside it, and what Slurm has not measured is None, never 0:

- CPU: CPU time over allocated CPUs × elapsed time.
- Memory: the sum of all tasks' peaks in the step that had most, over all memory allocated. Steps
  that ran beside each other are not added, so that it may be too low, never too high by much.
- GPU: utilisation only where Slurm accounts for it (``gres/gpuutil``).

Figures are of the last attempt; what earlier attempts took is lost unless the job went on from a
checkpoint of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from gsched.app.past import one_job
from gsched.app.past_sources import Source, find_jobs
from gsched.app.wiring import has_history, now, slurm_client
from gsched.config.settings import Settings
from gsched.errors import NoAccountingError, UnavailableError, UsageError
from gsched.model.exitcode import ExitCode
from gsched.model.history import AttemptRecord
from gsched.model.job import JobState, finite_limit_s
from gsched.model.jobid import JobId
from gsched.model.past import HistoryFilter, HistoryJob, logical_jobs
from gsched.slurm.parse_usage import StepUsage, UsageRecord


@dataclass(frozen=True, slots=True)
class Efficiency:
    """The figures of one logical job. None: not known. Seconds, bytes, ratios from 0 to 1."""

    last: UsageRecord
    earlier: tuple[UsageRecord, ...]
    queueing_s: int | None
    cpu_time_s: float | None
    cpu_available_s: int
    mem_used_bytes: int | None
    mem_largest_task_bytes: int | None
    gpu_util_percent: float | None

    @property
    def cpu_efficiency(self) -> float | None:
        """CPU time used of that which was allocated."""
        return _ratio(self.cpu_time_s, self.cpu_available_s)

    @property
    def mem_efficiency(self) -> float | None:
        """Memory used of that which was allocated."""
        return _ratio(self.mem_used_bytes, self.last.mem_bytes)

    @property
    def time_limit_s(self) -> int | None:
        """The time limit; None without one, and where nobody has told."""
        return finite_limit_s(self.last.time_limit_s)

    @property
    def unused_limit_s(self) -> int | None:
        """Seconds of the time limit that an ended job did not need; None while it runs."""
        if self.time_limit_s is None or not self.last.state.is_terminal:
            return None
        return max(0, self.time_limit_s - self.last.elapsed_s)

    @property
    def gpu_time_s(self) -> int | None:
        """GPU-seconds that the last attempt held."""
        return _gpu_time_s(self.last)

    @property
    def lost_s(self) -> int:
        """Seconds that earlier attempts ran."""
        return sum(attempt.elapsed_s for attempt in self.earlier)

    @property
    def lost_gpu_time_s(self) -> int | None:
        """GPU-seconds that earlier attempts held."""
        return _sum([_gpu_time_s(attempt) for attempt in self.earlier])

    def document(self) -> dict[str, Any]:
        """As JSON."""
        last = self.last
        return {
            "job": last.slurm_id,
            "name": last.name,
            "user": last.user,
            "account": last.account,
            "partition": last.partition,
            "qos": last.qos,
            "state": last.state.value,
            "state_text": last.state_text,
            "exit_code": last.exit_code,
            "exit_signal": last.exit_signal,
            "exit_words": exit_words(last),
            "submit_time": (self.earlier[0] if self.earlier else last).submit_time,
            "start_time": last.start_time,
            "end_time": last.end_time,
            "queueing_s": self.queueing_s,
            "elapsed_s": last.elapsed_s,
            "time_limit_s": self.time_limit_s,
            "unused_limit_s": self.unused_limit_s,
            "num_nodes": last.num_nodes,
            "num_cpus": last.num_cpus,
            "num_gpus": last.num_gpus,
            "gpu_types": dict(last.gpu_types),
            "cpu_time_s": self.cpu_time_s,
            "cpu_available_s": self.cpu_available_s,
            "cpu_efficiency": self.cpu_efficiency,
            "mem_used_bytes": self.mem_used_bytes,
            "mem_allocated_bytes": last.mem_bytes,
            "mem_efficiency": self.mem_efficiency,
            "mem_largest_task_bytes": self.mem_largest_task_bytes,
            "gpu_time_s": self.gpu_time_s,
            "gpu_util_percent": self.gpu_util_percent,
            "num_attempts": 1 + len(self.earlier),
            "lost_s": self.lost_s,
            "lost_gpu_time_s": self.lost_gpu_time_s,
        }


@dataclass(frozen=True, slots=True)
class UsageReport:
    """What was asked for, the figures of each job of it, and where they are from.

    `is_measured`: the source has figures of steps (sacct), so that None means that Slurm's own
    accounting did not measure it.
    """

    job: str
    source: Source
    is_measured: bool
    jobs: tuple[Efficiency, ...]
    num_rejects: int = 0

    def document(self) -> dict[str, Any]:
        """As JSON."""
        return {
            "job": self.job,
            "source": self.source,
            "total": total(self.jobs),
            "jobs": [job.document() for job in self.jobs],
            "rejects": self.num_rejects,
        }


def usage_of(settings: Settings, job: str) -> UsageReport:
    """The efficiency of a job, of an array's tasks, or of the components of a het job.

    Raises UsageError for what is no id and for a job that nobody shows to the caller.
    """
    wanted = one_job(job)
    client = slurm_client(settings)
    try:
        records, rejects = client.usage([_asked(wanted)])
        jobs = _chained(wanted, records)
        report = UsageReport(job, "sacct", True, jobs, len(rejects))
    except UnavailableError as error:
        if not isinstance(error, NoAccountingError) and not has_history(settings):
            raise
        report = _without_sacct(settings, job, wanted)  # what others know is better than nothing
    if not report.jobs:
        raise UsageError(
            f"nothing is known of job {job}: it does not exist, or is not yours to see",
            "`gsched history` lists past jobs",
        )
    return report


def _asked(wanted: JobId) -> str:
    if wanted.array_task is not None:
        return f"{wanted.job_id}_{wanted.array_task}"
    return str(wanted.job_id)


def _chained(wanted: JobId, records: Sequence[UsageRecord]) -> tuple[Efficiency, ...]:
    """The logical jobs that the records make, of each id the newest, in the order of tasks."""
    by_attempt = {_attempt_key(r, r.submit_time): r for r in records}
    newest: dict[str, HistoryJob] = {}
    for job in logical_jobs(_attempt_record(r) for r in records):
        newest.setdefault(job.key.slurm_id, job)
    found = []
    for job in newest.values():
        if wanted.het_offset not in {None, job.key.het_offset}:
            continue
        attempts = [by_attempt[_attempt_key(job.key, a.submit_time)] for a in job.attempts]
        found.append(_efficiency(attempts, job.queueing_s))
    return tuple(sorted(found, key=lambda e: (e.last.array_task or 0, e.last.het_offset or 0)))


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


def _without_sacct(settings: Settings, job: str, wanted: JobId) -> UsageReport:
    chosen = HistoryFilter.of_job(wanted)
    found = find_jobs(settings, chosen, now())
    newest: dict[str, HistoryJob] = {}
    for past in found.jobs:
        newest.setdefault(past.key.slurm_id, past)
    jobs = [
        _efficiency([_usage_record(past, a) for a in past.attempts], past.queueing_s)
        for past in newest.values()
    ]
    jobs.sort(key=lambda e: (e.last.array_task or 0, e.last.het_offset or 0))
    return UsageReport(job, found.source, False, tuple(jobs), len(found.rejects))


def _usage_record(job: HistoryJob, attempt: AttemptRecord) -> UsageRecord:
    """An attempt of a source that has no figures of steps."""
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
        cpu_s=None,
        node_list=attempt.node_list or "",
    )


def _efficiency(attempts: Sequence[UsageRecord], queueing_s: int | None) -> Efficiency:
    last = attempts[-1]
    return Efficiency(
        last=last,
        earlier=tuple(attempts[:-1]),
        queueing_s=queueing_s,
        cpu_time_s=last.cpu_s,
        cpu_available_s=last.num_cpus * last.elapsed_s,
        mem_used_bytes=_most(step.mem_bytes for step in last.steps),
        mem_largest_task_bytes=_most(step.max_task_mem_bytes for step in last.steps),
        gpu_util_percent=_gpu_util(last.steps),
    )


def _gpu_util(steps: Iterable[StepUsage]) -> float | None:
    """The mean over the steps that Slurm measured, by their length."""
    known = [s for s in steps if s.gpu_util_percent is not None and s.elapsed_s]
    seconds = sum(s.elapsed_s or 0 for s in known)
    if not seconds:
        return None
    return sum((s.gpu_util_percent or 0.0) * (s.elapsed_s or 0) for s in known) / seconds


def total(jobs: Sequence[Efficiency]) -> dict[str, Any]:
    """All jobs together; a sum over `…_jobs` of them where not all are known."""
    cpu = [job for job in jobs if job.cpu_time_s is not None]
    mem = [e for e in (job.mem_efficiency for job in jobs) if e is not None]
    gpu = [s for s in (job.gpu_time_s for job in jobs) if s is not None]
    states: dict[str, int] = {}
    for job in jobs:
        states[job.last.state.value] = states.get(job.last.state.value, 0) + 1
    return {
        "num_jobs": len(jobs),
        "states": states,
        "cpu_time_s": sum(job.cpu_time_s or 0.0 for job in cpu) if cpu else None,
        "cpu_available_s": sum(job.cpu_available_s for job in cpu) if cpu else None,
        "cpu_efficiency": _ratio(
            sum(job.cpu_time_s or 0.0 for job in cpu) if cpu else None,
            sum(job.cpu_available_s for job in cpu),
        ),
        "cpu_jobs": len(cpu),
        "mem_efficiency_most": max(mem, default=None),
        "mem_jobs": len(mem),
        "gpu_time_s": sum(gpu) if gpu else None,
        "gpu_jobs": len(gpu),
        "elapsed_s": sum(job.last.elapsed_s for job in jobs),
        "lost_s": sum(job.lost_s for job in jobs),
        "lost_gpu_time_s": _sum([job.lost_gpu_time_s for job in jobs]),
    }


def exit_words(record: UsageRecord) -> str | None:
    """What the exit code means; None while there is none, and of a job that never ran."""
    if record.exit_code is None or not record.state.is_terminal or record.start_time is None:
        return None
    return ExitCode(record.exit_code, record.exit_signal or 0).words


def _gpu_time_s(attempt: UsageRecord) -> int | None:
    return None if attempt.num_gpus is None else attempt.num_gpus * attempt.elapsed_s


def _ratio(part: float | None, whole: float | None) -> float | None:
    return None if part is None or not whole else part / whole


def _sum(values: Sequence[int | None]) -> int | None:
    """The sum, None when one is not known."""
    return None if None in values else sum(v for v in values if v is not None)


def _most(values: Iterable[int | None]) -> int | None:
    return max((v for v in values if v is not None), default=None)
