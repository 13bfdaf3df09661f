"""Which job belongs to which side of a comparison: gsched acting, or a control without it.

A job belongs to an arm when its whole wait, from the first submit to the start, lies in times of
that arm. One whose wait began in one arm and ended outside it belongs to none and is counted as
such: what moved it is not known.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from gsched.model.impact import JobWait
from gsched.model.journal import DaemonSpan

ACTING_MODES = frozenset({"act"})
OBSERVING_MODES = frozenset({"observe", "control"})
"""Modes without gsched. Frozen times are neither (its values stand), nor are halted ones and those
of the kill switch: somebody had a reason for them."""

BRIDGE_S = 3600
"""Two spans of one arm that are no further apart are one: the daemon was started anew."""

LEFT_OUT = ("outside", "other-partition", "waiting", "never-started", "no-times", "straddles")
"""Why a job is counted in no arm, in the order in which it is asked."""

FloatColumn = NDArray[np.float64]
IntColumn = NDArray[np.int64]
BoolColumn = NDArray[np.bool_]
Interval = tuple[int, int]


@dataclass(frozen=True)
class Jobs:
    """Jobs by column, by their first submit; NaN = not known, or not yet."""

    first_submit: IntColumn
    start_time: FloatColumn
    end_time: FloatColumn
    queueing_s: FloatColumn
    duration_s: FloatColumn
    num_gpus: FloatColumn
    gpu_time_s: FloatColumn
    partition: NDArray[np.str_]

    @classmethod
    def of(cls, jobs: Sequence[JobWait]) -> Jobs:
        """The same jobs by column."""

        def floats(name: str) -> FloatColumn:
            return np.array([getattr(job, name) for job in jobs], dtype=np.float64)  # None: NaN

        return cls(
            first_submit=np.array([job.first_submit for job in jobs], dtype=np.int64),
            start_time=floats("start_time"),
            end_time=floats("end_time"),
            queueing_s=floats("queueing_s"),
            duration_s=floats("duration_s"),
            num_gpus=floats("num_gpus"),
            gpu_time_s=floats("gpu_time_s"),
            partition=np.array([job.partition for job in jobs], dtype=np.str_),
        )

    def take(self, chosen: BoolColumn) -> Jobs:
        """Those of the jobs."""
        return Jobs(*(column[chosen] for column in vars(self).values()))

    def __len__(self) -> int:
        return len(self.first_submit)


@dataclass(frozen=True)
class Arm:
    """One side: its times, the jobs that count, and those that were submitted in it at all."""

    name: str
    intervals: tuple[Interval, ...]
    counted: Jobs
    submitted: Jobs

    @property
    def length_s(self) -> int:
        """How long the arm lasted in all."""
        return sum(end - begin for begin, end in self.intervals)


@dataclass(frozen=True, slots=True)
class Side:
    """What an arm is made of: times, and the partitions of its jobs (`outside`: all but these)."""

    name: str
    intervals: tuple[Interval, ...]
    partitions: frozenset[str] = frozenset()
    outside: bool = True

    def has_partition(self, jobs: Jobs) -> BoolColumn:
        """Which jobs are in the partitions of this side."""
        named = np.isin(jobs.partition, sorted(self.partitions))
        return ~named if self.outside else named


@dataclass(frozen=True)
class Assigned:
    """The arms, and how many jobs were left out of them all, by reason."""

    arms: tuple[Arm, ...]
    left_out: dict[str, int] = field(default_factory=dict)


def intervals(
    spans: Sequence[DaemonSpan], modes: Collection[str], since: int | None, until: int | None
) -> tuple[Interval, ...]:
    """The times of these modes within [since, until), oldest first."""
    found: list[Interval] = []
    goes_on = False
    for span in spans:
        is_ours = span.mode in modes
        begin = span.begin_time if since is None else max(span.begin_time, since)
        end = span.end_time if until is None else min(span.end_time, until)
        if is_ours and end > begin:
            if goes_on and begin - found[-1][1] <= BRIDGE_S:
                found[-1] = (found[-1][0], end)
            else:
                found.append((begin, end))
        goes_on = is_ours and bool(found)
    return tuple(found)


def assign(jobs: Jobs, sides: Sequence[Side]) -> Assigned:
    """Each job to at most one of the sides, which share no time and partition."""
    arms = []
    reason = np.full(len(jobs), "outside", dtype=f"<U{max(map(len, LEFT_OUT))}")
    counted_anywhere = np.zeros(len(jobs), dtype=np.bool_)
    for side in sides:
        until = _until(jobs.first_submit, side.intervals)
        in_time, in_partition = ~np.isnan(until), side.has_partition(jobs)
        came = in_time & in_partition
        why = _why_not(jobs, until)
        counted = came & (why == "")
        reason[in_time & ~in_partition & (reason == "outside")] = "other-partition"
        reason[came] = why[came]
        counted_anywhere |= counted
        arms.append(Arm(side.name, side.intervals, jobs.take(counted), jobs.take(came)))
    left = reason[~counted_anywhere]
    return Assigned(tuple(arms), {name: int((left == name).sum()) for name in LEFT_OUT})


def _until(moments: IntColumn, times: Sequence[Interval]) -> FloatColumn:
    """The end of the interval in which each moment lies, NaN where it lies in none."""
    if not times:
        return np.full(len(moments), np.nan)
    begins = np.array([begin for begin, _ in times])
    ends = np.array([end for _, end in times], dtype=np.float64)
    place = np.searchsorted(begins, moments, side="right") - 1
    until = np.where(place >= 0, ends[place], np.nan)
    return np.where(moments < until, until, np.nan)


def _why_not(jobs: Jobs, until: FloatColumn) -> NDArray[np.str_]:
    """Why a job that came in an arm does not count there, "" where it does."""
    started, ended = ~np.isnan(jobs.start_time), ~np.isnan(jobs.end_time)
    checks = (
        ~started & ~ended,
        ~started,
        np.isnan(jobs.queueing_s),
        jobs.start_time > until,
    )
    return np.select(checks, ("waiting", "never-started", "no-times", "straddles"), default="")
