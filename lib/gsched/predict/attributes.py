"""What the estimators look at, taken alike from finished jobs and from live ones."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from gsched.model.history import PastJob
from gsched.model.job import UNLIMITED_S, JobState, JobView

SHORTEST_S = 1.0
"""Durations count as at least this, Slurm's clock tick, wherever a logarithm is taken."""

_ENDED_BY_CLUSTER = frozenset(
    {
        JobState.NODE_FAIL,
        JobState.BOOT_FAIL,
        JobState.PREEMPTED,
        JobState.REQUEUED,
        JobState.REVOKED,
    }
)


@dataclass(frozen=True, slots=True)
class JobAttributes:
    """What is known of a job when it is submitted. `name` is hostile text."""

    user: str
    tenant: str
    partition: str
    name: str
    num_gpus: int
    num_cpus: int
    num_nodes: int
    submit_time: int
    time_limit_s: int | None

    @property
    def num_units(self) -> int:
        """GPUs, or CPUs of a job without GPUs; at least 1."""
        return max(1, self.num_gpus or self.num_cpus)

    @property
    def size(self) -> str:
        """The GPU count, or the CPU count of a job without GPUs: ``gpu:4``, ``cpu:16``."""
        return f"gpu:{self.num_gpus}" if self.num_gpus > 0 else f"cpu:{self.num_cpus}"


def of_past(job: PastJob) -> JobAttributes:
    """The attributes of a finished job as they were when it was submitted."""
    return JobAttributes(
        user=job.user,
        tenant=job.tenant,
        partition=job.partition,
        name=job.name,
        num_gpus=job.num_gpus,
        num_cpus=job.num_cpus,
        num_nodes=job.num_nodes,
        submit_time=job.submit_time,
        time_limit_s=_limit(job.time_limit_s),
    )


def of_view(job: JobView) -> JobAttributes:
    """The attributes of a live job; of several partitions the first."""
    return JobAttributes(
        user=job.user,
        tenant=job.tenant,
        partition=job.partitions[0] if job.partitions else "",
        name=job.name,
        num_gpus=job.request.gpus.minimum,
        num_cpus=job.request.num_cpus,
        num_nodes=job.request.nodes.minimum,
        submit_time=job.first_submit,
        time_limit_s=_limit(job.time_limit_s),
    )


def select_jobs(jobs: Iterable[PastJob], as_of: int) -> tuple[list[PastJob], Counter[str]]:
    """The jobs to learn from, in the order in which they ended, and how many were left out why.

    Left out are jobs that ended at `as_of` or later, that never ran, whose times contradict each
    other, and whose end says nothing about the job because the cluster ended it.
    """
    kept: list[PastJob] = []
    left_out: Counter[str] = Counter()
    for job in jobs:
        reason = _unfit(job, as_of)
        if reason:
            left_out[reason] += 1
        else:
            kept.append(job)
    kept.sort(key=lambda j: (j.end_time, j.cluster, j.job_id, j.submit_time, j.start_time))
    return kept, left_out


def _unfit(job: PastJob, as_of: int) -> str:
    if job.end_time >= as_of:
        return "ended-later"
    if job.start_time <= 0:
        return "never-ran"
    if job.end_time < job.start_time:
        return "ended-before-start"
    if job.state in _ENDED_BY_CLUSTER:
        return "ended-by-cluster"
    return ""


def _limit(time_limit_s: int | None) -> int | None:
    return None if time_limit_s is None or time_limit_s >= UNLIMITED_S else time_limit_s
