"""The duration model of QSSF: λ·P_R + (1−λ)·P_M, with quantiles and a record of its making."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from gsched import __version__
from gsched.errors import DataError
from gsched.model.history import PastJob
from gsched.model.job import JobView, Prediction, PredictionKind
from gsched.predict.attributes import KINDS, SHORTEST_S, JobAttributes, of_view, select_jobs
from gsched.predict.cold_start import DEFAULT_DURATION_S, first_guess
from gsched.predict.features import FEATURES, FeatureEncoder
from gsched.predict.fitting import KindInfo, fit
from gsched.predict.gbdt import GbdtEstimator
from gsched.predict.memory import Look, Memory
from gsched.predict.rolling import QUANTILES, RULES, RollingEstimator
from gsched.predict.validation import ANY_SOURCE, Seconds, scale, within_limits

Quantiles = tuple[tuple[float, float], ...]
"""(probability, seconds), rising."""

_NO_RESIDUALS = (0.0,) * len(QUANTILES)
_MIDDLE = QUANTILES.index(0.5)


@dataclass(frozen=True, slots=True)
class ModelInfo:
    """How a model was made. Times are epoch seconds.

    `model_id` is a hash of the jobs, the parameters and the library versions: equal input, equal
    id. `kinds` has an entry for ``gpu`` and ``cpu``, where the history holds such jobs.
    """

    model_id: str
    trained_at: int
    as_of: int
    data_from: int
    data_until: int
    num_jobs: int
    left_out: Mapping[str, int]
    default_duration_s: float
    features: tuple[str, ...]
    kinds: Mapping[str, KindInfo]
    versions: Mapping[str, str]


class DurationModel:
    """Predicts run times; implements ``gsched.engine.ports.Predictor``.

    A prediction is made in two steps: a look at what is known at a moment, which is cheap, and what
    follows from it, which asks the trees once for all jobs. `rolling_only` are the kinds of jobs
    (``gpu``, ``cpu``) that are predicted by the rolling estimate alone for now.
    """

    def __init__(
        self,
        info: ModelInfo,
        memory: Memory,
        encoder: FeatureEncoder,
        regressions: Mapping[str, GbdtEstimator],
    ) -> None:
        self.info = info
        self.memory = memory
        self.encoder = encoder
        self.regressions = regressions
        self.rolling_only: frozenset[str] = frozenset()
        self._known_until = info.data_until

    @classmethod
    def fit(
        cls,
        past_jobs: Iterable[PastJob],
        as_of: int,
        trained_at: int,
        default_duration_s: float = DEFAULT_DURATION_S,
    ) -> DurationModel:
        """Learn from the jobs that ended before `as_of`. Raises DataError when there is none."""
        jobs, left_out = select_jobs(past_jobs, as_of)
        if not jobs:
            raise DataError("no finished job to learn from", "run `gsched db ingest` first")
        fitted = fit(jobs)
        info = ModelInfo(
            model_id="",
            trained_at=trained_at,
            as_of=as_of,
            data_from=min(job.submit_time for job in jobs),
            data_until=jobs[-1].end_time,
            num_jobs=len(jobs),
            left_out=dict(sorted(left_out.items())),
            default_duration_s=default_duration_s,
            features=FEATURES,
            kinds=fitted.kinds,
            versions=library_versions(),
        )
        info = replace(info, model_id=_model_id(jobs, info))
        return cls(info, fitted.memory, fitted.encoder, fitted.regressions)

    @property
    def model_id(self) -> str:
        """Another one while some jobs are predicted by the rolling estimate alone."""
        return f"{self.info.model_id}+rolling" if self.rolling_only else self.info.model_id

    @property
    def rolling(self) -> RollingEstimator:
        """P_R, with the past runs behind it."""
        return self.memory.rolling

    def observe(self, job: PastJob) -> None:
        """Take a job that has ended since into the rolling estimate, without a refit."""
        self.memory.observe(job)
        self._known_until = max(self._known_until, job.end_time)

    def predict(self, jobs: Sequence[JobView], now: int) -> list[Prediction | None]:
        """Run time of each job from jobs that ended before `now`; never None.

        When the training jobs reach to `now` or beyond, the regression is left out. Where none had
        ended, the time limit or the site's default is all that is known.
        """
        return list(self.predictions_of(self.look([of_view(job) for job in jobs], now)))

    def parts(self, jobs: Sequence[JobView], now: int) -> dict[str, Seconds]:
        """As `parts_of`, for live jobs."""
        return self.parts_of(self.look([of_view(job) for job in jobs], now))

    def look(self, jobs: Sequence[JobAttributes], now: int) -> list[Look]:
        """What is known of `jobs` at `now`. What is observed later does not change a look."""
        uncalibrated = {
            (kind, rule)
            for kind in KINDS
            for rule in RULES
            if rule not in (self._residuals(kind, now) or ())
        }
        return self.memory.look(jobs, now, uncalibrated)

    def rows(self, looks: Sequence[Look]) -> NDArray[np.float64]:
        """The looks as the regression sees them, one column a name of FEATURES."""
        return self.encoder.matrix(looks)

    def lam(self, kind: str) -> float:
        """λ of ``gpu`` or ``cpu`` jobs; 1 where there is no regression."""
        return self.info.kinds[kind].lam if kind in self.regressions else 1.0

    def parts_of(self, looks: Sequence[Look]) -> dict[str, Seconds]:
        """Seconds by ``model``, ``rolling``, ``regression``, without caution, within the limits.

        NaN where an estimator has nothing to say: of the regression also where λ = 1 and the model
        comes from its file, which leaves it out then. ``model`` is the blend, `rolling_only` or
        not.
        """
        rolling = np.array([look.rolling_s for look in looks], dtype=np.float64)
        regression = np.full(len(looks), math.nan)
        lams = np.ones(len(looks))
        for kind in self.regressions:
            at = [i for i, look in enumerate(looks) if self._regressed(look, kind)]
            if at:
                asked = [looks[i] for i in at]
                seconds = self.regressions[kind].predict(self.rows(asked))
                regression[at] = within_limits(seconds, asked)
                lams[at] = self.lam(kind)
        model = np.where(lams == 1.0, rolling, lams * rolling + (1 - lams) * regression)
        return {"model": model, "rolling": rolling, "regression": regression}

    def predictions_of(
        self, looks: Sequence[Look], parts: Mapping[str, Seconds] | None = None
    ) -> list[Prediction]:
        """A prediction for each look; `parts` are theirs, where they are known already."""
        parts = parts or self.parts_of(looks)
        rolls = np.array([look.job.kind in self.rolling_only for look in looks], dtype=np.bool_)
        seconds = np.where(rolls, parts["rolling"], parts["model"])
        return [
            self._prediction(look, middle, quantiles)
            for look, middle, quantiles in zip(
                looks, seconds.tolist(), self._quantiles(looks, seconds), strict=True
            )
        ]

    def _regressed(self, look: Look, kind: str) -> bool:
        """Whether the regression of `kind` can say something at this look."""
        return (
            look.job.kind == kind
            and bool(look.source)
            and look.now > self.info.data_until
            and kind in self.regressions
        )

    def _prediction(self, look: Look, seconds: float, quantiles: Quantiles) -> Prediction:
        job = look.job
        if not look.source:
            return first_guess(job, self.info.default_duration_s, self.model_id, look.now)
        distrust = look.distrust
        cautious = max(seconds, min(seconds * distrust.factor, distrust.up_to_s))
        mean = job.within_limit(cautious)
        return Prediction(
            kind=PredictionKind.DURATION,
            mean=mean,
            quantiles=quantiles,
            source=look.source,
            model_id=self.model_id,
            similar_jobs=look.num_similar,
            as_of=min(look.now, self._known_until + 1),
            caution=max(1.0, mean / seconds) if mean > seconds else 1.0,
        )

    def _quantiles(self, looks: Sequence[Look], seconds: Seconds) -> list[Quantiles]:
        """As held-out jobs of the same rule showed, and as the runs behind the estimate did.

        The latter where fewer than MIN_PER_SOURCE jobs of the rule were held out: then those of all
        rules speak for it, and no interval is narrower than the runs behind the estimate show.
        """
        cases = [(look.job.kind, look.now) for look in looks]
        by_case = {case: self._residuals(*case) for case in set(cases)}
        found = [by_case[case] for case in cases]
        residuals = np.array(
            [
                by_rule.get(look.source, by_rule[ANY_SOURCE]) if by_rule else _NO_RESIDUALS
                for look, by_rule in zip(looks, found, strict=True)
            ],
            dtype=np.float64,
        )
        scales = np.array([scale(look) for look in looks])
        middles = np.maximum(SHORTEST_S, seconds)
        values = middles[:, None] * np.exp(scales[:, None] * residuals)
        limits = np.array([look.job.within_limit(math.inf) for look in looks])
        bounded = np.minimum(np.maximum(SHORTEST_S, values), limits[:, None]).tolist()
        return [
            _with_own(look, row, predicted_s) if by_rule else look.own_quantiles
            for look, by_rule, row, predicted_s in zip(
                looks, found, bounded, seconds.tolist(), strict=True
            )
        ]

    def _residuals(self, kind: str, now: int) -> Mapping[str, tuple[float, ...]] | None:
        """By rule; they know all of the history, so that there are none at earlier moments."""
        info = self.info.kinds.get(kind)
        if info is None or info.validation is None or now <= self.info.data_until:
            return None
        is_rolling = kind in self.rolling_only
        return info.validation.rolling_residuals if is_rolling else info.validation.residuals


def _with_own(look: Look, calibrated: Sequence[float], seconds: float) -> Quantiles:
    """The wider of both at each level, where the look tells what the runs behind it took.

    The median is theirs where they alone make the prediction of `seconds`.
    """
    if not look.own_quantiles:
        return tuple(zip(QUANTILES, calibrated, strict=True))
    own = [value for _, value in look.own_quantiles]
    low = map(min, calibrated[:_MIDDLE], own[:_MIDDLE])
    high = map(max, calibrated[_MIDDLE + 1 :], own[_MIDDLE + 1 :])
    middle = own[_MIDDLE] if seconds == look.rolling_s else calibrated[_MIDDLE]
    return tuple(zip(QUANTILES, (*low, middle, *high), strict=True))


def library_versions() -> dict[str, str]:
    """Versions of what the numbers of a model depend on."""
    from importlib.metadata import version

    return {
        "gsched": __version__,
        "numpy": version("numpy"),
        "scikit-learn": version("scikit-learn"),
    }


def _model_id(jobs: Sequence[PastJob], info: ModelInfo) -> str:
    digest = hashlib.sha256()
    for job in jobs:
        row = (
            *(job.cluster, job.job_id, job.submit_time, job.start_time, job.end_time),
            *(job.user, job.tenant, job.partition, job.name, job.time_limit_s),
            *(job.num_gpus, job.num_cpus, job.num_nodes, job.array_task, job.het_offset),
        )
        digest.update(repr(row).encode())
    lams = sorted((kind, found.lam) for kind, found in info.kinds.items())
    made = (lams, info.default_duration_s, info.features, sorted(info.versions.items()))
    digest.update(repr(made).encode())
    return f"duration-{digest.hexdigest()[:12]}"
