"""What the accounts are made of: stretches of time in which jobs asked for GPUs, and held some.

Times are seconds on any one clock, GPUs may be weighted by their worth. Which stretch comes first
in a column never matters, and what is told twice counts once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gsched.model.jobtable import FloatColumn, IntColumn


@dataclass(frozen=True, eq=False)
class Stretches:
    """Times in which jobs (by code) asked for, or held, so many GPUs each: from begin to end.

    Several of one job are its attempts. Where they overlap, as after a clock that went back or a
    source that was read twice, the one that began first counts; of those, the one that ended first.
    """

    job: IntColumn
    begin_s: FloatColumn
    end_s: FloatColumn
    gpus: FloatColumn

    def disjoint(self) -> Stretches:
        """In order of job and time, no two of a job at once, none of no length."""
        order = np.lexsort((self.gpus, self.end_s, self.begin_s, self.job))
        job, end = self.job[order], self.end_s[order]
        begin = self.begin_s[order].copy()
        same = job[1:] == job[:-1]
        if (same & (begin[1:] < end[:-1])).any():
            reached, last = -np.inf, -1
            for row, (code, finish) in enumerate(zip(job.tolist(), end.tolist(), strict=True)):
                reached = reached if code == last else -np.inf
                begin[row] = max(begin[row], reached)
                reached, last = max(reached, finish), code
        kept = begin < end
        return Stretches(job[kept], begin[kept], end[kept], self.gpus[order][kept])

    def within(self, begin_s: float, end_s: float) -> Stretches:
        """What of them lies in a window."""
        begin, end = np.maximum(self.begin_s, begin_s), np.minimum(self.end_s, end_s)
        kept = begin < end
        return Stretches(self.job[kept], begin[kept], end[kept], self.gpus[kept])

    def of(self, rows: IntColumn) -> Stretches:
        """Some of them."""
        return Stretches(self.job[rows], self.begin_s[rows], self.end_s[rows], self.gpus[rows])


@dataclass(frozen=True, eq=False)
class Quotas:
    """From when on each tenant (by code) has how many GPUs as its quota; none before the first.

    Of two that begin at once the greater counts.
    """

    tenant: IntColumn
    since_s: FloatColumn
    gpus: FloatColumn

    @classmethod
    def fixed(cls, gpus: Sequence[float] | FloatColumn) -> Quotas:
        """One for each tenant, for ever."""
        count = len(gpus)
        return cls(np.arange(count), np.full(count, -np.inf), np.asarray(gpus, dtype=np.float64))

    def of(self, tenant: int) -> tuple[FloatColumn, FloatColumn]:
        """Since when, rising, and how many GPUs from then on; of equal times the last counts."""
        rows = np.flatnonzero(self.tenant == tenant)
        order = rows[np.lexsort((self.gpus[rows], self.since_s[rows]))]
        return self.since_s[order], self.gpus[order]

    def at(self, time_s: float, tenants: int) -> FloatColumn:
        """The quotas in force at a time, of so many tenants by code; 0: none (yet)."""
        found = np.zeros(tenants)
        for tenant in range(tenants):
            since, gpus = self.of(tenant)
            found[tenant] = np.concatenate(([0.0], gpus))[np.searchsorted(since, time_s, "right")]
        return found


@dataclass(frozen=True, eq=False)
class Books:
    """All that is known. `tenant` and `weight` go by job code, codes of tenants by `tenants`.

    `asked` is when a job waited or ran, `held` when it had its GPUs. A tenant's quota is shared by
    its active jobs by their weights.
    """

    tenants: tuple[str, ...]
    tenant: IntColumn
    weight: FloatColumn
    asked: Stretches
    held: Stretches
    quotas: Quotas


class Steps:
    """Values that hold from one moment to the next, and integrals over them."""

    def __init__(self, moments_s: FloatColumn) -> None:
        self.moments_s = np.unique(moments_s)
        self.lengths_s = np.diff(self.moments_s)

    def level(self, stretches: Stretches, value: FloatColumn) -> FloatColumn:
        """After each moment but the last: the sum of the values of the stretches that go on."""
        jumps = np.zeros(len(self.moments_s))
        np.add.at(jumps, self.place(stretches.begin_s), value)
        np.subtract.at(jumps, self.place(stretches.end_s), value)
        levels: FloatColumn = np.cumsum(jumps)[:-1]
        return np.maximum(levels, 0.0)  # below 0 by rounding alone

    def latest(self, since_s: FloatColumn, value: FloatColumn) -> FloatColumn:
        """After each moment but the last: the value that began last; 0 before the first."""
        at = np.searchsorted(since_s, self.moments_s[:-1], side="right")
        known: FloatColumn = np.concatenate(([0.0], value))[at]
        return known

    def reached(self, rate: FloatColumn) -> FloatColumn:
        """∫ rate from the first moment to each."""
        total: FloatColumn = np.concatenate(([0.0], np.cumsum(rate * self.lengths_s)))
        return total

    def place(self, times_s: FloatColumn) -> IntColumn:
        """Of times that are among the moments."""
        return np.searchsorted(self.moments_s, times_s).astype(np.int64)


def sums(code: IntColumn, value: FloatColumn, count: int) -> FloatColumn:
    """The sum of the values of each of `count` codes."""
    return np.bincount(code, weights=value, minlength=count).astype(np.float64)


def ratio(received: FloatColumn, entitled: FloatColumn) -> FloatColumn:
    """Received over entitled; NaN where that is nothing."""
    found = np.full(len(entitled), np.nan)
    np.divide(received, entitled, out=found, where=entitled > 0)
    return found
