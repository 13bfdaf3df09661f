"""The duration model of QSSF: λ·P_R + (1−λ)·P_M, with quantiles and a record of its making."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from gsched import __version__
from gsched.errors import DataError
from gsched.model.history import PastJob
from gsched.model.job import JobView, Prediction, PredictionKind
from gsched.predict.attributes import JobAttributes, of_past, of_view, select_jobs
from gsched.predict.features import FEATURES
from gsched.predict.gbdt import GbdtEstimator
from gsched.predict.rolling import QUANTILES, Estimate, RollingEstimator
from gsched.predict.validation import ANY_SOURCE, Validation, validate


@dataclass(frozen=True, slots=True)
class ModelInfo:
    """How a model was made. Times are epoch seconds.

    `model_id` is a hash of the jobs, the parameters and the library versions: equal input, equal
    id. `lam` weighs the rolling estimate. `validation` is None when there were too few jobs.
    """

    model_id: str
    trained_at: int
    as_of: int
    data_from: int
    data_until: int
    num_jobs: int
    left_out: Mapping[str, int]
    lam: float
    features: tuple[str, ...]
    validation: Validation | None
    versions: Mapping[str, str]


class DurationModel:
    """Predicts run times; implements ``gsched.engine.ports.Predictor``.

    `regression` is None when λ = 1: then it has no share in any prediction.
    """

    def __init__(
        self, info: ModelInfo, rolling: RollingEstimator, regression: GbdtEstimator | None
    ) -> None:
        self.info = info
        self.model_id = info.model_id
        self.rolling = rolling
        self.regression = regression
        self._known_until = info.data_until

    @classmethod
    def fit(cls, past_jobs: Sequence[PastJob], as_of: int, trained_at: int) -> DurationModel:
        """Learn from the jobs that ended before `as_of`. Raises DataError when there is none."""
        jobs, left_out = select_jobs(past_jobs, as_of)
        if not jobs:
            raise DataError("no finished job to learn from", "run `gsched db ingest` first")
        validation = validate(jobs)
        lam = validation.lam if validation else 1.0
        attributes = [of_past(job) for job in jobs]
        regression = (
            GbdtEstimator.fit(attributes, [job.duration_s for job in jobs]) if lam < 1 else None
        )
        info = ModelInfo(
            model_id="",
            trained_at=trained_at,
            as_of=as_of,
            data_from=min(job.submit_time for job in jobs),
            data_until=jobs[-1].end_time,
            num_jobs=len(jobs),
            left_out=dict(sorted(left_out.items())),
            lam=lam,
            features=FEATURES,
            validation=validation,
            versions=library_versions(),
        )
        info = replace(info, model_id=_model_id(jobs, info))
        return cls(info, RollingEstimator.fit(jobs), regression)

    def observe(self, job: PastJob) -> None:
        """Take a job that has ended since into the rolling estimate, without a refit."""
        self.rolling.observe(job)
        self._known_until = max(self._known_until, job.end_time)

    def predict(self, jobs: Sequence[JobView], now: int) -> list[Prediction | None]:
        """Run time of each job from jobs that ended before `now`; None where none had.

        When the training jobs reach to `now` or beyond, the regression is left out.
        """
        attributes = [of_view(job) for job in jobs]
        estimates = self._estimates(attributes, now)
        lam = self.info.lam
        if self.regression is None or now <= self.info.data_until:
            calibrated = lam == 1.0
            return [
                None if e is None else self._prediction(e, e.duration_s, calibrated, now)
                for e in estimates
            ]
        regressed = self.regression.predict(attributes)
        return [
            None
            if e is None
            else self._prediction(e, lam * e.duration_s + (1 - lam) * float(seconds), True, now)
            for e, seconds in zip(estimates, regressed, strict=True)
        ]

    def _estimates(self, jobs: Sequence[JobAttributes], now: int) -> list[Estimate | None]:
        """Rolling estimates; jobs alike in what those look at share one."""
        found: dict[tuple[str, str, str], Estimate | None] = {}
        estimates = []
        for job in jobs:
            kind = (job.user, job.name, job.size)
            if kind not in found:
                found[kind] = self.rolling.estimate(job, now)
            estimates.append(found[kind])
        return estimates

    def _prediction(
        self, estimate: Estimate, mean_s: float, calibrated: bool, now: int
    ) -> Prediction:
        """With the quantiles that held-out jobs of the same rule showed, if they apply."""
        validation = self.info.validation
        if calibrated and validation:
            ratios = validation.ratios.get(estimate.source) or validation.ratios[ANY_SOURCE]
            quantiles = tuple((p, mean_s * r) for p, r in zip(QUANTILES, ratios, strict=True))
        else:
            quantiles = estimate.quantiles()
        return Prediction(
            kind=PredictionKind.DURATION,
            mean=mean_s,
            quantiles=quantiles,
            source=estimate.source,
            model_id=self.model_id,
            similar_jobs=len(estimate.matches),
            as_of=min(now, self._known_until + 1),
        )


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
            *(job.num_gpus, job.num_cpus, job.num_nodes),
        )
        digest.update(json.dumps(row).encode())
    digest.update(json.dumps([info.lam, info.features, dict(info.versions)]).encode())
    return f"duration-{digest.hexdigest()[:12]}"
