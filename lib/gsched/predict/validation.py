"""How good the estimators are on the latest jobs, and the mixture λ that follows from it.

λ is chosen by the rank correlation of predicted with true GPU-time (CPU-time of jobs without GPUs),
since that order is what the prediction is for. Of all λ within one standard error of the best, the
largest is taken: the rolling estimate is the simpler and safer part, and a few held-out jobs prove
little.

Held out is the last fifth of the jobs by end time. In a small history that would be a biased
handful (of jobs started together the longest end last), so there every fifth job is held out in
turn.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gsched.model.history import PastJob
from gsched.predict.attributes import SHORTEST_S, of_past
from gsched.predict.gbdt import GbdtEstimator
from gsched.predict.rolling import QUANTILES, RollingEstimator

Seconds = NDArray[np.float64]

FOLDS = 5
MIN_JOBS = 2 * FOLDS
"""Fewer jobs choose nothing: the rolling estimate is used alone then."""

MIN_WINDOW = 100
"""Jobs that the last fifth has to have, to be held out as a whole."""

GRID = tuple(step / 10 for step in range(1, 11))
"""λ to choose from. Not 0: only the rolling estimate follows what a user has changed lately. With 0
the rank correlation on iu-mason-2017 fell from 0.68 to 0.53, and on llnl-atlas-2006 by 0.01."""

MIN_PER_SOURCE = 20
"""Held-out jobs of one rule of the rolling estimate that make up their own quantiles."""

ANY_SOURCE = "any"


@dataclass(frozen=True, slots=True)
class Score:
    """Of one estimator on the held-out jobs.

    `rank_correlation` is Spearman's of GPU-time, 1 = the true order. `log_error` is the median of
    \\|ln(predicted / true)\\| of durations: 0.69 = half of them are right within a factor of 2.
    """

    rank_correlation: float
    log_error: float


@dataclass(frozen=True, slots=True)
class Comparison:
    """Predictions for held-out jobs, in seconds, by estimator, beside the truth.

    `num_units` are the GPUs (or CPUs) of each job, `sources` the rule of its rolling estimate.
    """

    num_units: Seconds
    actual_s: Seconds
    predicted_s: Mapping[str, Seconds]
    sources: tuple[str, ...]

    def blend(self, lam: float) -> Seconds:
        """λ·rolling + (1−λ)·regression."""
        return lam * self.predicted_s["rolling"] + (1 - lam) * self.predicted_s["regression"]

    def score(self, predicted_s: Seconds) -> Score:
        """How good `predicted_s` is for these jobs."""
        return Score(
            rank_correlation(predicted_s * self.num_units, self.actual_s * self.num_units),
            log_error(predicted_s, self.actual_s),
        )


@dataclass(frozen=True, slots=True)
class Validation:
    """What the held-out window taught.

    `scores`: the ``model`` and, beside it, its parts and naive means. `grid`: rank correlation by
    λ. `ratios`: quantiles of true / predicted duration, by rule of the rolling estimate.
    """

    lam: float
    held_out: str  # "last-fifth" by end time, or "every-fifth" in turn
    num_held_out: int
    scores: Mapping[str, Score]
    grid: Mapping[str, float]
    ratios: Mapping[str, tuple[float, ...]]


def validate(jobs: Sequence[PastJob]) -> Validation | None:
    """Choose λ on held-out jobs of `jobs` (in order of end times); None when there are too few."""
    if len(jobs) < MIN_JOBS:
        return None
    since = jobs[len(jobs) * (FOLDS - 1) // FOLDS].end_time
    train = [job for job in jobs if job.end_time < since]
    held_out = [job for job in jobs if job.end_time >= since]
    if train and len(held_out) >= MIN_WINDOW:
        return _judge(compare(train, held_out, since), "last-fifth")
    return _judge(_cross_validate(jobs), "every-fifth")


def _judge(comparison: Comparison, held_out: str) -> Validation:
    grid = {lam: comparison.score(comparison.blend(lam)).rank_correlation for lam in GRID}
    lam = _choose(grid, len(comparison.actual_s))
    predicted_s = {"model": comparison.blend(lam)} | dict(comparison.predicted_s)
    return Validation(
        lam=lam,
        held_out=held_out,
        num_held_out=len(comparison.actual_s),
        scores={name: comparison.score(values) for name, values in predicted_s.items()},
        grid={f"{candidate:.1f}": correlation for candidate, correlation in grid.items()},
        ratios=_ratios(comparison, lam),
    )


def _choose(grid: Mapping[float, float], num_jobs: int) -> float:
    """The largest λ whose rank correlation is within one standard error of the best."""
    best = max(grid.values())
    standard_error = (1 - best**2) / math.sqrt(num_jobs - 1)
    return max(lam for lam, correlation in grid.items() if correlation >= best - standard_error)


def compare(train: Sequence[PastJob], held_out: Sequence[PastJob], since: int) -> Comparison:
    """Walk forward over `held_out`, each job predicted when it was submitted, or at `since`.

    Rolling estimate and means learn from held-out jobs as they end; the regression knows only
    `train`, which ended before `since`.
    """
    return _predict(train, held_out, since, learnt_on_the_way=held_out)


def _cross_validate(jobs: Sequence[PastJob]) -> Comparison:
    """Each fifth of `jobs` predicted from the other four, as after the end of all."""
    after = max(job.end_time for job in jobs) + 1
    folds = []
    for fold in range(FOLDS):
        train = [job for i, job in enumerate(jobs) if i % FOLDS != fold]
        folds.append(_predict(train, jobs[fold::FOLDS], after, learnt_on_the_way=()))
    return Comparison(
        num_units=np.concatenate([f.num_units for f in folds]),
        actual_s=np.concatenate([f.actual_s for f in folds]),
        predicted_s={
            name: np.concatenate([f.predicted_s[name] for f in folds])
            for name in folds[0].predicted_s
        },
        sources=tuple(source for f in folds for source in f.sources),
    )


def _predict(
    train: Sequence[PastJob],
    wanted: Sequence[PastJob],
    since: int,
    learnt_on_the_way: Sequence[PastJob],
) -> Comparison:
    attributes = [of_past(job) for job in wanted]
    regression = GbdtEstimator.fit([of_past(j) for j in train], [j.duration_s for j in train])
    rolling, means = RollingEstimator.fit(train), _Means(train)
    endings = deque(sorted(learnt_on_the_way, key=lambda j: j.end_time))
    rolled, user_means, overall = (np.zeros(len(wanted)) for _ in range(3))
    sources = [""] * len(wanted)
    for i in sorted(range(len(wanted)), key=lambda i: wanted[i].submit_time):
        now = max(wanted[i].submit_time, since)
        while endings and endings[0].end_time < now:
            rolling.observe(endings[0])
            means.observe(endings.popleft())
        estimate = rolling.estimate(attributes[i], now)
        if estimate is None:
            raise ValueError("no job to learn from ended before the held-out ones")
        rolled[i], sources[i] = estimate.duration_s, estimate.source
        user_means[i], overall[i] = means.of(wanted[i].user), means.overall
    return Comparison(
        num_units=np.array([job.num_units for job in attributes], dtype=np.float64),
        actual_s=np.array([job.duration_s for job in wanted], dtype=np.float64),
        predicted_s={
            "rolling": rolled,
            "regression": regression.predict(attributes),
            "user-mean": user_means,
            "mean": overall,
        },
        sources=tuple(sources),
    )


def rank_correlation(predicted_s: Seconds, actual_s: Seconds) -> float:
    """Spearman's rank correlation; 0 when all values of either are equal."""
    from scipy.stats import spearmanr  # takes longer to import than all of gsched

    if np.ptp(predicted_s) == 0 or np.ptp(actual_s) == 0:
        return 0.0
    return float(spearmanr(predicted_s, actual_s).statistic)


def log_error(predicted_s: Seconds, actual_s: Seconds) -> float:
    """Median of \\|ln(predicted / actual)\\|, durations below a second counted as one."""
    return float(np.median(np.abs(_log_ratio(actual_s, predicted_s))))


class _Means:
    """Running mean durations, of each user and of all: what needs no model."""

    def __init__(self, jobs: Sequence[PastJob]) -> None:
        self._total_s, self._count = 0.0, 0
        self._users: dict[str, tuple[float, int]] = {}
        for job in jobs:
            self.observe(job)

    def observe(self, job: PastJob) -> None:
        total_s, count = self._users.get(job.user, (0.0, 0))
        self._users[job.user] = (total_s + job.duration_s, count + 1)
        self._total_s, self._count = self._total_s + job.duration_s, self._count + 1

    @property
    def overall(self) -> float:
        return self._total_s / self._count

    def of(self, user: str) -> float:
        total_s, count = self._users.get(user, (0.0, 0))
        return total_s / count if count else self.overall


def _ratios(comparison: Comparison, lam: float) -> dict[str, tuple[float, ...]]:
    """Split-conformal: quantiles of true / predicted on jobs that the fit has not seen."""
    logs = _log_ratio(comparison.actual_s, comparison.blend(lam))
    sources = np.array(comparison.sources)
    groups = {ANY_SOURCE: logs} | {
        source: logs[sources == source]
        for source in sorted(set(comparison.sources))
        if np.count_nonzero(sources == source) >= MIN_PER_SOURCE
    }
    return {
        source: tuple(float(q) for q in np.exp(np.quantile(group, QUANTILES, method="weibull")))
        for source, group in groups.items()
    }


def _log_ratio(numerator_s: Seconds, denominator_s: Seconds) -> Seconds:
    result: Seconds = np.log(np.maximum(numerator_s, SHORTEST_S)) - np.log(
        np.maximum(denominator_s, SHORTEST_S)
    )
    return result
