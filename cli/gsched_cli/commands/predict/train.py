"""`gsched predict train`: fit a model on the history."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from gsched_cli.options import json_option, load_settings
from gsched_cli.output import count, duration, emit_json, emit_table, local_time, say

if TYPE_CHECKING:
    from gsched.app.training import TrainingResult
    from gsched.predict.censoring import HistorySpan

_HELD_OUT = {
    "last-fifth": "the last fifth of the jobs",
    "every-fifth": "every fifth job in turn",
}


@click.command()
@click.option(
    "--until",
    metavar="TIME",
    help="Learn only from jobs that ended before TIME (2d, 2026-11-29).",
)
@click.option(
    "--keep-pin",
    is_flag=True,
    help="Leave a model in use that is pinned (`gsched predict rollback`), as timers do.",
)
@json_option
def train(until: str | None, keep_pin: bool, as_json: bool) -> None:
    """Fit a model on the finished jobs in the history and put it into use.

    A rolling estimate from each user's similar jobs and a regression are mixed, for jobs with GPUs
    (`gpu`) and for those without (`cpu`). The share of each, lambda, is chosen on jobs that the fit
    has not seen; how well the model, its parts and predictors that need no model do on them is
    printed. RANK-CORR is the rank correlation of predicted with true GPU-time; half of the
    predicted durations are off by no more than the factor OFF-BY. With too few jobs nothing is
    trained and the old model stays. Earlier models are kept, see `gsched predict rollback`; every
    fit is recorded, see `gsched predict fits`. While the history is shorter than the time limits,
    jobs that run for long have not ended yet, and the intervals are too narrow: that is said.

    \b
    Example:
      gsched predict train

    \b
    JSON:
      file, cluster, model_id, trained_at, as_of, data_from, data_until, num_jobs, left_out,
        default_duration_s, features, kinds, versions, history_s, long_limit_s, took_s,
        in_use, why

    history_s is from the first submission to the last end; 99 % of the time limits are long_limit_s
    or less (null: no job has one).
    """
    from gsched.app.training import train as train_model
    from gsched.app.when import parse_when
    from gsched.app.wiring import now, open_history

    settings = load_settings()
    as_of = None if until is None else parse_when(until, now())
    with open_history(settings) as history:
        result = train_model(settings, history, as_of, by_timer=keep_pin)
    if as_json:
        emit_json(result.document())
    else:
        _print_training(result)
    if result.span.is_short:
        say("intervals are too narrow until the history outlasts the limits")
    if settings.predict.estimator != "model":
        say(f"predict.estimator is {settings.predict.estimator!r}: this model is not in use")


def _print_training(result: TrainingResult) -> None:
    info, told = result.info, result.document()
    rows = [
        ("model", info.model_id),
        ("in use", str(result.path) if result.is_in_use else f"no: {result.fit.why}"),
        ("learnt from", f"{count(info.num_jobs)} jobs of cluster {result.run.cluster}"),
        ("ended until", local_time(info.data_until)),
        ("history", _span(result.span)),
        ("took", duration(result.run.took_s)),
    ]
    if any(told["left_out"].values()):
        shown = ", ".join(f"{count(n)} {reason}" for reason, n in told["left_out"].items() if n)
        rows.append(("left out", shown))
    for kind, of_kind in told["kinds"].items():
        rows.append((f"{kind} jobs", count(of_kind["num_jobs"])))
        rows.append((f"{kind} lambda", f"{of_kind['lambda']:.1f} (share of the rolling estimate)"))
        if of_kind["validation"]:
            held_out = of_kind["validation"]["held_out"]
            number = count(of_kind["validation"]["num_held_out"])
            rows.append((f"{kind} tested on", f"{number} jobs, {_HELD_OUT[held_out]}"))
    emit_table(["WHAT", "IS"], rows)
    _print_scores(told["kinds"])


def _span(span: HistorySpan) -> str:
    told = duration(span.length_s)
    if span.long_limit_s is None:
        return told
    return f"{told}, 99 % of the time limits are {duration(span.long_limit_s)} or less"


def _print_scores(kinds: dict[str, Any]) -> None:
    from gsched.app.model_lifecycle import score_rows

    for kind, of_kind in kinds.items():
        if of_kind["validation"] is None:
            say(f"too few {kind} jobs to compare estimators: the rolling estimate is used alone")
    rows = score_rows(kinds)
    if rows:
        print()
        emit_table(["KIND", "ESTIMATOR", "RANK-CORR", "OFF-BY"], rows, right={2, 3})
