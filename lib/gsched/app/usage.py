"""Efficiency and waste of one job: what it was given, what it used, what was lost.

Every ratio has its denominator beside it, and what Slurm has not measured is None, never 0:

- CPU: CPU time over allocated CPUs × elapsed time.
- Memory: the sum of all tasks' peaks in the step that had most, over all memory allocated. Steps
  that ran beside each other are not added, so that it may be too low, never too high by much. The
  database keeps the largest task's peak only, which is taken for each of the step's tasks.
- GPU: utilisation only where Slurm accounts for it (``gres/gpuutil``).

Figures are of the last attempt; what earlier attempts took is lost unless the job went on from a
checkpoint of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from gsched.app.past_sources import Source
from gsched.app.waste import Waste, findings, wasted
from gsched.model.exitcode import ExitCode
from gsched.model.job import finite_limit_s
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

    @property
    def waste(self) -> tuple[Waste, ...]:
        """What was wasted and why."""
        return findings(self)

    @property
    def wasted(self) -> tuple[float, float]:
        """GPU-seconds and CPU-seconds that were wasted at least, as far as is known."""
        return wasted(self.waste)

    def document(self) -> dict[str, Any]:
        """As JSON."""
        last = self.last
        gpu_s, cpu_s = self.wasted
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
            "wasted_gpu_time_s": gpu_s,
            "wasted_cpu_time_s": cpu_s,
            "waste": [asdict(finding) for finding in self.waste],
        }


@dataclass(frozen=True, slots=True)
class UsageReport:
    """What was asked for, the figures of each job of it, and where they are from.

    `job` is None for the jobs that a filter has chosen, of which there are `more`. `is_measured`:
    the source has figures of steps (sacct, stored steps), so that None means that Slurm's own
    accounting did not measure it.
    """

    job: str | None
    source: Source
    is_measured: bool
    jobs: tuple[Efficiency, ...]
    num_rejects: int = 0
    more: bool = False

    def document(self) -> dict[str, Any]:
        """As JSON."""
        return {
            "job": self.job,
            "source": self.source,
            "total": total(self.jobs),
            "jobs": [job.document() for job in self.jobs],
            "rejects": self.num_rejects,
            "more": self.more,
        }


def efficiency(attempts: Sequence[UsageRecord], queueing_s: int | None) -> Efficiency:
    """The figures of a job of these attempts, oldest first."""
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
