"""Which job belongs to which side of a comparison: gsched acting, or a control without it.

A job belongs to the arm in which it was first submitted, and its whole time in the queue counts
there, also what lies beyond the times of that arm. To leave out those that wait on would leave out
the longest waits; to cut them off would make a queue that holds jobs back look short. The price is
a bias towards no difference: the other arm has moved them as well by then. Jobs that still wait
are kept aside, with how long so far (see ``impact_bounds``).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace

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

LEFT_OUT = ("outside", "other-partition", "held", "waiting", "never-started", "no-times")
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
    is_eligible: BoolColumn

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
            is_eligible=np.array([job.is_eligible for job in jobs], dtype=np.bool_),
        )

    def take(self, chosen: BoolColumn) -> Jobs:
        """Those of the jobs."""
        return Jobs(*(column[chosen] for column in vars(self).values()))

    def joined(self, *others: Jobs) -> Jobs:
        """These jobs and the others."""
        columns = zip(*(vars(jobs).values() for jobs in (self, *others)), strict=True)
        return Jobs(*map(np.concatenate, columns))

    def waited(self, queueing_s: FloatColumn) -> Jobs:
        """The same jobs, with other times in the queue."""
        return replace(self, queueing_s=queueing_s)

    def __len__(self) -> int:
        return len(self.first_submit)


@dataclass(frozen=True)
class Arm:
    """One side: its times, the jobs that count, and those that were submitted in it at all.

    Of those that count, `crossing` started only after the interval of the arm had ended in which
    they were submitted. Of the others, `waiting` may start and have neither started nor ended,
    `given_up` ended without a start, and of `untold` the time in the queue is not known.
    """

    name: str
    intervals: tuple[Interval, ...]
    counted: Jobs
    submitted: Jobs
    crossing: Jobs
    waiting: Jobs
    given_up: Jobs
    untold: Jobs

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
        goes_on = is_ours and (end > begin or goes_on)  # one round alone bridges no pause before it
    return tuple(found)


def assign(jobs: Jobs, sides: Sequence[Side]) -> Assigned:
    """Each job to at most one of the sides, which share no time and partition."""
    arms = []
    reason = np.full(len(jobs), "outside", dtype=f"<U{max(map(len, LEFT_OUT))}")
    counted_anywhere = np.zeros(len(jobs), dtype=np.bool_)
    why = _why_not(jobs)
    for side in sides:
        until = _until(jobs.first_submit, side.intervals)
        in_time, in_partition = ~np.isnan(until), side.has_partition(jobs)
        came = in_time & in_partition
        counted = came & (why == "")
        reason[in_time & ~in_partition & (reason == "outside")] = "other-partition"
        reason[came] = why[came]
        counted_anywhere |= counted
        arms.append(
            Arm(
                side.name,
                side.intervals,
                counted=jobs.take(counted),
                submitted=jobs.take(came),
                crossing=jobs.take(counted & (jobs.start_time > until)),
                waiting=jobs.take(came & (why == "waiting")),
                given_up=jobs.take(came & (why == "never-started")),
                untold=jobs.take(came & (why == "no-times")),
            )
        )
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


def _why_not(jobs: Jobs) -> NDArray[np.str_]:
    """Why a job that came in an arm does not count there, "" where it does."""
    started, ended = ~np.isnan(jobs.start_time), ~np.isnan(jobs.end_time)
    waiting = ~started & ~ended
    checks = (waiting & ~jobs.is_eligible, waiting, ~started, np.isnan(jobs.queueing_s))
    return np.select(checks, ("held", "waiting", "never-started", "no-times"), default="")
