"""Predicted run times, kept from round to round: one an attempt and model.

An attempt keeps the prediction that it had while it waited. Of one that ran already when it was
first seen it is made then, and not journalled: it would be compared with a truth half known.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from gsched.engine.ports import Journal, Predictor
from gsched.model.cluster import ClusterState
from gsched.model.job import JobKey, JobState, JobView, Prediction
from gsched.model.jobtable import JobTable

_Attempt = tuple[JobKey, int]

_PREDICTED = frozenset({JobState.PENDING, JobState.RUNNING, JobState.SUSPENDED})


class PredictionBook:
    """Fills in predictions. Holds what the last snapshot's jobs need, and no more."""

    def __init__(self) -> None:
        self._model_id = ""
        self._predicted: dict[_Attempt, Prediction | None] = {}
        # A record as the backend gave it and with its prediction, by the identity of the former.
        self._filled: dict[int, tuple[JobView, JobView]] = {}
        self._last: tuple[JobTable, JobTable] | None = None  # as given, as filled in

    def __len__(self) -> int:
        return len(self._predicted)

    def fill(self, state: ClusterState, predictor: Predictor, journal: Journal) -> ClusterState:
        """`state` with predictions of what waits and runs; those of waiting jobs are journalled."""
        if self._model_id != predictor.model_id:
            self._predicted, self._filled, self._last = {}, {}, None
            self._model_id = predictor.model_id
        if self._last is None or self._last[0] is not state.jobs:
            self._last = (state.jobs, self._table(state, predictor, journal))
        return replace(state, jobs=self._last[1])

    def _table(self, state: ClusterState, predictor: Predictor, journal: Journal) -> JobTable:
        views = state.jobs.views
        self._predict_new(views, state.as_of, predictor, journal)
        before = self._filled
        pairs = [before.get(id(view)) or (view, self._with_its_own(view)) for view in views]
        self._filled = {id(pair[0]): pair for pair in pairs}
        fresh = [_attempt(bare) for bare, _ in pairs if id(bare) not in before and _is_told(bare)]
        kept = {attempt: self._predicted[attempt] for attempt in fresh}
        for identity, (bare, _) in before.items():
            if identity not in self._filled:
                self._predicted.pop(_attempt(bare), None)
        self._predicted.update(kept)  # of a job that has changed, not left
        return state.jobs.with_predictions([filled for _, filled in pairs])

    def _predict_new(
        self, views: Sequence[JobView], as_of: int, predictor: Predictor, journal: Journal
    ) -> None:
        new = [
            v
            for v in views
            if id(v) not in self._filled and _is_told(v) and _attempt(v) not in self._predicted
        ]
        if not new:
            return
        made = [_usable(p) for p in predictor.predict(new, as_of)]
        waiting = [(*_attempt(v), p) for v, p in zip(new, made, strict=True) if p and _waits(v)]
        journal.record_predictions(waiting, as_of)
        self._predicted.update(zip(map(_attempt, new), made, strict=True))

    def _with_its_own(self, view: JobView) -> JobView:
        prediction = self._predicted.get(_attempt(view))
        if prediction is None or not _is_told(view):
            return view
        return replace(view, predictions=(prediction,))


def _attempt(view: JobView) -> _Attempt:
    return view.key, view.attempt


def _waits(view: JobView) -> bool:
    return view.state is JobState.PENDING


def _is_told(view: JobView) -> bool:
    return view.state in _PREDICTED


def _usable(prediction: Prediction | None) -> Prediction | None:
    """None instead of a prediction that is no finite number: the job keeps the median place."""
    if prediction is None or not math.isfinite(prediction.mean):
        return None
    values = (value for _, value in prediction.quantiles)
    return prediction if all(map(math.isfinite, values)) else None
