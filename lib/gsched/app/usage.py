"""What `gsched eff` answers: the figures of some jobs, their sum, and where they are from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from gsched.app.efficiency import Efficiency, exit_words, ratio, sum_known
from gsched.app.past_sources import Source
from gsched.app.waste import findings, wasted


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
            "jobs": [_job_document(job) for job in self.jobs],
            "rejects": self.num_rejects,
            "more": self.more,
        }


def _job_document(job: Efficiency) -> dict[str, Any]:
    last, waste = job.last, findings(job)
    gpu_s, cpu_s = wasted(waste)
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
        "submit_time": (job.earlier[0] if job.earlier else last).submit_time,
        "start_time": last.start_time,
        "end_time": last.end_time,
        "queueing_s": job.queueing_s,
        "elapsed_s": last.elapsed_s,
        "time_limit_s": job.time_limit_s,
        "unused_limit_s": job.unused_limit_s,
        "num_nodes": last.num_nodes,
        "num_cpus": last.num_cpus,
        "num_gpus": last.num_gpus,
        "gpu_types": dict(last.gpu_types),
        "cpu_time_s": job.cpu_time_s,
        "cpu_available_s": job.cpu_available_s,
        "cpu_efficiency": job.cpu_efficiency,
        "mem_used_bytes": job.mem_used_bytes,
        "mem_allocated_bytes": last.mem_bytes,
        "mem_efficiency": job.mem_efficiency,
        "mem_largest_task_bytes": job.mem_largest_task_bytes,
        "gpu_time_s": job.gpu_time_s,
        "gpu_util_percent": job.gpu_util_percent,
        "num_attempts": 1 + len(job.earlier),
        "lost_s": job.lost_s,
        "lost_gpu_time_s": job.lost_gpu_time_s,
        "wasted_gpu_time_s": gpu_s,
        "wasted_cpu_time_s": cpu_s,
        "waste": [asdict(finding) for finding in waste],
    }


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
        "cpu_efficiency": ratio(
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
        "lost_gpu_time_s": sum_known([job.lost_gpu_time_s for job in jobs]),
    }
