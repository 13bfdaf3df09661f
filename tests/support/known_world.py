"""Worlds in which the truth about starts is known, to judge forecasts and their judges by.

One machine of one unit serves jobs in the order of their submission. Run times are log-normal,
with one median for each of two users: their quantiles are known exactly, so a forecast made with
them must keep what it promises.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from gsched.model.history import PastJob
from gsched.model.job import JobState
from gsched.predict.rolling import QUANTILES
from support.forecast_log import ReplayLog

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

ORIGIN = 1_000_000_000
MEDIANS_S = (100.0, 2_000.0)
"""Of the run times of each user."""

SPREAD = 0.8
"""Standard deviation of ln(run time)."""


def one_server(num_jobs: int, seed: int, load: float = 0.95) -> ReplayLog:
    """A queue for one machine; `load` is the share of time for which it works."""
    random = np.random.default_rng(seed)
    user = random.integers(0, len(MEDIANS_S), num_jobs)
    run_s = np.ceil(np.take(MEDIANS_S, user) * np.exp(SPREAD * random.standard_normal(num_jobs)))
    mean_run_s = np.mean(MEDIANS_S) * np.exp(SPREAD**2 / 2)
    gap_s = random.exponential(mean_run_s / load, num_jobs)
    submit = ORIGIN + np.cumsum(np.ceil(gap_s))
    start = np.empty(num_jobs)
    free_at = 0.0
    for row in range(num_jobs):
        start[row] = max(free_at, submit[row])
        free_at = start[row] + run_s[row]
    return world(submit, start, start + run_s, user)


def world(submit: Floats, start: Floats, end: Floats, user: Ints) -> ReplayLog:
    """Jobs of one unit without limits on one unit, first come, first served."""
    times = np.stack((submit, start, end, user), axis=1).astype(np.int64)
    jobs = [_job(row, *each) for row, each in enumerate(times.tolist())]
    ones = np.ones(len(jobs), dtype=np.int64)
    return ReplayLog(
        name="world",
        starts="recorded",
        jobs=tuple(jobs),
        submit=submit,
        start=start,
        end=end,
        units=ones,
        user=user,
        limit_s=np.full(len(jobs), np.nan),
        key=submit,
        node_units=1,
        num_nodes=1,
    )


def true_quantiles(log: ReplayLog, spread: float = SPREAD) -> Floats:
    """Of the run times of `one_server`, a row a job; with another `spread` they are wrong."""
    factors = np.exp(spread * ndtri(np.array(QUANTILES)))
    quantiles_s: Floats = np.take(MEDIANS_S, log.user)[:, None] * factors
    return quantiles_s


def _job(row: int, submit: int, start: int, end: int, user: int) -> PastJob:
    return PastJob(
        cluster="world",
        job_id=row + 1,
        submit_time=submit,
        start_time=start,
        end_time=end,
        user=f"u{user}",
        tenant="",
        partition="",
        name="",
        num_gpus=1,
        num_cpus=0,
        num_nodes=0,
        time_limit_s=None,
        state=JobState.COMPLETED,
    )
