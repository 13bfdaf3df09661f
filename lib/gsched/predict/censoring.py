"""How long a history is against the time limits of its jobs.

A job that still runs is not in a history yet. While a history is shorter than the limits, those of
its jobs that have ended are the short ones, and what is learnt from them is too short and too sure.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gsched.model.history import PastJob
from gsched.predict.attributes import of_past

SHARE = 0.99
"""Of the jobs with a limit; the longest limit of all may be that of a single odd job."""


@dataclass(frozen=True, slots=True)
class HistorySpan:
    """From the first submission (`begin`, epoch) to the last end, `length_s` seconds.

    SHARE of the jobs with a time limit have one of `long_limit_s` or less; None: no job has one.
    """

    begin: int
    length_s: int
    long_limit_s: int | None

    @property
    def is_short(self) -> bool:
        """Whether jobs that run up to their limits can be absent from it."""
        return self.long_limit_s is not None and self.length_s < self.long_limit_s


def span_of(jobs: Sequence[PastJob]) -> HistorySpan:
    """The span of `jobs`, at least one."""
    begin = min(job.submit_time for job in jobs)
    limits = [limit for job in jobs if (limit := of_past(job).time_limit_s) is not None]
    return HistorySpan(
        begin=begin,
        length_s=max(job.end_time for job in jobs) - begin,
        long_limit_s=int(np.quantile(limits, SHARE, method="higher")) if limits else None,
    )
