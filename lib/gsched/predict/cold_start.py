"""What is predicted when nothing has ended yet: the user's time limit, else the site's default."""

from __future__ import annotations

from collections.abc import Sequence

from gsched.model.job import JobView, Prediction, PredictionKind
from gsched.predict.attributes import JobAttributes, of_view

TIME_LIMIT, SITE_DEFAULT = "time-limit", "site-default"


DEFAULT_DURATION_S = 3600.0
"""Of a site that has set none."""


class ColdStart:
    """The predictor until there is a model. `default_duration_s` is the site's, in seconds."""

    model_id = "cold-start"

    def __init__(self, default_duration_s: float) -> None:
        self._default_s = default_duration_s

    def predict(self, jobs: Sequence[JobView], now: int) -> list[Prediction | None]:
        """A prediction for every job, none of them from past jobs."""
        return [first_guess(of_view(job), self._default_s, self.model_id, now) for job in jobs]


def cold_start(job: JobAttributes, default_duration_s: float) -> tuple[float, str]:
    """Seconds, and whether the time limit or the site's default gives them."""
    if job.time_limit_s is None:
        return default_duration_s, SITE_DEFAULT
    return float(job.time_limit_s), TIME_LIMIT


def first_guess(
    job: JobAttributes, default_duration_s: float, model_id: str, now: int
) -> Prediction:
    """`cold_start` as a prediction. Nothing is known that could make quantiles."""
    seconds, source = cold_start(job, default_duration_s)
    return Prediction(
        kind=PredictionKind.DURATION,
        mean=seconds,
        quantiles=(),
        source=source,
        model_id=model_id,
        similar_jobs=0,
        as_of=now,
    )
