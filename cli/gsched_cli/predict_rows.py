"""What `predict job` prints: the prediction, what makes it, and the past jobs behind it."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING

from gsched.explain.policy_reasons import prediction_source
from gsched_cli.output import duration, emit_table, local_time, say

if TYPE_CHECKING:
    from gsched.app.job_prediction import JobPrediction
    from gsched.model.job import Prediction
    from gsched.predict.explanation import Explanation
    from gsched.predict.rolling import Estimate

_SHOWN_MATCHES = 10
_INTERVAL = (0.1, 0.9)
_LEAST_LOG = 0.01

_WORDS = {
    "similar-jobs": "its similar past jobs",
    "last-jobs": "the user's last jobs, and how long ago",
    "same-request": "the user's jobs of this size and time limit",
    "user": "the user",
    "account": "the account",
    "partition": "the partition",
    "name": "the job's name",
    "gpus": "its GPUs",
    "cpus": "its CPUs",
    "nodes": "its nodes",
    "time-limit": "its time limit",
    "submitted-at": "the time of its submission",
}


def print_prediction(answer: JobPrediction) -> None:
    """Print all of it as text."""
    view, prediction = answer.job, answer.prediction
    rows = [("job", view.key.slurm_id), ("name", view.name), ("user", view.user)]
    if prediction is None:
        emit_table(["WHAT", "IS"], [*rows, ("duration", "no prediction")])
        return
    gpus = view.request.gpus.minimum
    size, unit = (gpus, "GPU") if gpus else (view.request.num_cpus, "CPU")
    rows += _durations(prediction)
    rows.append(
        (
            f"{unit}-time",
            f"{size} × {prediction.mean:.1f} s = {size * prediction.mean:.0f} {unit}-s",
        )
    )
    rows.append(("source", prediction_source(prediction.source, prediction.similar_jobs)))
    rows.append(("model", prediction.model_id))
    rows.append(("knows jobs until", local_time(prediction.as_of)))
    emit_table(["WHAT", "IS"], rows)
    if answer.explanation is not None:
        _print_explanation(answer.explanation, prediction)
    if answer.estimate is not None:
        _print_similar(answer.estimate)


def _durations(prediction: Prediction) -> Iterator[tuple[str, str]]:
    quantiles = dict(prediction.quantiles)
    if 0.5 in quantiles:
        yield "median", duration(quantiles[0.5])
    if quantiles.keys() >= set(_INTERVAL):
        low, high = (duration(quantiles[p]) for p in _INTERVAL)
        yield "80 % interval", f"{low} to {high}"
    yield "mean", duration(prediction.mean)
    if prediction.caution > 1:
        yield (
            "caution",
            f"×{prediction.caution:.2f}, in the mean: recent jobs of this user outran theirs",
        )


def _print_explanation(explanation: Explanation, prediction: Prediction) -> None:
    """What changes the prediction by less than a hundredth is told in one row."""
    shown = [c for c in explanation.contributions if abs(c.log_s) >= _LEAST_LOG]
    rows = [("a typical job of the history", duration(explanation.typical_s), "", "")]
    so_far_s = explanation.typical_s
    for contribution in shown:
        so_far_s *= contribution.factor
        error = contribution.factor * math.expm1(contribution.standard_error)
        rows.append(
            (
                _WORDS[contribution.name],
                f"×{contribution.factor:.2f}",
                f"±{error:.2f}",
                duration(so_far_s),
            )
        )
    if len(shown) < len(explanation.contributions):
        rest = explanation.predicted_s / so_far_s
        rows.append(("all else", f"×{rest:.2f}", "", duration(explanation.predicted_s)))
    if prediction.caution > 1:
        rows.append(("caution", f"×{prediction.caution:.2f}", "", duration(prediction.mean)))
    print()
    emit_table(["WHAT MAKES IT", "FACTOR", "SAMPLING", "SO FAR"], rows, right={1, 2, 3})


def _print_similar(estimate: Estimate) -> None:
    matches = estimate.matches
    print()
    emit_table(
        ["JOBID", "ENDED", "RAN", "SHARE", "NAME"],
        [
            (
                str(match.run.job_id),
                local_time(match.run.end_time),
                duration(match.run.duration_s),
                f"{match.weight:.0%}",
                "-" if match.name is None else match.name,
            )
            for match in matches[:_SHOWN_MATCHES]
        ],
        right={0, 2, 3},
    )
    if len(matches) > _SHOWN_MATCHES:
        say(f"{len(matches) - _SHOWN_MATCHES} more past jobs: --json shows all")
