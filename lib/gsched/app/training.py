"""Train the duration model on the history, and ask it about one job."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gsched.app.job import find_live
from gsched.app.wiring import now, slurm_client
from gsched.config.settings import Settings
from gsched.errors import DataError, UsageError
from gsched.model.job import JobKey, JobView, Prediction, Wants
from gsched.model.times import DAY_S
from gsched.slurm.from_queue import to_view

if TYPE_CHECKING:
    from gsched.predict.model import ModelInfo
    from gsched.predict.rolling import Estimate
    from gsched_sql import History


@dataclass(frozen=True, slots=True)
class TrainingResult:
    """A model that has just been written to `path`, and how it was made.

    `unknown_jobs` finished jobs in the history lack what the model has to know of a job.
    """

    path: Path
    cluster: str
    info: ModelInfo
    unknown_jobs: int

    def document(self) -> dict[str, Any]:
        """As JSON; times epoch seconds, ``log_error`` a natural logarithm."""
        info = asdict(self.info)
        lam = info.pop("lam")
        validation = info.pop("validation")
        if validation is not None:
            del validation["lam"]
        return {
            "file": str(self.path),
            "cluster": self.cluster,
            **info,
            "left_out": {**info["left_out"], "incomplete-record": self.unknown_jobs},
            "lambda": lam,
            "validation": validation,
        }


def train(settings: Settings, history: History, until: int | None = None) -> TrainingResult:
    """Fit a model on this cluster's jobs that ended before `until` and write the model file.

    None = all that have ended by now. Raises DataError when they are fewer than predict.min_jobs;
    the old model stays then, as it does whenever writing fails.
    """
    from gsched.predict.attributes import select_jobs
    from gsched.predict.model import DurationModel
    from gsched.predict.store import save

    cluster = slurm_client(settings).config().cluster
    trained_at = now()
    as_of = trained_at + 1 if until is None else until
    days = settings.predict.history_days
    past = history.past_jobs(cluster, as_of - days * DAY_S, as_of)
    num_usable = len(select_jobs(past.jobs, as_of)[0])
    if num_usable < settings.predict.min_jobs:
        raise DataError(
            f"{num_usable} finished jobs of cluster {cluster} in the last {days} days are too few "
            f"to learn from (predict.min_jobs is {settings.predict.min_jobs})",
            "bring the history up to date with `gsched db ingest`, or wait for more jobs to end",
        )
    model = DurationModel.fit(past.jobs, as_of, trained_at)
    save(model, settings.model_file)
    return TrainingResult(settings.model_file, cluster, model.info, past.left_out)


@dataclass(frozen=True, slots=True)
class JobPrediction:
    """What the configured estimator says of one job that Slurm knows.

    `prediction` is None when it says nothing; `estimate` holds the past runs behind a model's
    answer, None for other estimators.
    """

    job: JobView
    estimator: str
    prediction: Prediction | None
    estimate: Estimate | None

    def document(self) -> dict[str, Any]:
        """As JSON; times epoch seconds, durations seconds."""
        return {
            "job": self.job.key.slurm_id,
            "user": self.job.user,
            "name": self.job.name,
            "num_gpus": self.job.request.gpus.minimum,
            "num_cpus": self.job.request.num_cpus,
            "estimator": self.estimator,
            "prediction": _prediction_document(self.prediction),
            "similar_jobs": [
                {
                    "job_id": match.run.job_id,
                    "name": match.name,
                    "end_time": match.run.end_time,
                    "duration_s": match.run.duration_s,
                    "weight": match.weight,
                }
                for match in (self.estimate.matches if self.estimate else ())
            ],
        }


def _prediction_document(prediction: Prediction | None) -> dict[str, Any] | None:
    if prediction is None:
        return None
    return {
        "mean_s": prediction.mean,
        "quantiles_s": [[p, value] for p, value in prediction.quantiles],
        "source": prediction.source,
        "similar_jobs": prediction.similar_jobs,
        "model_id": prediction.model_id,
        "as_of": prediction.as_of,
    }


def predict_job(settings: Settings, job: str) -> JobPrediction:
    """The prediction for `job`, an id as squeue prints it.

    Raises UsageError when Slurm knows no such job, and what ``load_estimator`` raises.
    """
    from gsched.predict.attributes import of_view
    from gsched.predict.estimators import load_estimator
    from gsched.predict.model import DurationModel

    predictor = load_estimator(settings)
    live = find_live(settings, job)
    if live is None:
        raise UsageError(
            f"Slurm knows no job {job}",
            "`gsched queue` lists present jobs, `gsched history` past ones",
        )
    row, text, at = live.row, live.text, now()
    cluster = slurm_client(settings).config().cluster
    key = JobKey(cluster, row.job_id, row.array_task, row.het_offset, row.submit_time)
    view = to_view(row, text.name, key, Wants(), ())
    return JobPrediction(
        job=view,
        estimator=settings.predict.estimator,
        prediction=predictor.predict([view], at)[0],
        estimate=(
            predictor.rolling.estimate(of_view(view), at)
            if isinstance(predictor, DurationModel)
            else None
        ),
    )
