"""A log walked through from its first job to its last: what was predicted as each was submitted.

Nothing is used that ended at or after a submission: before each one the jobs that have ended since
the last are observed, and now and then the model is fitted anew, as the daemon does. Before the
first fit the model and its parts know a job's time limit or the site's default alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from gsched.model.history import PastJob
from gsched.model.progress import Progress
from gsched.model.times import DAY_S
from gsched.predict.attributes import JobAttributes, of_past, select_jobs
from gsched.predict.baselines import Baselines
from gsched.predict.cold_start import DEFAULT_DURATION_S, cold_start
from gsched.predict.memory import Look
from gsched.predict.model import DurationModel
from gsched.predict.rolling import QUANTILES

Seconds = NDArray[np.float64]

MODEL_PARTS = ("model", "rolling", "regression")
CONTENDERS = (*MODEL_PARTS, *("user-mean", "last-two", "mean", "time-limit"))

_BATCH = 5_000
_TOLD_EVERY = 1_000


@dataclass(frozen=True, slots=True)
class WalkOptions:
    """How the model is kept up on the way.

    It is fitted when `min_jobs` have ended, and then before the first submission `refit_s` or more
    after the last fit, or when twice as many have ended; on the jobs that ended in the `history_s`
    before.
    """

    refit_s: int = 7 * DAY_S
    history_s: int = 180 * DAY_S
    min_jobs: int = 10
    default_duration_s: float = DEFAULT_DURATION_S


@dataclass(frozen=True, slots=True)
class Fit:
    """One fit on the way: when (epoch), on how many jobs, and the share λ of P_R by kind of job."""

    as_of: int
    num_jobs: int
    lam: Mapping[str, float]


@dataclass(frozen=True, eq=False)
class Walk:
    """One element a job in every column, by submission. Durations are seconds.

    `predicted_s` goes by CONTENDERS, without the model's caution; where there is no regression for
    a kind of job yet, the rolling estimate stands for it. `mean_s` is what orders a queue:
    the model's prediction with caution. `quantiles_s` has a column for each of QUANTILES, NaN where
    none were told. `sources` are the rules behind the rolling estimates.
    """

    jobs: Sequence[PastJob]
    predicted_s: Mapping[str, Seconds]
    mean_s: Seconds
    quantiles_s: Seconds
    sources: Sequence[str]
    fits: Sequence[Fit]
    left_out: Counter[str] = field(default_factory=Counter)

    @property
    def actual_s(self) -> Seconds:
        """What came true."""
        return np.array([job.duration_s for job in self.jobs], dtype=np.float64)


def walk(jobs: Sequence[PastJob], options: WalkOptions, told: Progress = lambda *_: None) -> Walk:
    """Walk through `jobs`, which may come in any order.

    Those that the model does not learn from (``select_jobs``) are left out, and counted.
    """
    endings, left_out = select_jobs(jobs, max((job.end_time for job in jobs), default=0) + 1)
    judged = sorted(endings, key=lambda job: job.submit_time)
    walker = _Walker(endings, len(judged), options)
    for row, job in enumerate(judged):
        walker.predict(row, of_past(job))
        if row % _TOLD_EVERY == 0:
            told("predicting, jobs", row)
    walker.settle()
    return Walk(
        judged,
        walker.predicted_s,
        walker.mean_s,
        walker.quantiles_s,
        walker.sources,
        walker.fits,
        left_out,
    )


class _Walker:
    """Where the walk has come to; predictions of the model are gathered, and made in batches."""

    def __init__(self, endings: Sequence[PastJob], count: int, options: WalkOptions) -> None:
        self.predicted_s = {name: np.full(count, np.nan) for name in CONTENDERS}
        self.mean_s = np.full(count, np.nan)
        self.quantiles_s = np.full((count, len(QUANTILES)), np.nan)
        self.sources = [""] * count
        self.fits: list[Fit] = []
        self._options = options
        self._endings = endings
        self._num_ended = self._num_ended_at_fit = 0
        self._model: DurationModel | None = None
        self._baselines = Baselines((), options.default_duration_s)
        self._rows: list[int] = []
        self._looks: list[Look] = []

    def predict(self, row: int, job: JobAttributes) -> None:
        """Predict a job as at its submission; not before one that was submitted earlier."""
        self._observe_until(job.submit_time)
        if self._is_due(job.submit_time):
            self._fit(job.submit_time)
        for name, seconds in self._baselines.durations_s(job).items():
            self.predicted_s[name][row] = seconds
        if self._model is None:
            self._predict_cold(row, job)
            return
        self._rows.append(row)
        self._looks += self._model.look([job], job.submit_time)
        if len(self._rows) >= _BATCH:
            self.settle()

    def settle(self) -> None:
        """Make the predictions that were gathered, by the model that was asked for them."""
        if self._model is None or not self._rows:
            return
        rows = np.array(self._rows)
        parts = self._model.parts_of(self._looks)
        for name in MODEL_PARTS:
            seconds = parts[name]
            self.predicted_s[name][rows] = np.where(np.isnan(seconds), parts["rolling"], seconds)
        predictions = self._model.predictions_of(self._looks, parts)
        for row, prediction in zip(self._rows, predictions, strict=True):
            self.mean_s[row], self.sources[row] = prediction.mean, prediction.source
            told = dict(prediction.quantiles)
            self.quantiles_s[row] = [told.get(p, np.nan) for p in QUANTILES]
        self._rows, self._looks = [], []

    def _observe_until(self, now: int) -> None:
        while self._num_ended < len(self._endings):
            job = self._endings[self._num_ended]
            if job.end_time >= now:
                break
            self._baselines.observe(job)
            if self._model is not None:
                self._model.observe(job)
            self._num_ended += 1

    def _is_due(self, now: int) -> bool:
        if not self.fits:
            return self._num_ended >= self._options.min_jobs
        is_old = now >= self.fits[-1].as_of + self._options.refit_s
        return is_old or self._num_ended >= 2 * self._num_ended_at_fit

    def _fit(self, now: int) -> None:
        self.settle()
        since = now - self._options.history_s
        past = [job for job in self._endings[: self._num_ended] if job.end_time >= since]
        if len(past) < self._options.min_jobs:
            return
        self._model = DurationModel.fit(past, now, now, self._options.default_duration_s)
        self._num_ended_at_fit = self._num_ended
        kinds = self._model.info.kinds
        self.fits.append(Fit(now, len(past), {kind: info.lam for kind, info in kinds.items()}))

    def _predict_cold(self, row: int, job: JobAttributes) -> None:
        seconds, source = cold_start(job, self._options.default_duration_s)
        for name in MODEL_PARTS:
            self.predicted_s[name][row] = seconds
        self.mean_s[row], self.sources[row] = seconds, source
