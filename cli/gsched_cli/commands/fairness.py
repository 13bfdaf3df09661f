"""`gsched fairness`: who received how much of what was theirs, and who is owed how much."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gsched.errors import UsageError
from gsched_cli import completion as complete
from gsched_cli.options import json_option, load_settings
from gsched_cli.output import emit_json, emit_table, local_time, safe_text, say

if TYPE_CHECKING:
    from gsched.app.fairness.query import FairnessQuery
    from gsched.app.fairness.report import FairnessReport
    from gsched.app.sim.tables import Table
    from gsched.config.settings import Settings


@click.command()
@click.option(
    "-A",
    "--account",
    "accounts",
    metavar="NAME",
    multiple=True,
    shell_complete=complete.accounts,
    help="Only this account, and its jobs; repeatable.",
)
@click.option(
    "-u",
    "--user",
    "users",
    metavar="NAME",
    multiple=True,
    shell_complete=complete.users,
    help="Jobs of this user, and their accounts; repeatable.",
)
@click.option(
    "-j",
    "--job",
    metavar="ID",
    shell_complete=complete.jobs,
    help="This job, and its account; an array's id means all its tasks.",
)
@click.option(
    "-S",
    "--since",
    metavar="T",
    help="From then on (30d, 6h, 2026-11-29) [7d].",
)
@click.option("-E", "--until", metavar="T", help="Up to then [now].")
@click.option(
    "--html",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    help="Write a page with figures: DIR/index.html.",
)
@json_option
def fairness(
    accounts: tuple[str, ...],
    users: tuple[str, ...],
    job: str | None,
    since: str | None,
    until: str | None,
    html: Path | None,
    as_json: bool,
) -> None:
    """Show who received how much of what was theirs, and who is owed how much.

    Two accounts that never mix. The metric judges: R is the GPU-time that an account (or a job)
    received for each that it was entitled to, which is what it asked for, at most its quota (of a
    job: at most its part of the account's quota). Below 0.95 it is in loss. The rule decides, where
    the policy ltgf is in use: OWED is the quota's part of all GPU-time that anybody received, less
    what the account itself received; older time counts less. Who is owed most comes first.

    Where the quotas are from (gsched.toml(5), GrpTRES or shares of Slurm's accounts, or equal
    parts) is told, and so is what is not known. GPUs count by their worth. All is made from the job
    history, so that any time can be asked about, also times at which no daemon ran. The plot has a
    column an hour, or day, or longer. See gsched-fairness(7).

    Without a database that shows all users' jobs, what the daemon tells everybody is shown: the
    accounts' standing over the last 7 days, unless PrivateData of slurm.conf hides usage.

    \b
    Example:
      gsched fairness
      gsched fairness -A lab2 --since 30d
      gsched fairness -j 48211

    \b
    JSON:
      told_by, cluster, since, until, policy, half_life_s, quota_source, quotas_since,
        gpu_weights, loss_below, tenants, jobs_counted, loss_jobs, jobs, history, known
      tenants[]: tenant, quota_gpus, r, received_gpu_hours, entitled_gpu_hours,
        owed_gpu_hours, due_gpu_hours, demanded_gpu_hours, borrowed_gpu_hours, lent_gpu_hours,
        jobs, loss_jobs, steps, unfair_steps
      jobs[]: job, user, tenant, r, received_gpu_hours, entitled_gpu_hours

    told_by is history or daemon; the daemon tells cluster, since, until, policy, half_life_s,
    quota_source and tenants, without jobs and steps. quota_source is settings, limits, shares or
    equal. jobs are there with -A, -u or -j. loss_jobs of jobs_counted have an r below loss_below,
    and so have unfair_steps of the steps in which an account asked for GPUs. history has step_s,
    begins and tenants, each with gpus, quota_gpus and r step by step. known has since (from when on
    the past was read), told_until (until when slurmdbd has been read; a window that begins before
    it ends there), open_attempts, assumed_ends, unknown_gpus, odd_times, pruned_before and
    weights_changed (when gpu_weights, by which GPUs count at the end, became others). Times are
    epoch seconds; null: there is nothing to tell.
    """
    from gsched.app.wiring import why_no_history

    settings = load_settings()
    query = _query(accounts, users, job, since, until)
    narrowed = bool(since or until or html)
    if missing := why_no_history(settings):
        _show_standing(settings, query, missing, as_json, narrowed)
        return
    from gsched.app.fairness.report import OwnJobsAloneError, fairness_report

    try:
        found = fairness_report(settings, query)
    except OwnJobsAloneError as error:
        _show_standing(settings, query, error.message, as_json, narrowed)
        return
    if as_json:
        emit_json(found.document())
    else:
        _print(found)
    if html is not None:
        from gsched.app.fairness.page import write_page

        say(f"{write_page(html, found)} is written")


def _query(
    accounts: tuple[str, ...],
    users: tuple[str, ...],
    job: str | None,
    since: str | None,
    until: str | None,
) -> FairnessQuery:
    from gsched.app.fairness.query import FairnessQuery
    from gsched.app.named_job import named_job
    from gsched.app.when import parse_when
    from gsched.app.wiring import now

    at = now()
    query = FairnessQuery(
        since=parse_when(since or "7d", at),
        until=at if until is None else min(parse_when(until, at), at),
        accounts=accounts,
        users=users,
        job=None if job is None else named_job(job),
    )
    if query.since >= query.until:
        raise UsageError("there is no time between --since and --until")
    return query


def _print(found: FairnessReport) -> None:
    from gsched.app.fairness.tables import tables
    from gsched.app.fairness.words import report_lines
    from gsched_cli.fairness_plot import plot_lines

    for table in tables(found):
        _print_table(table)
        print()
    plotted = list(plot_lines(found))
    for line in [*plotted, *([""] if plotted else [])]:
        print(line)
    for line in report_lines(found):
        print(f"- {safe_text(line)}")


def _print_table(table: Table) -> None:
    print(safe_text(f"{table.title}:"))
    emit_table(table.headings, table.rows, right=range(table.num_names, len(table.headings)))


def _show_standing(
    settings: Settings, query: FairnessQuery, missing: str, as_json: bool, narrowed: bool
) -> None:
    """What the daemon tells everybody."""
    from gsched.app.fairness.public import told_standing

    told: dict[str, Any] = told_standing(settings, query, missing, narrowed=narrowed)
    if as_json:
        emit_json(told)
        return
    from gsched.app.fairness.public import STANDING_HEADINGS, standing_row, standing_words

    print("How accounts stand (GPU-h):")
    rows = [standing_row(row) for row in told["tenants"]]
    emit_table(STANDING_HEADINGS, rows, right=range(1, len(STANDING_HEADINGS)))
    print()
    span = f"{local_time(told['since'])} to {local_time(told['until'])}"
    for line in (f"Cluster {told['cluster']} from {span}, as its daemon tells; {missing}.",
                 *standing_words(told)):  # fmt: skip
        print(f"- {safe_text(line)}")
