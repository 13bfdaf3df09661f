"""What could have been predicted of jobs as each was submitted, by one of two estimators.

MODEL is what the daemon orders by: the duration model, fitted anew every week on the jobs that had
ended, its prediction with the owner's caution. ROLLING is its rolling estimate alone, which takes a
fraction of the time.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gsched.config.settings import PredictSettings
from gsched.explain.words import count
from gsched.model.history import PastJob
from gsched.model.progress import Progress
from gsched.model.times import DAY_S
from gsched.predict.attributes import of_past
from gsched.predict.rolling import RollingEstimator

MODEL = "model"
ROLLING = "rolling"

_TOLD_EVERY = 5_000


@dataclass(frozen=True, eq=False)
class Estimates:
    """Seconds of each job (NaN where there was nothing to learn from) and the rules behind them.

    `how` tells in words by what.
    """

    seconds: NDArray[np.float64]
    sources: Counter[str]
    how: str


def by_rolling(earlier: Sequence[PastJob], jobs: Sequence[PastJob], told: Progress) -> Estimates:
    """The rolling estimate of `jobs`, which rise by submission; `earlier` ones teach, too.

    `earlier` come in the order in which they ended, all before the first submission.
    """
    estimator = RollingEstimator.fit(earlier)
    ends = np.array([job.end_time for job in jobs], dtype=np.int64)
    endings = iter(np.argsort(ends, kind="stable").tolist())
    seconds, sources = np.full(len(jobs), np.nan), Counter[str]()
    ending = next(endings, None)
    for row, job in enumerate(jobs):
        while ending is not None and jobs[ending].end_time < job.submit_time:
            estimator.observe(jobs[ending])
            ending = next(endings, None)
        estimate = estimator.estimate(of_past(job), job.submit_time)
        sources[estimate.source if estimate else "nothing"] += 1
        if estimate:
            seconds[row] = min(estimate.duration_s, job.time_limit_s or math.inf)
        if row % _TOLD_EVERY == 0:
            told("predicting, jobs", row)
    return Estimates(seconds, sources, "rolling estimate")


def by_model(
    earlier: Sequence[PastJob], jobs: Sequence[PastJob], predict: PredictSettings, told: Progress
) -> Estimates:
    """The model's predictions of `jobs`, from the same lists as for `by_rolling`."""
    from gsched.predict.walk import WalkOptions, walk  # scikit-learn: a second to load

    options = WalkOptions(
        history_s=predict.history_days * DAY_S, default_duration_s=predict.default_duration_s
    )
    row_of = {id(job): row for row, job in enumerate(jobs)}
    found = walk([*earlier, *jobs], options, told)
    seconds, sources = np.full(len(jobs), np.nan), Counter[str]()
    for job, mean_s, source in zip(found.jobs, found.mean_s.tolist(), found.sources, strict=True):
        row = row_of.get(id(job))
        if row is not None:
            seconds[row] = mean_s
            sources[source] += 1
    sources["nothing"] += len(jobs) - sources.total()
    how = (
        f"duration model, fitted anew every {options.refit_s / DAY_S:g} days "
        f"({count(len(found.fits), 'fit')}), with the caution that owners have earned"
    )
    return Estimates(seconds, +sources, how)
