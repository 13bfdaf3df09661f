"""What the estimators look at, taken alike from finished jobs and from live ones."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from gsched.model.history import PastJob
from gsched.model.job import UNLIMITED_S, JobState, JobView

SHORTEST_S = 1.0
"""Durations count as at least this, Slurm's clock tick, wherever a logarithm is taken."""

GPU, CPU = "gpu", "cpu"
KINDS = (GPU, CPU)
"""Jobs with GPUs and jobs without; each kind has a regression, a λ and a calibration of its own."""

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
    """What is known of a job when it is submitted; None = it is not known. `name` is hostile text.

    A job of which nobody knows whether it has GPUs counts as one without.
    """

    user: str
    tenant: str
    partition: str
    name: str
    num_gpus: int
    num_cpus: int | None
    num_nodes: int | None
    submit_time: int
    time_limit_s: int | None

    @property
    def kind(self) -> str:
        """``gpu`` or ``cpu``, see KINDS."""
        return GPU if self.num_gpus > 0 else CPU

    @property
    def num_units(self) -> int:
        """GPUs, or CPUs of a job without GPUs; at least 1."""
        return max(1, self.num_gpus or self.num_cpus or 1)

    @property
    def size(self) -> str:
        """The GPU count, or the CPU count of a job without GPUs: ``gpu:4``, ``cpu:16``."""
        if self.num_gpus > 0:
            return f"gpu:{self.num_gpus}"
        return f"cpu:{'?' if self.num_cpus is None else self.num_cpus}"

    def within_limit(self, seconds: float) -> float:
        """`seconds`, or the time limit if that is shorter: at its limit Slurm ends a job."""
        return seconds if self.time_limit_s is None else min(seconds, float(self.time_limit_s))


def of_past(job: PastJob) -> JobAttributes:
    """The attributes of a finished job as they were when it was submitted."""
    return JobAttributes(
        user=job.user,
        tenant=job.tenant,
        partition=job.partition,
        name=job.name,
        num_gpus=job.num_gpus or 0,
        num_cpus=job.num_cpus or None,
        num_nodes=job.num_nodes or None,
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
        num_cpus=job.request.num_cpus or None,
        num_nodes=job.request.nodes.minimum or None,
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
    kept.sort(key=_place)
    return kept, left_out


def _place(job: PastJob) -> tuple[int | str, ...]:
    """Total, so that the same jobs always come in the same order."""
    part = (-1 if n is None else n for n in (job.array_task, job.het_offset))
    return (job.end_time, job.cluster, job.job_id, *part, job.submit_time, job.start_time)


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
    """None for no limit, and for one that is none: nothing runs for no time."""
    if time_limit_s is None or not 0 < time_limit_s < UNLIMITED_S:
        return None
    return time_limit_s
