"""A day in minutes: a clock that runs faster, and jobs that come as people's do, by the hour.

Times of this day are epoch seconds of a calendar of its own, *virtual* ones, in UTC; a real second
is many of them. Jobs take whole nodes. All depends on the seed alone.
"""

from __future__ import annotations

import heapq
import math
import random
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

HOUR_S = 3600
DAY_S = 24 * HOUR_S


@dataclass(frozen=True, slots=True)
class CompressedClock:
    """`scale` virtual seconds a real one; at the real time `real_start` it was `virtual_start`."""

    virtual_start: int
    real_start: float
    scale: float

    def now(self) -> float:
        return self.virtual(time.time())

    def virtual(self, real: float) -> float:
        """What this clock shows, or showed, at a real time: Slurm's epoch seconds, for example."""
        return self.virtual_start + (real - self.real_start) * self.scale

    def real(self, virtual: float) -> float:
        """When this clock shows `virtual`."""
        return self.real_start + (virtual - self.virtual_start) / self.scale


@dataclass(frozen=True, slots=True)
class DayJob:
    """A job of `nodes` whole nodes for `duration_s`, submitted at `submit` (virtual seconds)."""

    number: int
    submit: int
    nodes: int
    duration_s: int


@dataclass(frozen=True, slots=True)
class Ran:
    """A job, when it started, and the numbers of its nodes (from 0)."""

    job: DayJob
    start: int
    nodes: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Pattern:
    """How many jobs come an hour at the busiest time, and what they are like."""

    jobs_an_hour: float = 5.5
    median_s: float = 1.0 * HOUR_S
    spread: float = 0.8
    """Standard deviation of ln(duration)."""
    shortest_s: float = 0.25 * HOUR_S
    longest_s: float = 8.0 * HOUR_S
    widths: tuple[int, ...] = (1, 2, 4)
    shares: tuple[float, ...] = (0.75, 0.18, 0.07)

    def rate(self, moment: float) -> float:
        """Jobs an hour at a moment: few by night, many by day, fewer at weekends."""
        at = datetime.fromtimestamp(moment, UTC)
        hour = at.hour + at.minute / 60
        rise = 1 / (1 + math.exp(-2.5 * (hour - 9)))  # people come around nine
        fall = 1 / (1 + math.exp(1.2 * (hour - 18.5)))  # and go around half past six
        share = 0.08 + 0.92 * rise * fall
        return self.jobs_an_hour * share * (0.25 if at.weekday() >= 5 else 1.0)


def make_jobs(seed: int, since: int, until: int, pattern: Pattern | None = None) -> list[DayJob]:
    """The jobs of a time, by when they are submitted."""
    pattern = pattern or Pattern()
    rng = random.Random(seed)  # a workload, not a secret
    jobs: list[DayJob] = []
    moment = float(since)
    while (moment := moment + rng.expovariate(pattern.jobs_an_hour / HOUR_S)) < until:
        if rng.random() * pattern.jobs_an_hour > pattern.rate(moment):
            continue
        duration_s = pattern.median_s * math.exp(rng.gauss(0.0, pattern.spread))
        jobs.append(
            DayJob(
                len(jobs),
                int(moment),
                rng.choices(pattern.widths, pattern.shares)[0],
                round(min(max(duration_s, pattern.shortest_s), pattern.longest_s)),
            )
        )
    return jobs


def run_at_once(jobs: Sequence[DayJob], num_nodes: int) -> Iterator[Ran]:
    """The jobs on nodes that never sleep, one after the other: the first that are free."""
    ends: list[tuple[int, tuple[int, ...]]] = []
    free, now = list(range(num_nodes)), 0
    for job in jobs:
        now = max(now, job.submit)
        while ends and (ends[0][0] <= now or len(free) < job.nodes):
            end, nodes = heapq.heappop(ends)
            now = max(now, end)
            free = sorted([*free, *nodes])
        taken, free = tuple(free[: job.nodes]), free[job.nodes :]
        heapq.heappush(ends, (now + job.duration_s, taken))
        yield Ran(job, now, taken)
