"""`gsched history`: past jobs, one by one or in sums."""

from __future__ import annotations

import time
from typing import Any

import click

from gsched.model.usage_groups import GROUPINGS
from gsched_cli import completion as complete
from gsched_cli import group_columns, history_columns
from gsched_cli.history_words import say_what_is_left_out, say_where
from gsched_cli.options import json_option, load_settings, warn_of_other_clusters
from gsched_cli.output import emit_json, say
from gsched_cli.past_options import past_filters
from gsched_cli.tables import Layout, Variant, print_rows, table_options


@click.command()
@past_filters
@click.option(
    "-j",
    "--job",
    "--jobs",
    "job",
    shell_complete=complete.jobs,
    help="Only this id; an array's means all its tasks.",
)
@click.option(
    "--by",
    type=click.Choice(GROUPINGS),
    metavar="WHAT",
    is_eager=True,
    help=f"Sums over groups instead of a list: {', '.join(GROUPINGS)}.",
)
@click.option(
    "--limit",
    type=click.IntRange(min=1),
    default=50,
    show_default=True,
    help="The newest so many; with --by the first so many groups.",
)
@click.option("--after", metavar="MARK", help="Go on where the page before has ended.")
@table_options(
    history_columns.COLUMNS,
    history_columns.DEFAULT,
    Variant("by", group_columns.COLUMNS, group_columns.DEFAULT),
)
@json_option
def history(
    filters: dict[str, Any],
    job: str | None,
    by: Any,
    limit: int,
    after: str | None,
    layout: Layout,
    as_json: bool,
) -> None:
    """List past and present jobs from the history, the newest first, or sum them up by groups.

    A line is one job with all of its requeues: SUBMIT is its first submit, QUEUED the time that it
    waited in all, RUN that of its last attempt, GPUTIME and CPUTIME what all attempts held. Where
    this host has no history database that you may read, the jobs are those that sacct shows to
    you: your own (root: all users') of the last 7 days, unless -u, -j and -S say otherwise.
    Without slurmdbd they are those of them that slurmctld still remembers.

    With --by, jobs are summed up: day and month are those of the end, in UTC; names are put
    together when they differ in numbers, dates and hashes only. GPUHOURS are known of GPUJOBS jobs,
    CPUHOURS of CPUJOBS, and so on; QUEUED and RUN are means over the jobs of which they are known.
    FAILED are jobs in state FAILED, TIMEOUT, NODE_FAIL, PREEMPTED, BOOT_FAIL, DEADLINE or
    OUT_OF_MEMORY. Of jobs that were pruned the sums of each day are counted in, by the day of their
    end, but for names and QOS.

    \b
    Example:
      gsched history -u alice -S 7d -s FAILED
      gsched history --by user -S 30d -o +failedshare
      gsched history --by phase -A nlp

    \b
    JSON:
      source, since, users, rejects, jobs, more, after
      jobs[]: job, cluster, user, account, partition, qos, name, state, state_text, num_gpus,
        num_cpus, num_nodes, time_limit_s, submit_time, start_time, end_time, queueing_s,
        duration_s, gpu_time_s, cpu_time_s, phase, attempts

    source is database, sacct or squeue; since and users are what sacct was asked for. A
    time_limit_s of null is unlimited, or unknown. after is the MARK of the next page, or null.
    Each of attempts, the oldest first, has submit_time, eligible_time, start_time, end_time,
    duration_s, state, state_text, exit_code, exit_signal, num_gpus, num_cpus, num_nodes,
    node_list, restarts, source (of its state: sacct, jobcomp, squeue or the format of a trace),
    source_id (an id that is no number of Slurm's), extra (an object of what gsched has no place
    for), requested and allocated (objects of Slurm's TRES with their counts, memory in bytes).

    \b
    JSON with by:
      source, since, users, rejects, by, total, groups, more, num_groups, pruned_jobs,
        pruned_left_out
      groups[]: key, examples, jobs, attempts, gpu_time_jobs, gpu_time_s, cpu_time_jobs,
        cpu_time_s, duration_jobs, duration_s, queueing_jobs, queueing_s, failed, states

    A key is null where it is not known, and day and month where a job has not ended. total has the
    sums of all groups; failed and each of states (by name) have the same sums as a group.
    pruned_jobs are counted in; pruned_left_out could not be.
    """
    from gsched.app.past import PastQuery, group_past, list_past

    query = PastQuery(**filters, job=job, limit=limit, after=after)
    settings = load_settings()
    warn_of_other_clusters(settings)
    now = int(time.time())
    if by is None:
        found = list_past(settings, query, now)
        emit_json(found.document()) if as_json else print_rows(layout, found.jobs)
        say_where(found.found)
        if not found.jobs and query.is_narrowed:
            say("no such jobs")
        if found.after is not None:
            say(f"there are more: --after {found.after} goes on, --limit {limit * 2} shows more")
        return
    groups = group_past(settings, query, by, now)
    emit_json(groups.document()) if as_json else print_rows(layout, groups.usage.groups)
    say_where(groups.found)
    if not groups.usage.total.total.jobs and query.is_narrowed:
        say("no such jobs")
    say_what_is_left_out(groups)
