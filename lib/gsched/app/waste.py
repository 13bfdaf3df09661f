"""What a job wasted, and why, in words; from figures that are known, never from ones that are not.

A finding says over what it is: GPU-time and CPU-time in seconds of what was allocated. Findings of
one attempt overlap (a job that failed may have idled as well), so that `wasted` takes the greatest.
Time that a failed or requeued attempt took is lost unless the job goes on from a checkpoint, which
Slurm does not know.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from gsched.app.efficiency import Efficiency
from gsched.explain.words import count, percent, short_time, size
from gsched.model.job import JobState
from gsched.model.usage_groups import FAILED_STATES

LONG_S = 600
"""Shorter runs and gaps than this are not judged by how busy they were."""

LOW_SHARE = 0.5
"""Of GPUs, and of CPUs where there are no GPUs, less use than this is told."""

NOTHING_SHARE = 0.01
"""A job with GPUs that used less than this of its CPUs seems to have done nothing."""

LOW_MEMORY = 0.25
SMALL_MEMORY = 2**30
SPARE = 1.25
"""What is advised: the largest use, and a quarter more."""

LOW_LIMIT = 0.25
SHORT_LIMIT_S = 3600

_NO_WORK = frozenset({"extern", "interactive"})
"""Steps that hold an allocation and are no work: the place for prologues, and a shell."""


@dataclass(frozen=True, slots=True)
class Waste:
    """One finding: its `code` for programs, what it is over (None: not known, or none of it)."""

    code: str
    words: str
    gpu_time_s: float | None = None
    cpu_time_s: float | None = None


def findings(job: Efficiency) -> tuple[Waste, ...]:
    """What was wasted, as far as Slurm's figures tell; the gravest kind first."""
    if job.last.start_time is None:
        return tuple(_requeued(job))
    parts = (_failed, _requeued, _idle_allocation, _idle_gpus, _idle_cpus, _memory, _time_limit)
    return tuple(finding for part in parts for finding in part(job))


def wasted(found: tuple[Waste, ...]) -> tuple[float, float]:
    """GPU-seconds and CPU-seconds wasted at least, what overlaps counted once."""
    earlier = [w for w in found if w.code == "requeued"]
    last = [w for w in found if w.code != "requeued"]
    gpu, cpu = ([w.gpu_time_s or 0.0 for w in last], [w.cpu_time_s or 0.0 for w in last])
    return (
        sum(w.gpu_time_s or 0.0 for w in earlier) + max(gpu, default=0.0),
        sum(w.cpu_time_s or 0.0 for w in earlier) + max(cpu, default=0.0),
    )


def _failed(job: Efficiency) -> Iterator[Waste]:
    last = job.last
    took = f"{short_time(last.elapsed_s)}{_gpu_hours(job.gpu_time_s)}"
    if not last.elapsed_s:
        return
    if last.state in FAILED_STATES:
        yield Waste(
            "failed",
            f"it ended in {last.state.value} after {took}: lost, unless it saved its work",
            job.gpu_time_s,
            job.cpu_available_s,
        )
    elif last.state is JobState.CANCELLED:
        # Whoever cancels a job may have got from it what they wanted: told, and not counted.
        yield Waste("cancelled", f"cancelled after {took}: what it had not saved is lost")


def _requeued(job: Efficiency) -> Iterator[Waste]:
    if not job.earlier:
        return
    states = Counter(attempt.state.value for attempt in job.earlier)
    ends = ", ".join(f"{number} {state}" for state, number in states.items())
    yield Waste(
        "requeued",
        f"{short_time(job.lost_s)}{_gpu_hours(job.lost_gpu_time_s)} in "
        f"{count(len(job.earlier), 'earlier attempt')} ({ends}), unless it went on from a "
        "checkpoint",
        job.lost_gpu_time_s,
        sum(attempt.num_cpus * attempt.elapsed_s for attempt in job.earlier),
    )


def _idle_allocation(job: Efficiency) -> Iterator[Waste]:
    """Time in which no step ran: at least that by which all steps together are too short."""
    last = job.last
    steps = [step for step in last.steps if step.name not in _NO_WORK]
    if not last.steps or any(step.elapsed_s is None for step in steps):
        return
    idle_s = last.elapsed_s - sum(step.elapsed_s or 0 for step in steps)
    if idle_s < LONG_S or idle_s < last.elapsed_s / 10:
        return
    share = idle_s / last.elapsed_s
    yield Waste(
        "idle-allocation",
        f"no step ran for {short_time(idle_s)} of {short_time(last.elapsed_s)}: the allocation was "
        "held without work",
        None if job.gpu_time_s is None else job.gpu_time_s * share,
        job.cpu_available_s * share,
    )


def _idle_gpus(job: Efficiency) -> Iterator[Waste]:
    if job.gpu_util_percent is None or not job.gpu_time_s or job.last.elapsed_s < LONG_S:
        return
    used = min(1.0, job.gpu_util_percent / 100)
    if used < LOW_SHARE:
        idle_s = job.gpu_time_s * (1 - used)
        yield Waste(
            "gpu",
            f"its GPUs were {percent(used)} utilised: {idle_s / 3600:.3g} of "
            f"{job.gpu_time_s / 3600:.3g} GPU-hours idle",
            gpu_time_s=idle_s,
        )


def _idle_cpus(job: Efficiency) -> Iterator[Waste]:
    share, last = job.cpu_efficiency, job.last
    if share is None or last.elapsed_s < LONG_S:
        return
    idle_s = job.cpu_available_s * (1 - min(1.0, share))
    if last.num_gpus:
        if share < NOTHING_SHARE and job.gpu_util_percent is None:
            yield Waste(
                "cpu",
                f"it used {short_time(job.cpu_time_s or 0)} of CPU time in "
                f"{short_time(last.elapsed_s)}: it seems to have done nothing",
                job.gpu_time_s,
                idle_s,
            )
    elif share < LOW_SHARE:
        yield Waste(
            "cpu",
            f"it used {percent(share)} of {count(last.num_cpus, 'CPU')}"
            + (f": {_enough(share * last.num_cpus)} would do" if last.num_cpus > 1 else ""),
            cpu_time_s=idle_s,
        )


def _enough(cpus: float) -> str:
    return count(max(1, round(cpus * SPARE + 0.5)), "CPU")


def _memory(job: Efficiency) -> Iterator[Waste]:
    share, allocated = job.mem_efficiency, job.last.mem_bytes or 0
    if share is None or share >= LOW_MEMORY or allocated < SMALL_MEMORY:
        return
    used = job.mem_used_bytes or 0
    yield Waste(
        "memory",
        f"it used {size(used)} of {size(allocated)} of memory: {size(int(used * SPARE))} would do",
    )


def _time_limit(job: Efficiency) -> Iterator[Waste]:
    unused_s, limit_s = job.unused_limit_s, job.time_limit_s
    if job.last.state is not JobState.COMPLETED or unused_s is None or not limit_s:
        return
    if unused_s >= SHORT_LIMIT_S and job.last.elapsed_s < LOW_LIMIT * limit_s:
        yield Waste(
            "time-limit",
            f"it needed {short_time(job.last.elapsed_s)} of the time limit {short_time(limit_s)}: "
            "with a shorter one backfill starts it earlier",
        )


def _gpu_hours(gpu_time_s: float | None) -> str:
    return f", {gpu_time_s / 3600:.3g} GPU-hours" if gpu_time_s else ""
