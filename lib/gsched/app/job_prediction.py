"""`gsched predict job`: the prediction for one job, and what is behind it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from gsched.app.job import find_live
from gsched.app.wiring import now, slurm_client
from gsched.config.settings import Settings
from gsched.errors import GschedError, PermissionDeniedError, UsageError
from gsched.model.job import JobKey, JobView, Prediction, Wants
from gsched.slurm.from_queue import to_view

if TYPE_CHECKING:
    from gsched.predict.explanation import Explanation
    from gsched.predict.rolling import Estimate


@dataclass(frozen=True, slots=True)
class JobPrediction:
    """What the configured estimator says of one job that Slurm knows.

    `prediction` is None when it says nothing. `estimate` holds the past runs behind a model's
    answer, `explanation` what makes it; both None for other estimators, the latter also where the
    past runs alone make it.
    """

    job: JobView
    estimator: str
    prediction: Prediction | None
    estimate: Estimate | None = None
    explanation: Explanation | None = None

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
            "explanation": _explanation_document(self.explanation),
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
        "caution": prediction.caution,
        "quantiles_s": [[p, value] for p, value in prediction.quantiles],
        "source": prediction.source,
        "similar_jobs": prediction.similar_jobs,
        "model_id": prediction.model_id,
        "as_of": prediction.as_of,
    }


def _explanation_document(explanation: Explanation | None) -> dict[str, Any] | None:
    if explanation is None:
        return None
    return {
        "typical_s": explanation.typical_s,
        "contributions": [
            {
                "name": contribution.name,
                "factor": contribution.factor,
                "log_s": contribution.log_s,
                "standard_error": contribution.standard_error,
            }
            for contribution in explanation.contributions
        ],
        "predicted_s": explanation.predicted_s,
    }


def predict_job(settings: Settings, job: str) -> JobPrediction:
    """The prediction for `job`, an id as squeue prints it.

    Raises UsageError when Slurm knows no such job, PermissionDeniedError for who may not read the
    model, and what else ``load_estimator`` raises.
    """
    from gsched.predict.attributes import of_view
    from gsched.predict.estimators import load_estimator
    from gsched.predict.model import DurationModel

    try:
        predictor = load_estimator(settings)
    except PermissionDeniedError as e:
        raise PermissionDeniedError(
            e.message, f"`gsched why {job}` tells what the daemon predicts"
        ) from e
    view, at = _live(settings, job), now()
    if not isinstance(predictor, DurationModel):
        return JobPrediction(view, settings.predict.estimator, predictor.predict([view], at)[0])
    from gsched.predict.explanation import explain

    predictor.rolling_only = _fallen_back(settings, predictor.info.model_id)
    attributes = of_view(view)
    (look,) = predictor.look([attributes], at)
    return JobPrediction(
        job=view,
        estimator=settings.predict.estimator,
        prediction=predictor.predictions_of([look])[0],
        estimate=predictor.rolling.estimate(attributes, at),
        explanation=explain(predictor, look),
    )


def _fallen_back(settings: Settings, model_id: str) -> frozenset[str]:
    """Kinds of jobs that the daemon predicts by the rolling estimate alone for now."""
    from gsched.predict.kept import KeptModels
    from gsched.predict.watch_file import read_watch

    try:
        return frozenset(read_watch(KeptModels(settings.model_file).watch_file, model_id).fallen)
    except GschedError:
        return frozenset()  # the daemon begins anew where it cannot be read


def _live(settings: Settings, job: str) -> JobView:
    live = find_live(settings, job)
    if live is None:
        raise UsageError(
            f"Slurm knows no job {job}",
            "`gsched queue` lists present jobs, `gsched history` past ones",
        )
    row = live.row
    cluster = slurm_client(settings).config().cluster
    key = JobKey(cluster, row.job_id, row.array_task, row.het_offset, row.submit_time)
    return to_view(row, live.text.name, key, Wants(), ())
