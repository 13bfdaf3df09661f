"""The estimator ``constant``: every job alike, so that the GPU count alone makes the order."""

from __future__ import annotations

from collections.abc import Sequence

from gsched.model.job import JobView, Prediction, PredictionKind

DURATION_S = 3600.0


class ConstantEstimator:
    """Predicts one hour for every job; a control beside the model."""

    model_id = "constant"

    def predict(self, jobs: Sequence[JobView], now: int) -> list[Prediction | None]:
        """The same prediction for every job."""
        prediction = Prediction(
            kind=PredictionKind.DURATION,
            mean=DURATION_S,
            quantiles=(),
            source="constant",
            model_id=self.model_id,
            similar_jobs=0,
            as_of=now,
        )
        return [prediction] * len(jobs)
