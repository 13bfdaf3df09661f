"""How like two traces are: figures of each, and distances between their distributions."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gsched.synth.columns import UNTOLD, Ints, TraceJobs, previous_in
from gsched.synth.fit import BATCH_GAP_S
from gsched.synth.quantiles import Floats

_DAY_S = 86_400
_HOUR_S = 3_600


def facts(jobs: TraceJobs) -> dict[str, float | None]:
    """Figures of a trace; None where it does not tell. Shares are of all jobs that ran."""
    days = max(float(jobs.submit_s[-1] - jobs.submit_s[0]) / _DAY_S, 1 / 24)
    duration = jobs.duration_s
    gaps = np.diff(jobs.submit_s)
    hourly = np.bincount((jobs.submit_s - jobs.submit_s[0]) // _HOUR_S)
    told = {
        "jobs_a_day": len(jobs) / days,
        "device_hours_a_day": float((duration * jobs.size).sum()) / 3600 / days,
        "mean_size": float(jobs.size.mean()),
        "one_device_share": float((jobs.size == 1).mean()),
        "duration_mean_s": float(duration.mean()),
        **{f"duration_p{p}_s": float(np.percentile(duration, p)) for p in (10, 50, 90, 99)},
        **{f"gap_p{p}_s": float(np.percentile(gaps, p)) for p in (50, 90, 99)},
        "jobs_an_hour_cv": float(hourly.std() / hourly.mean()),
    }
    return {**_rounded(told), **_of_people(jobs)}


def _of_people(jobs: TraceJobs) -> dict[str, float | None]:
    """Figures of users, names and states."""
    told: dict[str, float | None] = {
        "num_users": None,
        "top_5pct_users_share": None,
        "recurring_share": None,
        "same_name_duration_correlation": None,
        "completed_share": None,
    }
    if jobs.tells_users:
        of_user = np.sort(np.bincount(jobs.user[jobs.user > UNTOLD]))[::-1]
        top = of_user[: max(1, round(0.05 * len(of_user)))]
        told["num_users"] = float(len(of_user))
        told["top_5pct_users_share"] = float(top.sum() / of_user.sum())
    if jobs.tells_users and jobs.tells_names:
        previous = previous_in(jobs.user, jobs.recipe)
        again = np.flatnonzero(previous > UNTOLD)
        told["recurring_share"] = len(again) / len(jobs)
        logs = np.log(jobs.duration_s)
        if len(again) > 2:
            pairs = np.corrcoef(logs[again], logs[previous[again]])
            told["same_name_duration_correlation"] = float(np.nan_to_num(pairs[0, 1]))
    if jobs.states:
        is_completed = np.array([word == "COMPLETED" for word in jobs.states])
        told["completed_share"] = float(is_completed[jobs.state].mean())
    return _rounded(told)


def _rounded(told: dict[str, float] | dict[str, float | None]) -> dict[str, float | None]:
    return {k: None if v is None else float(f"{v:.5g}") for k, v in told.items()}


def distances(first: TraceJobs, second: TraceJobs) -> dict[str, float]:
    """Distances of distributions, each between 0 (alike) and 1.

    Kolmogorov–Smirnov of run times, of GPU-time by run time, of the gaps between submissions and of
    the numbers of jobs an hour; total variation of sizes, pools, GPU-time by pool, and of the hours
    and weekdays at which batches begin.
    """
    begins = [_begins(jobs) for jobs in (first, second)]
    one, other = (jobs.duration_s * jobs.size for jobs in (first, second))
    return {
        "duration": _apart(first.duration_s, second.duration_s),
        "device_time_by_duration": _apart(first.duration_s, second.duration_s, one, other),
        "gap": _apart(_gaps(first), _gaps(second)),
        "jobs_an_hour": _apart(_jobs_an_hour(first), _jobs_an_hour(second)),
        "size": _variation(first.size, second.size),
        "pool": _variation(_pool_names(first), _pool_names(second)),
        "device_time_by_pool": _variation(_pool_names(first), _pool_names(second), one, other),
        "hour_of_day": _variation(begins[0] // _HOUR_S % 24, begins[1] // _HOUR_S % 24),
        "day_of_week": _variation(begins[0] // _DAY_S % 7, begins[1] // _DAY_S % 7),
    }


def _begins(jobs: TraceJobs) -> Ints:
    """When batches begin: jobs by the thousand of one user say nothing of a cluster's rhythm."""
    previous = previous_in(jobs.sender, jobs.size)
    is_first = (previous == UNTOLD) | (jobs.submit_s - jobs.submit_s[previous] > BATCH_GAP_S)
    begins: Ints = jobs.submit_s[is_first]
    return begins


def _gaps(jobs: TraceJobs) -> Floats:
    return np.diff(jobs.submit_s).astype(np.float64)


def _jobs_an_hour(jobs: TraceJobs) -> Floats:
    return np.bincount((jobs.submit_s - jobs.submit_s[0]) // _HOUR_S).astype(np.float64)


def _pool_names(jobs: TraceJobs) -> NDArray[np.str_]:
    return np.array(jobs.pools)[jobs.pool]


def _apart(
    first: Floats, second: Floats, weight: Floats | None = None, other: Floats | None = None
) -> float:
    """The greatest difference of two distribution functions, of weights where they are given."""
    places = np.unique(np.concatenate((first, second)))
    return float(
        np.abs(_share_upto(places, first, weight) - _share_upto(places, second, other)).max()
    )


def _share_upto(places: Floats, values: Floats, weight: Floats | None) -> Floats:
    order = np.argsort(values, kind="stable")
    weights = np.ones(len(values)) if weight is None else weight[order]
    upto = np.concatenate(([0.0], np.cumsum(weights)))
    found: Floats = upto[np.searchsorted(values[order], places, side="right")] / upto[-1]
    return found


def _variation(
    first: NDArray[np.generic],
    second: NDArray[np.generic],
    weight: Floats | None = None,
    other: Floats | None = None,
) -> float:
    """Half the sum of the differences of the shares of each value."""
    kinds, codes = np.unique(np.concatenate((first, second)), return_inverse=True)
    parts = codes[: len(first)], codes[len(first) :]
    shares = [
        np.bincount(part, weights, minlength=len(kinds))
        for part, weights in zip(parts, (weight, other), strict=True)
    ]
    return float(np.abs(shares[0] / shares[0].sum() - shares[1] / shares[1].sum()).sum() / 2)
