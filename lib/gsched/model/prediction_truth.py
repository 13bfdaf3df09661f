"""What became of predictions: how far they were from what came true."""

from __future__ import annotations

from dataclasses import dataclass

from gsched.model.job import PredictionKind


@dataclass(frozen=True, slots=True)
class PredictionTruth:
    """The predictions of one kind by one model; errors in the kind's own unit (seconds).

    `known` of the `made` ones have met their truth, that is for a run time: the attempt has run to
    an end on this cluster, for a start: it has started. `median_error` is that of |predicted −
    actual|, `mean_error` that of predicted − actual (positive: too long, too late), both None
    while nothing is known. `coverage` are (probability of a quantile, share of truths that were
    at most its value, how many truths that is of).
    """

    kind: PredictionKind
    model_id: str
    made: int
    known: int
    median_error: float | None
    mean_error: float | None
    coverage: tuple[tuple[float, float, int], ...] = ()
