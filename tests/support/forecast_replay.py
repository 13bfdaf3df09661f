"""A log replayed: forecasts at sampled submissions, each from what was known then, and the truth.

Run times are predicted as the daemon does (``gsched.predict.walk``: refits every week, nothing that
ended at or after a submission), the interval is corrected by earlier forecasts whose truth was
known by then. The first fifth of the log only teaches.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from gsched.errors import DataError
from gsched.forecast.calibration import Calibration, PastForecast
from gsched.forecast.forecast import ForwardRun
from gsched.forecast.outlook import Change, ForecastOptions, Interval
from gsched.forecast.situation import Situation
from gsched.predict.rolling import QUANTILES
from gsched.predict.walk import WalkOptions, walk
from support import forecast_naive
from support.forecast_log import ReplayLog
from support.forecast_order import SUBMISSION
from support.forecast_scores import DAY_S, FORECAST, WEEK_S, Judged
from support.forecast_state import Known, Situations

Floats = NDArray[np.float64]
Rows = NDArray[np.int64]

TEACHES = 0.2
SEED = 11
UNCORRECTED = "uncorrected"
BY_LIMITS = "time-limits"


@dataclass(frozen=True, slots=True)
class Told:
    """What is said of one start: the interval before correction, and what other methods expect."""

    raw: Interval
    expected: dict[str, float]


Forecaster = Callable[[Known], Told]


def judged_rows(log: ReplayLog, a_week: int, least: int = 0) -> Rows:
    """Rows of the submissions at which forecasts are made: `a_week` drawn in each week after the
    first fifth of the jobs (all, where there are fewer), more where that makes fewer than `least`.
    """
    first = first_judged(log)
    week = ((log.submit - log.submit[first]) // WEEK_S).astype(np.int64)
    weeks = int(week[-1]) + 1
    number = max(a_week, -(-least // weeks))
    random = np.random.default_rng(SEED)
    chosen = []
    for one in range(weeks):
        rows = first + np.flatnonzero(week[first:] == one)
        chosen.append(random.choice(rows, min(number, len(rows)), replace=False))
    return np.sort(np.concatenate(chosen))


def first_judged(log: ReplayLog) -> int:
    """The row with which the part of the log begins that does not only teach."""
    return int(len(log) * TEACHES)


def replay(log: ReplayLog, rows: Rows, forecaster: Forecaster, order: str = SUBMISSION) -> Judged:
    """Forecasts at the submissions of `rows`, in their order, beside the truth.

    Waiting jobs are taken to stand in the `order`, of ``support.forecast_order``.
    """
    past: list[tuple[PastForecast, int]] = []
    columns: dict[str, list[float]] = {name: [] for name in ("low", "high", "raw_low", "raw_high")}
    expected: dict[str, list[float]] = {}
    ahead, learnt = [], []
    for row in rows.tolist():
        known = Known(log, row, order)
        told = forecaster(known)
        calibration = Calibration.learn(as_known(past, known), known.now)
        shown = calibration.apply(known.now, told.raw)
        past.append((PastForecast(known.now, told.raw, None), row))
        for name, value in zip(
            columns, (shown.low, shown.high, told.raw.low, told.raw.high), strict=True
        ):
            columns[name].append(value)
        ours = {FORECAST: shown.median, UNCORRECTED: told.raw.median}
        for method, start in (ours | told.expected).items():
            expected.setdefault(method, []).append(start)
        ahead.append(len(known.ahead()))
        learnt.append(calibration.learnt_from)
    return Judged(
        as_of=log.submit[rows],
        start=log.start[rows],
        expected={method: np.array(starts) for method, starts in expected.items()},
        ahead=np.array(ahead),
        learnt=np.array(learnt),
        **{name: np.array(values) for name, values in columns.items()},
    )


def as_known(past: Sequence[tuple[PastForecast, int]], known: Known) -> list[PastForecast]:
    """Earlier forecasts, with the start of those jobs alone that had started before now."""
    starts = known.log.start
    return [
        replace(earlier, start=float(starts[row])) if starts[row] < known.now else earlier
        for earlier, row in past
    ]


def simulator(
    log: ReplayLog, quantiles_s: Floats, options: ForecastOptions | None = None
) -> Forecaster:
    """The forecast under test, beside the naive estimates and what Slurm's backfill would say.

    `quantiles_s` are of the jobs' run times, at QUANTILES.
    """
    options = options or ForecastOptions()
    situations = Situations(log, quantiles_s, QUANTILES)
    one_future = replace(options, samples=1)

    def told(known: Known) -> Told:
        job_id = str(known.row)
        raw = start_of(situations.of(known), job_id, options)
        by_limits = start_of(situations.by_limits(known), job_id, one_future)
        return Told(raw, forecast_naive.starts(known) | {BY_LIMITS: by_limits.median})

    return told


def start_of(situation: Situation, job_id: str, options: ForecastOptions) -> Interval:
    """The uncorrected start of one job: as in the outlook of all, carried on only until then.

    Who comes later than the job starts does not matter, and the days to come are drawn one by one:
    a start within the first day is the same with that day's arrivals alone, and found more quickly.
    """
    start = _start_within(situation, job_id, replace(options, horizon_s=DAY_S))
    if start.high <= situation.as_of + DAY_S:
        return start
    return _start_within(situation, job_id, options)


def _start_within(situation: Situation, job_id: str, options: ForecastOptions) -> Interval:
    job = next(job for job in situation.waiting if job.job_id == job_id)
    run = ForwardRun(situation, options)
    (found,) = run.what_if(job_id, [Change("", "", "", job)])
    if found.start is None:
        raise DataError(f"job {job_id} does not fit on the cluster on which it ran")
    return found.start


def walked_quantiles(log: ReplayLog) -> Floats:
    """Quantiles of the run time of each job as they were predicted at its submission.

    Where nothing was predicted (nothing had ended yet, or a job that the model does not look at)
    every run time up to the limit is as likely as another.
    """
    steps = walk(log.jobs, WalkOptions())
    row_of = {id(job): row for row, job in enumerate(log.jobs)}
    limits = np.where(np.isnan(log.limit_s), WalkOptions().default_duration_s, log.limit_s)
    quantiles_s: Floats = limits[:, None] * np.array(QUANTILES)
    for job, told in zip(steps.jobs, steps.quantiles_s, strict=True):
        if not np.isnan(told).any():
            quantiles_s[row_of[id(job)]] = told
    return np.maximum.accumulate(np.maximum(quantiles_s, 0.0), axis=1)
