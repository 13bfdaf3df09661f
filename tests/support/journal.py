"""Rounds, changes and predictions for tests of a journal."""

from __future__ import annotations

from typing import Any

from gsched.model.decision import Reason
from gsched.model.job import JobKey, Prediction, PredictionKind
from gsched.model.journal import Change, RoundInfo

CLUSTER = "alpha"
CHANNEL = "site-factor"
KEY = JobKey(CLUSTER, 7, epoch=1000)


def round_info(round_id: str = "r1", **facts: Any) -> RoundInfo:
    """An acting round of qssf, unless `facts` differ."""
    given: dict[str, Any] = {
        "cluster": CLUSTER,
        "started_at": 2000,
        "policy": "qssf",
        "acting": True,
        "seq": 3,
        "model_id": "m1",
    }
    return RoundInfo(round_id, **(given | facts))


def change(change_id: str, before: int | None, after: int, **facts: Any) -> Change:
    """A change of job 7's site factor, unless `facts` differ."""
    given: dict[str, Any] = {
        "key": KEY,
        "attempt": 1000,
        "channel": CHANNEL,
        "reason": Reason("qssf.predicted-gpu-time", {"num_gpus": 2, "duration_s": 1.5}),
    }
    return Change(change_id, before=before, after=after, **(given | facts))


def prediction(
    mean: float = 120.5, model_id: str = "m1", kind: PredictionKind = PredictionKind.DURATION
) -> Prediction:
    """What a model says of a job."""
    return Prediction(kind, mean, ((0.1, 60.0), (0.9, 300.25)), "similar-name", model_id, 7, 1999)
