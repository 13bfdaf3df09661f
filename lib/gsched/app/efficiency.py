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
        return ratio(self.cpu_time_s, self.cpu_available_s)

    @property
    def mem_efficiency(self) -> float | None:
        """Memory used of that which was allocated."""
        return ratio(self.mem_used_bytes, self.last.mem_bytes)

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
        return sum_known([_gpu_time_s(attempt) for attempt in self.earlier])


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


def exit_words(record: UsageRecord) -> str | None:
    """What the exit code means; None while there is none, and of a job that never ran."""
    if record.exit_code is None or not record.state.is_terminal or record.start_time is None:
        return None
    return ExitCode(record.exit_code, record.exit_signal or 0).words


def _gpu_time_s(attempt: UsageRecord) -> int | None:
    return None if attempt.num_gpus is None else attempt.num_gpus * attempt.elapsed_s


def ratio(part: float | None, whole: float | None) -> float | None:
    """The share; None where a part of it is not known, or the whole is nothing."""
    return None if part is None or not whole else part / whole


def sum_known(values: Sequence[int | None]) -> int | None:
    """The sum, None when one is not known."""
    return None if None in values else sum(v for v in values if v is not None)


def _most(values: Iterable[int | None]) -> int | None:
    return max((v for v in values if v is not None), default=None)
