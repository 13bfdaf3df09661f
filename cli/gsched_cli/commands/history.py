"""`gsched history`: past jobs."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import click

from gsched_cli import completion as complete
from gsched_cli.history_columns import COLUMNS, DEFAULT
from gsched_cli.options import json_option, load_settings, warn_of_other_clusters
from gsched_cli.output import emit_json, local_time, say
from gsched_cli.tables import Layout, print_rows, table_options

if TYPE_CHECKING:
    from gsched.app.past import PastList


@click.command()
@click.option(
    "-u",
    "--user",
    "users",
    multiple=True,
    shell_complete=complete.users,
    help="Only this user's jobs; repeatable.",
)
@click.option(
    "-A",
    "--account",
    "accounts",
    multiple=True,
    shell_complete=complete.accounts,
    help="Only this account's jobs.",
)
@click.option(
    "-p",
    "--partition",
    "partitions",
    multiple=True,
    shell_complete=complete.partitions,
    help="Only this partition's jobs.",
)
@click.option("-n", "--name", "names", multiple=True, help="Only jobs of this whole name.")
@click.option(
    "-s",
    "--state",
    "states",
    multiple=True,
    shell_complete=complete.states,
    help="Only this end (FAILED, F).",
)
@click.option(
    "-S",
    "--since",
    "--starttime",
    "since",
    help="Jobs that waited or ran then or later (2d, 6h, 2026-11-29, 13:00).",
)
@click.option("-E", "--until", "--endtime", "until", help="Jobs submitted before this time.")
@click.option("-j", "--job", "--jobs", "job", help="Only this id; an array's means all its tasks.")
@click.option(
    "--limit", type=click.IntRange(min=1), default=50, show_default=True, help="The newest so many."
)
@table_options(COLUMNS, DEFAULT)
@json_option
def history(
    users: tuple[str, ...],
    accounts: tuple[str, ...],
    partitions: tuple[str, ...],
    names: tuple[str, ...],
    states: tuple[str, ...],
    since: str | None,
    until: str | None,
    job: str | None,
    limit: int,
    layout: Layout,
    as_json: bool,
) -> None:
    """List past and present jobs from the history, the newest first.

    A line is one job with all of its requeues: SUBMIT is its first submit, QUEUED the time that it
    waited in all, RUN that of its last attempt. Where this host has no history database that you
    may read, the jobs are those that sacct shows to you: your own (root: all users') of the last 7
    days, unless -u, -j and -S say otherwise. Without slurmdbd they are those of them that slurmctld
    still remembers.

    \b
    Example:
      gsched history -u alice -S 7d -s FAILED

    \b
    JSON:
      source, since, users, jobs, more, rejects
      jobs[]: job, cluster, user, account, partition, qos, name, state, state_text, num_gpus,
        num_cpus, num_nodes, time_limit_s, submit_time, start_time, end_time, queueing_s,
        duration_s, gpu_time_s, attempts

    source is database, sacct or squeue; since and users are what sacct was asked for. A
    time_limit_s of null is unlimited, or unknown.
    """
    from gsched.app.past import PastQuery, list_past

    query = PastQuery(users, accounts, partitions, names, states, since, until, job, limit)
    settings = load_settings()
    warn_of_other_clusters(settings)
    found = list_past(settings, query, int(time.time()))
    if as_json:
        emit_json(found.document())
    else:
        print_rows(layout, found.jobs)
    _say_where(found, limit)


def _say_where(found: PastList, limit: int) -> None:
    source = found.found
    if source.source == "sacct":
        whose = ",".join(source.users) or "all users that you may see"
        since = f" since {local_time(source.since)}" if source.since else ""
        say(f"{source.no_database}: sacct's jobs of {whose}{since}")
    elif source.source == "squeue":
        say(f"{source.no_database}, and no slurmdbd: only what slurmctld remembers")
    if source.rejects:
        say(f"{len(source.rejects)} rows of {source.source} were not understood")
    if found.more:
        say(f"there are more; --limit {limit * 2} shows them")
