"""`gsched daemon report`: what gsched changed so far, against a control."""

from __future__ import annotations

import time
from typing import Any

import click

from gsched_cli.options import json_option, load_settings
from gsched_cli.output import emit_json, emit_table, safe_text


@click.command()
@click.option("-S", "--since", metavar="T", help="Only from then on (30d, 2026-11-01, …).")
@click.option("-E", "--until", metavar="T", help="Only up to then.")
@click.option(
    "--control",
    type=click.Choice(["time", "partitions"]),
    help="Compare with times of observing, or with control_partitions [these, where there are].",
)
@click.option(
    "--long-wait",
    type=click.FloatRange(min=0),
    metavar="HOURS",
    default=24.0,
    show_default=True,
    help="A job that waited for more hours than this waited long.",
)
@json_option
def report(
    since: str | None, until: str | None, control: Any, long_wait: float, as_json: bool
) -> None:
    """Show what gsched changed so far, against a control.

    The jobs that were first submitted while the daemon acted are compared with those of the times
    in which it only observed (control_interval_s makes such times in turn), or with those of
    control_partitions meanwhile; each counts with its whole time in the queue. An interval is told
    from 7 days in each arm on; before, the difference is unknown. It is unknown, too, when jobs
    that still wait, each taken to wait twice as long in the end or as long as the longest of all,
    could turn it round. Beside that: what was written or would have been, whose jobs were moved,
    and which pairs of jobs stand against QOS or fair-share. It names users: it is for admins.

    \b
    Example:
      gsched daemon report --since 30d

    \b
    JSON:
      cluster, since, until, control, verdict, arms, left_out, differences, bounds, as_of,
        long_wait_s, confidence, min_days, resamples, seed, modes, changes, taken_back, moved,
        would_move, inversions, starving_jobs, requests, jobs_with_requests
      arms[]: arm, days, length_s, jobs, gpu_jobs, ended_jobs, gpu_time_s, crossing_jobs,
        crossing_queueing_mean_s, waiting_jobs, waiting_mean_s, never_started_jobs,
        no_times_jobs, submitted_jobs, submitted_jobs_a_day, submitted_gpu_time_s_a_day
      differences[]: metric, acting, control, difference, low, high
      bounds[]: case, acting, control, difference, low, high

    verdict is never-acted, no-control, too-few-days, not-shown (the interval of the mean time in
    the queue holds 0), unknown, shorter or longer. bounds are that mean with all that is not known
    against one arm (case acting-worst, control-worst). Crossing jobs are among those that count
    and started only after their arm's time had ended; waiting ones had waited so long by as_of.
    submitted_gpu_time_s_a_day is of jobs that have ended. left_out counts jobs by reason, changes
    by state, modes have length_s, rounds and writes. moved and would_move have up, down, users and
    accounts, each with name, up, down and mean_points. inversions has counts, last (qos, fairshare,
    pairs) and greatest_share.
    """
    from gsched.app.impact import ReportQuery, impact_report
    from gsched.app.impact_words import HEADINGS, figure_rows, report_lines
    from gsched.app.when import parse_when

    now = int(time.time())
    query = ReportQuery(
        since=None if since is None else parse_when(since, now),
        until=None if until is None else parse_when(until, now),
        control=control,
        long_wait_s=round(3600 * long_wait),
    )
    found = impact_report(load_settings(), query)
    if as_json:
        emit_json(found.document())
        return
    emit_table(HEADINGS, figure_rows(found), right={1, 2, 3, 4})
    for line in report_lines(found):
        print(safe_text(line))
