"""Whether forecasts knew what had not happened yet.

Everything of a log that happens at `at` or later is changed: jobs are submitted, start and end
later, and are others. A forecast made before `at` that comes out otherwise has seen the future.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from support.forecast_log import ReplayLog
from support.forecast_scores import Judged

LATER_S = 5_000


def changed_from(log: ReplayLog, at: float) -> ReplayLog:
    """The log with another future from `at` on; its past is the same."""
    random = np.random.default_rng(3)
    moved_s = LATER_S + random.integers(1, LATER_S, (2, len(log))).astype(np.float64)
    is_new = log.submit >= at
    submit = np.where(is_new, log.submit + LATER_S, log.submit)
    start = np.where(log.start >= at, log.start + moved_s[0], log.start)
    end = np.where(log.end >= at, log.end + start - log.start + moved_s[1], log.end)
    jobs = [
        replace(
            job,
            submit_time=int(submit[row]),
            start_time=int(start[row]),
            end_time=int(end[row]),
            name="unheard of" if is_new[row] else job.name,
        )
        for row, job in enumerate(log.jobs)
    ]
    key = np.where(is_new, submit, log.key)
    return replace(log, jobs=tuple(jobs), submit=submit, start=start, end=end, key=key)


def seers(log: ReplayLog, at: float, run: Callable[[ReplayLog], Judged]) -> NDArray[np.int64]:
    """The forecasts made before `at`, by number, that another future has changed."""
    as_it_was, otherwise = run(log), run(changed_from(log, at))
    before = as_it_was.as_of < at
    told = [_told(judged)[:, before] for judged in (as_it_was, otherwise)]
    differs = ~((told[0] == told[1]) | (np.isnan(told[0]) & np.isnan(told[1]))).all(axis=0)
    return np.flatnonzero(differs)


def _told(judged: Judged) -> NDArray[np.float64]:
    """All that was said of each forecast's job, a column a forecast."""
    bounds = [judged.low, judged.high, judged.raw_low, judged.raw_high]
    return np.stack([*bounds, judged.ahead.astype(float), judged.learnt, *judged.expected.values()])
