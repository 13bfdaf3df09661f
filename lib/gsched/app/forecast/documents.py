"""A forecasting process's answer as what is told of each job, and as what is kept of it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from gsched.app.forecast.changes import limit_advice
from gsched.app.forecast.messages import Answer
from gsched.app.forecast.situation import Scene
from gsched.daemon.forecast_book import Attempt
from gsched.forecast.outlook import Interval, NextFree, Start
from gsched.model.hostlist import fold
from gsched.model.job import JobKey, JobView, Prediction, PredictionKind
from gsched.model.start_forecast import FORECAST_MODEL, RAW_MODEL

BEYOND = "beyond-horizon"
_UNKNOWN = "unknown-nodes"
SOURCE = "forward-run"
"""The rule that gives predictions of starts."""

Changes = Mapping[str, Any]
"""A job's ``changes``, as they are told."""


def attempt_of(view: JobView) -> Attempt:
    """By which a job is told of."""
    return view.key.slurm_id, view.attempt


def documents(
    answer: Answer,
    scene: Scene,
    waiting: Mapping[str, JobView],
    changes: Mapping[Attempt, Changes],
    horizon_s: float,
    hides_from: Mapping[str, str] | None,
) -> dict[Attempt, dict[str, Any]]:
    """What is said of every waiting job (`waiting`: by Slurm's id, those without a forecast too).

    `hides_from` is given where users must not hear of each other's jobs: whose each running job
    is.
    """
    outlook = answer.outlook
    as_of = round(outlook.as_of)
    found: dict[Attempt, dict[str, Any]] = {
        attempt_of(waiting[name]): {"no_start": code} for name, code in scene.no_starts.items()
    }
    for one in outlook.no_starts:
        if (view := scene.waiting.get(one.job_id)) is not None:
            lost = scene.ground.has_lost(view.partitions)
            found[attempt_of(view)] = {"no_start": _UNKNOWN if lost else "never"}
    for start in outlook.starts:
        view = scene.waiting.get(start.job_id)
        if view is None:  # another task of an array that waits as a whole
            continue
        attempt = attempt_of(view)
        if start.start.median >= outlook.as_of + horizon_s:
            found[attempt] = {"no_start": BEYOND}
            continue
        said = _start_document(start, answer, scene)
        following = _next_free(start, answer, view, hides_from)
        if following is not None:
            said["next_free"] = {
                "job": following.job_id,
                "nodes": fold(following.nodes),
                **_interval(following.end, as_of),
            }
        if attempt in changes:
            said["changes"] = dict(changes[attempt])
        found[attempt] = said | _advice_document(view)
    return found


def _start_document(start: Start, answer: Answer, scene: Scene) -> dict[str, Any]:
    as_of = round(answer.outlook.as_of)
    said: dict[str, Any] = {
        "as_of": as_of,
        **_interval(start.start, as_of),
        "coverage": answer.outlook.coverage,
        "calibrated_on": start.calibrated_on,
    }
    if start.job_id in scene.left_out:
        said["left_out"] = list(scene.left_out[start.job_id])
    return {"start": said}


def _advice_document(view: JobView) -> dict[str, Any]:
    advice = limit_advice(view)
    if advice is None:
        return {}
    return {
        "limit_advice": {
            "time_limit_s": advice.time_limit_s,
            "probability": advice.probability,
            "asked_s": view.time_limit_s,
        }
    }


def _next_free(
    start: Start, answer: Answer, view: JobView, hides_from: Mapping[str, str] | None
) -> NextFree | None:
    if start.next_free is None:
        return None
    following = answer.outlook.next_free[start.next_free]
    if hides_from is not None and hides_from.get(following.job_id) != view.user:
        return None
    return following


def changes_tried(answer: Answer, scene: Scene) -> dict[Attempt, Changes]:
    """The ``changes`` of the jobs for which some were tried."""
    as_of = round(answer.outlook.as_of)
    return {
        attempt_of(scene.waiting[one.job_id]): {
            "as_of": as_of,
            "tried": [
                {
                    "kind": changed.kind,
                    "option": changed.option,
                    "value": changed.value,
                    "start": _interval(changed.start, as_of),
                }
                for changed in one.starts
                if changed.start is not None
            ],
        }
        for one in answer.tried
        if one.job_id in scene.waiting
    }


def kept_forecasts(
    answer: Answer, scene: Scene, known: Collection[tuple[JobKey, int]]
) -> list[tuple[JobKey, int, Prediction]]:
    """The first forecast of each attempt that is not `known` yet: as shown, and uncalibrated.

    Of an array that waits as a whole none is kept: its tasks get ids of their own when they start.
    Nor is one of a job that cannot start yet (its begin time): only what it waits from then on can
    be compared, and what is forecast then will be kept.
    """
    found = []
    later = {job.job_id for job in scene.situation.waiting if job.eligible_at is not None}
    for start in answer.outlook.starts:
        view = scene.waiting.get(start.job_id)
        if view is None or (view.key, view.attempt) in known or view.waiting_tasks > 1:
            continue
        if start.job_id in later:
            continue
        for model, interval in ((FORECAST_MODEL, start.start), (RAW_MODEL, start.raw)):
            spread = ((0.1, interval.low), (0.5, interval.median), (0.9, interval.high))
            prediction = Prediction(
                PredictionKind.START, interval.median, spread, SOURCE, model,
                start.calibrated_on, round(answer.outlook.as_of),
            )  # fmt: skip
            found.append((view.key, view.attempt, prediction))
    return found


def _interval(interval: Interval, as_of: int) -> dict[str, int]:
    """In whole seconds; nothing starts or ends before now."""
    return {
        "median": max(as_of, round(interval.median)),
        "low": max(as_of, round(interval.low)),
        "high": max(as_of, round(interval.high)),
    }
