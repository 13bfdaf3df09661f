"""`gsched predict`: the run-time predictor."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import click

from gsched_cli.options import json_option, load_settings
from gsched_cli.output import count, duration, emit_json, emit_table, local_time, say

if TYPE_CHECKING:
    from gsched.app.training import JobPrediction, TrainingResult

_SHOWN_MATCHES = 10

_HELD_OUT = {
    "last-fifth": "the last fifth of the jobs",
    "every-fifth": "every fifth job in turn",
}


@click.group()
def predict() -> None:
    """Train the run-time predictor on the job history, and ask it.

    \b
    Example:
      gsched predict train
      gsched predict job 48211

    \b
    JSON:
      job, user, name, num_gpus, num_cpus, estimator, prediction, similar_jobs
      similar_jobs[]: job_id, name, end_time, duration_s, weight
    """


@predict.command()
@click.option(
    "--until",
    metavar="TIME",
    help="Learn only from jobs that ended before TIME (2d, 2026-11-29).",
)
@json_option
def train(until: str | None, as_json: bool) -> None:
    """Fit a model on the finished jobs in the history and put it into use.

    A rolling estimate from each user's similar jobs and a regression are mixed. The share of each
    is chosen on jobs that the fit has not seen; how well the model, its parts and plain means do on
    them is printed. RANK-CORR is the rank correlation of predicted with true GPU-time (for `mean`
    it comes from the GPU counts alone); half of the predicted durations are off by no more than the
    factor OFF-BY. With too few jobs nothing is trained and the old model stays.

    \b
    Example:
      gsched predict train

    \b
    JSON:
      file, cluster, model_id, trained_at, as_of, data_from, data_until, num_jobs, left_out,
        features, versions, lambda, validation
    """
    from gsched.app.training import train as train_model
    from gsched.app.when import parse_when
    from gsched.app.wiring import now, open_history

    settings = load_settings()
    as_of = None if until is None else parse_when(until, now())
    with open_history(settings) as history:
        result = train_model(settings, history, as_of)
    if as_json:
        emit_json(result.document())
    else:
        _print_training(result)
    if settings.predict.estimator != "model":
        say(f"predict.estimator is {settings.predict.estimator!r}: this model is not in use")


def _print_training(result: TrainingResult) -> None:
    info, validation = result.info, result.info.validation
    rows = [
        ("model", info.model_id),
        ("file", str(result.path)),
        ("learnt from", f"{count(info.num_jobs)} jobs of cluster {result.cluster}"),
        ("ended until", local_time(info.data_until)),
    ]
    left_out = {**info.left_out, "incomplete-record": result.unknown_jobs}
    if any(left_out.values()):
        shown = ", ".join(f"{count(n)} {reason}" for reason, n in left_out.items() if n)
        rows.append(("left out", shown))
    rows.append(("lambda", f"{info.lam:.1f} (share of the rolling estimate)"))
    if validation:
        held_out = _HELD_OUT[validation.held_out]
        rows.append(("tested on", f"{count(validation.num_held_out)} jobs, {held_out}"))
    emit_table(["WHAT", "IS"], rows)
    if validation is None:
        say("too few jobs to compare estimators: the rolling estimate is used alone")
        return
    print()
    emit_table(
        ["ESTIMATOR", "RANK-CORR", "OFF-BY"],
        [
            (name, f"{score.rank_correlation:.2f}", f"×{math.exp(score.log_error):.2f}")
            for name, score in validation.scores.items()
        ],
        right={1, 2},
    )


@predict.command()
@click.argument("job")
@json_option
def job(job: str, as_json: bool) -> None:
    """Predict how long JOB runs, and show the past jobs behind the prediction.

    JOB is an id as squeue prints it: 48211, 48211_3, 48211+1.

    \b
    Example:
      gsched predict job 48211

    \b
    JSON:
      job, user, name, num_gpus, num_cpus, estimator, prediction, similar_jobs
      similar_jobs[]: job_id, name, end_time, duration_s, weight
    """
    from gsched.app.training import predict_job

    answer = predict_job(load_settings(), job)
    if as_json:
        emit_json(answer.document())
        return
    _print_prediction(answer)


def _print_prediction(answer: JobPrediction) -> None:
    from gsched.explain.policy_reasons import prediction_source

    view, prediction = answer.job, answer.prediction
    rows = [("job", view.key.slurm_id), ("name", view.name), ("user", view.user)]
    if prediction is None:
        emit_table(["WHAT", "IS"], [*rows, ("duration", "no prediction")])
        return
    gpus = view.request.gpus.minimum
    size, unit = (gpus, "GPU") if gpus else (view.request.num_cpus, "CPU")
    rows += [
        ("duration", f"{duration(prediction.mean)} (mean)"),
        *((f"{p:.0%} end within", duration(value)) for p, value in prediction.quantiles),
        (
            f"{unit}-time",
            f"{size} × {prediction.mean:.1f} s = {size * prediction.mean:.0f} {unit}-s",
        ),
        ("source", prediction_source(prediction.source, prediction.similar_jobs)),
        ("model", prediction.model_id),
    ]
    emit_table(["WHAT", "IS"], rows)
    matches = answer.estimate.matches if answer.estimate else ()
    if not matches:
        return
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
