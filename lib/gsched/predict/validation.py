"""How good the estimators are on the latest jobs, and the mixture λ that follows from it.

λ is chosen by the rank correlation of predicted with true GPU-time (CPU-time of jobs without GPUs),
since that order is what the prediction is for. Of all λ within one standard error of the best those
remain whose predictions are off by the smallest factor (geometric mean, again within one standard
error), and of these the largest is taken: the rolling estimate is the simpler and safer part, and a
few held-out jobs prove little.

The intervals are approximately split-conformal: what they are calibrated on has not taught the
regression that predicted it, but λ is chosen on the same jobs, and the trees in use are fitted once
more on all jobs.

Held out is the last fifth of the jobs by end time: in the order of ends long jobs are as frequent
as they are, while of those submitted last the long ones are still running. Each is predicted as it
was submitted, or at the moment that parts the two, which is later for a few. In a small history the
last fifth would be a biased handful (of jobs started together the longest end last), so there every
fifth job is held out in turn.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

import numpy as np
from numpy.typing import NDArray

from gsched.model.history import PastJob
from gsched.predict.attributes import SHORTEST_S, of_past
from gsched.predict.baselines import NAMES, Baselines
from gsched.predict.features import FeatureEncoder
from gsched.predict.gbdt import GbdtEstimator
from gsched.predict.memory import Look, walk
from gsched.predict.rolling import QUANTILES

Seconds = NDArray[np.float64]

FOLDS = 5
MIN_JOBS = 2 * FOLDS
"""From fewer nothing is chosen and no regression learnt: the rolling estimate is used alone."""

MIN_WINDOW = 100
"""Jobs that the last fifth has to have, to be held out as a whole."""

GRID = tuple(step / 10 for step in range(11))
"""λ to choose from."""

MIN_PER_SOURCE = 50
"""Held-out jobs of one rule of the rolling estimate that make up their own quantiles."""

ANY_SOURCE = "any"

LAST_FIFTH, EVERY_FIFTH = "last-fifth", "every-fifth"


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

    `num_units` are the GPUs (or CPUs) of each job, `sources` the rule of its rolling estimate,
    `scales` how widely the truth is expected to spread around a prediction (see `scale`).
    """

    num_units: Seconds
    actual_s: Seconds
    predicted_s: Mapping[str, Seconds]
    sources: tuple[str, ...]
    scales: Seconds

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
    """What the held-out jobs taught.

    `scores`: the ``model`` and, beside it, its parts and naive predictors. `grid`: rank correlation
    by λ. `residuals`: by rule of the rolling estimate, quantiles (at the levels of QUANTILES) of
    ln(true / predicted) / scale; `rolling_residuals` those of the rolling estimate alone.
    """

    lam: float
    held_out: str  # "last-fifth" by end time, or "every-fifth" in turn
    num_held_out: int
    scores: Mapping[str, Score]
    grid: Mapping[str, float]
    residuals: Mapping[str, tuple[float, ...]]
    rolling_residuals: Mapping[str, tuple[float, ...]]


def scale(look: Look) -> float:
    """How widely a run is expected to spread around its prediction, in natural logarithms.

    One plus the spread of the runs behind it, and one by their number, for of few the spread is
    hardly known and of a single one not at all. The first one keeps jobs whose runs were all alike
    from intervals without width: on Philly and ITP the 80 % intervals then hold as many of the jobs
    with narrow as of those with wide ones.
    """
    return 1.0 + look.spread + 1.0 / max(1, look.num_similar)


def judge(comparison: Comparison, held_out: str) -> Validation:
    """Choose λ and calibrate on predictions for held-out jobs."""
    grid = {lam: comparison.score(comparison.blend(lam)).rank_correlation for lam in GRID}
    errors = {lam: _mean_log_error(comparison.blend(lam), comparison.actual_s) for lam in GRID}
    lam = _choose(grid, errors, len(comparison.actual_s))
    predicted_s = {"model": comparison.blend(lam)} | dict(comparison.predicted_s)
    return Validation(
        lam=lam,
        held_out=held_out,
        num_held_out=len(comparison.actual_s),
        scores={name: comparison.score(values) for name, values in predicted_s.items()},
        grid={f"{candidate:.1f}": correlation for candidate, correlation in grid.items()},
        residuals=_residuals(comparison, comparison.blend(lam)),
        rolling_residuals=_residuals(comparison, comparison.predicted_s["rolling"]),
    )


def _choose(
    correlations: Mapping[float, float],
    errors: Mapping[float, tuple[float, float]],
    num_jobs: int,
) -> float:
    """λ by rank correlations and by mean log errors, the latter with their standard errors."""
    best = max(correlations.values())
    near = best - (1 - best**2) / math.sqrt(num_jobs - 1)
    ordered = [lam for lam, correlation in correlations.items() if correlation >= near]
    allowed = sum(min(errors[lam] for lam in ordered))
    return max(lam for lam in ordered if errors[lam][0] <= allowed)


def hold_out_every_fifth(jobs: Sequence[PastJob]) -> Comparison:
    """Each fifth of `jobs` (by end time) predicted from the other four, as after the end of all."""
    after = max(job.end_time for job in jobs) + 1
    folds = []
    for fold in range(FOLDS):
        train = [job for i, job in enumerate(jobs) if i % FOLDS != fold]
        memory, learnt = walk(train, [(job.submit_time, i) for i, job in enumerate(train)])
        held_out = jobs[fold::FOLDS]
        baselines = Baselines(train)
        folds.append(
            compare(
                learnt,
                [job.duration_s for job in train],
                memory.look([of_past(job) for job in held_out], after),
                [job.duration_s for job in held_out],
                [baselines.durations_s(of_past(job)) for job in held_out],
            )
        )
    return Comparison(
        num_units=np.concatenate([f.num_units for f in folds]),
        actual_s=np.concatenate([f.actual_s for f in folds]),
        predicted_s={
            name: np.concatenate([f.predicted_s[name] for f in folds])
            for name in folds[0].predicted_s
        },
        sources=tuple(source for f in folds for source in f.sources),
        scales=np.concatenate([f.scales for f in folds]),
    )


def compare(
    learnt: Sequence[Look],
    learnt_s: Sequence[float],
    asked: Sequence[Look],
    actual_s: Sequence[float],
    naive: Sequence[Mapping[str, float]],
) -> Comparison:
    """Predict the jobs of `asked` by a regression that has seen `learnt` and how long they ran.

    `actual_s` are the true seconds of `asked`, `naive` the predictions that need no model. Looks at
    which nothing had ended yet are neither learnt from nor predicted.
    """
    known = [i for i, look in enumerate(asked) if look.source]
    looks = [asked[i] for i in known]
    told = [naive[i] for i in known]
    predicted_s = {
        "rolling": _array(look.rolling_s for look in looks),
        "regression": _regress(learnt, learnt_s, looks),
    }
    return Comparison(
        num_units=_array(look.job.num_units for look in looks),
        actual_s=_array(actual_s[i] for i in known),
        predicted_s=predicted_s | {name: _array(t[name] for t in told) for name in NAMES},
        sources=tuple(look.source for look in looks),
        scales=_array(scale(look) for look in looks),
    )


def _array(values: Iterable[float]) -> Seconds:
    return np.array(list(values), dtype=np.float64)


def _regress(
    learnt: Sequence[Look], durations_s: Sequence[float], asked: Sequence[Look]
) -> Seconds:
    """What a regression would say; the rolling estimate where there is too little for one."""
    rows = [i for i, look in enumerate(learnt) if look.source]
    if len(rows) < MIN_JOBS:
        return _array(look.rolling_s for look in asked)
    encoder = FeatureEncoder.fit([learnt[i].job for i in rows])
    regression = GbdtEstimator.fit(
        encoder.matrix([learnt[i] for i in rows]), [durations_s[i] for i in rows]
    )
    return within_limits(regression.predict(encoder.matrix(asked)), asked)


def within_limits(predicted_s: Seconds, looks: Sequence[Look]) -> Seconds:
    """No prediction beyond the time limit, at which Slurm ends a job."""
    return np.minimum(predicted_s, _array(look.job.within_limit(math.inf) for look in looks))


def rank_correlation(predicted_s: Seconds, actual_s: Seconds) -> float:
    """Spearman's rank correlation; 0 when all values of either are equal."""
    from scipy.stats import spearmanr  # takes longer to import than all of gsched

    if np.ptp(predicted_s) == 0 or np.ptp(actual_s) == 0:
        return 0.0
    return float(spearmanr(predicted_s, actual_s).statistic)


def log_error(predicted_s: Seconds, actual_s: Seconds) -> float:
    """Median of \\|ln(predicted / actual)\\|, durations below a second counted as one."""
    return float(np.median(np.abs(log_ratios(actual_s, predicted_s))))


def log_ratios(numerator_s: Seconds, denominator_s: Seconds) -> Seconds:
    """ln(numerator / denominator), durations below a second counted as one."""
    result: Seconds = np.log(np.maximum(numerator_s, SHORTEST_S)) - np.log(
        np.maximum(denominator_s, SHORTEST_S)
    )
    return result


def _mean_log_error(predicted_s: Seconds, actual_s: Seconds) -> tuple[float, float]:
    """Mean of \\|ln(predicted / actual)\\| and its standard error."""
    errors = np.abs(log_ratios(actual_s, predicted_s))
    return float(errors.mean()), float(errors.std() / math.sqrt(len(errors)))


def _residuals(comparison: Comparison, predicted_s: Seconds) -> dict[str, tuple[float, ...]]:
    """How far the truth was off on jobs that the regression had not seen, by rule."""
    scaled = log_ratios(comparison.actual_s, predicted_s) / comparison.scales
    sources = np.array(comparison.sources)
    groups = {ANY_SOURCE: scaled} | {
        source: scaled[sources == source]
        for source in sorted(set(comparison.sources))
        if np.count_nonzero(sources == source) >= MIN_PER_SOURCE
    }
    return {
        source: tuple(_quantile(sorted(group.tolist()), level) for level in QUANTILES)
        for source, group in groups.items()
    }


def _quantile(rising: Sequence[float], level: float) -> float:
    """The value that the next of such residuals stays below with the probability `level`.

    Of n residuals the extremes are at the levels 1/(n+1) and n/(n+1). Levels beyond them are as far
    from the median as where both tails fall off exponentially, which log run times hardly exceed.
    """
    outermost = 1 / (len(rising) + 1)
    tail = min(level, 1 - level)
    if tail >= outermost:
        return float(np.quantile(rising, level, method="weibull"))
    middle, extreme = median(rising), rising[0] if level < 0.5 else rising[-1]
    return middle + (extreme - middle) * math.log(2 * tail) / math.log(2 * outermost)
