"""`gsched predict eval`: how good the predictions would have been."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from gsched_cli.options import json_option, load_settings
from gsched_cli.output import emit_json, emit_table, safe_text, say
from gsched_cli.trace_options import trace_options

if TYPE_CHECKING:
    from gsched.app.evaluation.evaluate import Evaluation
    from gsched.app.trace_formats import TraceOptions

_FOLDER = click.Path(path_type=Path, file_okay=False)


@click.command("eval")
@click.argument("files", metavar="[FILE]...", nargs=-1)
@click.option("--since", metavar="TIME", help="Judge only jobs submitted since (30d, 2026-01-31).")
@click.option(
    "--refit",
    type=click.FloatRange(min=0.01, max=3660),
    default=7.0,
    show_default=True,
    metavar="DAYS",
    help="Fit the model anew so often on the way.",
)
@click.option("--html", type=_FOLDER, metavar="DIR", help="Write a page: DIR/index.html.")
@partial(trace_options, required=False)
@json_option
def evaluate(
    files: tuple[str, ...],
    since: str | None,
    refit: float,
    html: Path | None,
    told: TraceOptions | None,
    cluster: str | None,
    as_json: bool,
) -> None:
    """Judge the run-time predictions on past jobs: those of the history, or of FILEs.

    Each job is predicted as it was submitted, from the jobs that had ended before, by the model,
    its parts, and what needs no model. On the way the model is fitted anew and learns from each job
    as it ends. GPU jobs and CPU jobs are judged apart. Formats and packing are those of `gsched db
    import`; nothing is written, and the model in use is neither used nor changed.

    \b
    Example:
      gsched predict eval --since 30d
      gsched predict eval --format swf KTH-SP2.swf.gz --html out

    \b
    JSON:
      source, since, until, left_out, not_judged, waits_known, told, history_s, long_limit_s,
        early_jobs, refit_s, fits, kinds
      fits[]: as_of, num_jobs, lambda
      kinds[]: kind, jobs, interval_unit, interval_blocks, contenders, coverage, calibration,
        rules, weeks, worst_week, caution_jobs, cautious_rank_correlation

    Of kinds[], each of contenders has name, rank_correlation (of GPU-time, CPU-time of jobs without
    GPUs), rank_correlation_duration, log_error (natural logarithm), model_gain, each with value,
    low and high, and within_factor_2, accuracy, median_abs_error_s, mean_abs_error_s, short_share;
    each of coverage has nominal, jobs, covered and worst_week (a job that Slurm ended after its
    time limit counts as ended at the limit, which no interval exceeds); each of rules and weeks its
    jobs and figures; calibration has pairs of a quantile's probability and the share of jobs that
    ended by it. The log lasts history_s; 99 % of its time limits are long_limit_s or less;
    early_jobs were submitted before the log had lasted as long: intervals are too narrow until the
    history outlasts the limits. Times are epoch seconds, durations seconds, shares parts of 1;
    null: there is none.
    """
    from gsched.app.evaluation.evaluate import EvaluationOrder
    from gsched.app.evaluation.evaluate import evaluate as judged
    from gsched.app.when import parse_when
    from gsched.app.wiring import now
    from gsched_cli.long_work import long_work

    at = now()
    order = EvaluationOrder(
        files,
        told,
        cluster,
        None if since is None else parse_when(since, at),
        round(refit * 86_400),
    )
    with long_work() as progress:
        evaluation = judged(order, load_settings(), progress, at)
    if as_json:
        emit_json(evaluation.document())
    else:
        _print(evaluation)
    if html is not None:
        from gsched.app.evaluation.page import write_page

        say(f"{write_page(html, evaluation)} is written")


def _print(evaluation: Evaluation) -> None:
    from gsched.app.evaluation.tables import lines, tables

    for table in tables(evaluation):
        print(safe_text(f"{table.title}:"))
        emit_table(table.headings, table.rows, right=range(table.num_names, len(table.headings)))
        print()
    print("What the figures are of, and what they mean:")
    for line in lines(evaluation):
        print(f"- {safe_text(line)}")
