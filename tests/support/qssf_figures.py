"""By what orders on a log are compared: waits by class of run time, shares of gains, bounds."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from gsched import resampling
from gsched.model.times import DAY_S
from gsched.sim.jobs import Floats, SimJobs
from gsched.sim.result import SimResult

CLASSES = {"short": (0.0, 900.0), "middle": (900.0, 6 * 3600.0), "long": (6 * 3600.0, np.inf)}
"""Run times from which to which, as in the paper on Helios."""
WEEK_S = 7 * DAY_S
LEAST_GAIN = 0.01


def figures(result: SimResult) -> dict[str, Any]:
    """JCT and queueing in seconds, of all jobs and by class."""
    jobs = result.jobs
    assert result.finished.all()
    told = {"path": result.path, **_means(result, np.ones(len(jobs), dtype=np.bool_))}
    told["by_class"] = {
        name: _means(result, (jobs.duration_s >= low) & (jobs.duration_s < high))
        for name, (low, high) in CLASSES.items()
    }
    return told


def _means(result: SimResult, chosen: NDArray[np.bool_]) -> dict[str, Any]:
    if not chosen.any():
        return {"jobs": 0}
    jct_s = (result.end_s - result.jobs.submit_s)[chosen]
    wait_s = (result.start_s - result.jobs.submit_s)[chosen]
    return {
        "jobs": int(chosen.sum()),
        "mean_jct_s": round(float(jct_s.mean()), 1),
        "mean_queueing_s": round(float(wait_s.mean()), 1),
        "median_queueing_s": float(np.median(wait_s)),
        "p99_queueing_s": float(np.quantile(wait_s, 0.99)),
        "largest_queueing_s": float(wait_s.max()),
    }


def has_queue(fifo: SimResult, oracle: SimResult) -> bool:
    """Whether there is something to gain: SJF's mean JCT is below FIFO's by LEAST_GAIN of it."""
    jct_s = fifo.end_s - fifo.jobs.submit_s
    return float((fifo.end_s - oracle.end_s).sum()) >= LEAST_GAIN * float(jct_s.sum())


def recovered(
    fifo: SimResult, oracle: SimResult, tried: SimResult, base: SimResult | None = None
) -> dict[str, Any]:
    """The share of what SJF with true run times saves of FIFO's mean JCT that `tried` saves.

    With `base` the share by which `tried` saves more than that.

    With an interval from weeks of submission drawn anew: jobs of one week wait for each other (and
    for those of the weeks before, of which it knows nothing). None where SJF saves too little.
    """
    gain_s, saved_s = fifo.end_s - oracle.end_s, (base or fifo).end_s - tried.end_s
    week = (fifo.jobs.submit_s // WEEK_S).astype(np.int64)
    weeks = np.unique(week)
    block = np.searchsorted(weeks, week)
    told: dict[str, Any] = {"jobs": len(gain_s), "weeks": len(weeks)}
    if not has_queue(fifo, oracle):
        return told | {"share": None, "low": None, "high": None}
    told["share"] = round(float(saved_s.sum() / gain_s.sum()), 4)
    low = high = None
    if len(weeks) >= resampling.MIN_DAYS:
        weights = resampling.draw(np.random.default_rng(resampling.SEED), len(weeks))
        gains, saved = (
            weights @ np.bincount(block, column, len(weeks)) for column in (gain_s, saved_s)
        )
        shares = np.full(len(gains), np.nan)
        np.divide(saved, gains, out=shares, where=gains > 0)
        low, high = resampling.interval(shares, resampling.expanded_tail(len(weeks)))
    return told | {
        name: None if value is None else round(value, 4)
        for name, value in (("low", low), ("high", high))
    }


def extra_waits(fifo: SimResult, tried: SimResult, bound_s: int) -> dict[str, Any]:
    """By how much jobs wait longer than under FIFO, against the bound.

    A job that begins to starve has before it who runs then and who starves since before: so it may
    wait for longer than the bound beyond FIFO, by the longest run of its pool on one machine.
    """
    jobs = tried.jobs
    extra_s = tried.start_s - fifo.start_s
    longest_s = np.zeros(len(tried.cluster.pools))
    np.maximum.at(longest_s, jobs.pool, jobs.duration_s)
    beyond = extra_s > bound_s + longest_s[jobs.pool]
    return {
        "bound_s": bound_s,
        "jobs": len(jobs),
        "longer": int((extra_s > 0).sum()),
        "beyond_bound": int((extra_s > bound_s).sum()),
        "beyond_bound_and_longest_run": int(beyond.sum()),
        "p99_extra_s": float(np.quantile(extra_s, 0.99)),
        "largest_extra_s": float(extra_s.max()),
        "longest_run_s": float(jobs.duration_s.max()),
    }


def overtakers(result: SimResult, bound_s: float) -> NDArray[np.int64]:
    """Rows of jobs that started in a pool while one that had waited longer starved there.

    Starving: waiting for more than `bound_s`, in whole seconds. Rows rise by submission.
    """
    found = []
    for pool in range(len(result.cluster.pools)):
        rows = np.flatnonzero(result.jobs.pool == pool)
        start_s = np.where(np.isnan(result.start_s[rows]), np.inf, result.start_s[rows])
        starves_s = np.floor(result.jobs.submit_s[rows]) + bound_s + 1
        last_start_s = np.concatenate(([-np.inf], np.maximum.accumulate(start_s)))
        ahead = np.minimum(np.searchsorted(starves_s, start_s, side="right"), np.arange(len(rows)))
        found.append(rows[(last_start_s[ahead] > start_s) & (start_s < np.inf)])
    return np.sort(np.concatenate(found))


def spearman(predicted_s: Floats, jobs: SimJobs) -> dict[str, Any]:
    """Rank correlation with the truth, of run times and of GPU-time, over the jobs predicted."""
    from gsched.predict.validation import rank_correlation

    known = ~np.isnan(predicted_s)
    actual_s, gpus = jobs.duration_s[known], jobs.num_gpus[known]
    return {
        "jobs": int(known.sum()),
        "run_time": round(float(rank_correlation(predicted_s[known], actual_s)), 4),
        "gpu_time": round(float(rank_correlation(predicted_s[known] * gpus, actual_s * gpus)), 4),
    }
