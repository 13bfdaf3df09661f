"""`gsched queue`: the queue in predicted order."""

from __future__ import annotations

import gc
import os
import sys
from dataclasses import replace
from typing import TYPE_CHECKING

import click

from gsched_cli.options import json_option, load_settings, queue_filters
from gsched_cli.output import emit_json, say, warn
from gsched_cli.queue_columns import COLUMNS, DEFAULT, PLAN, with_told_columns
from gsched_cli.tables import (
    Layout,
    Order,
    Variant,
    ordered,
    print_rows,
    sort_option,
    table_options,
)

if TYPE_CHECKING:
    from gsched.app.queue import QueueView
    from gsched.app.queue_filter import QueueFilter
    from gsched.config.settings import Settings


@click.command()
@queue_filters
@click.option("-r", "--array", is_flag=True, help="One line for each task of a waiting array.")
@click.option(
    "-M",
    "--clusters",
    multiple=True,
    help="For squeue's sake: gsched reads the cluster of this host alone, and says so.",
)
@click.option(
    "--plan",
    is_flag=True,
    default=None,
    is_eager=True,
    help="The calendar of deadlines: which jobs are to hold which GPUs when.",
)
@sort_option(COLUMNS)
@table_options(COLUMNS, DEFAULT, Variant("plan", COLUMNS, PLAN))
@json_option
def queue(
    wanted: QueueFilter,
    array: bool,
    clusters: tuple[str, ...],
    plan: bool | None,
    order: Order,
    layout: Layout,
    as_json: bool,
) -> None:
    """Show waiting jobs in the order that gsched gives them, and why; then running ones.

    Running jobs come in the order in which their limits end them. Without a daemon the order is
    squeue's, and there are no predictions. The filters are squeue's, with its letters; several of
    one kind stand with commas between. Of jobs that are named and none of which Slurm knows, the
    exit code is 1. squeue's -i, -l, -O, -s, -v, --array-unique, --federation, --hide, --sibling,
    --start and --yaml are not here: `gsched top` follows the queue, -o +slurm_start has what
    --start shows.

    PREDICTED is the median of the run time that gsched expects. EXPECTED_START is when the daemon
    expects the job to start, and in brackets the interval in which it should start with a
    probability of 80 %: local time, of another day with its name or date, "now" for what is no more
    than 60 seconds away, "overdue" once the interval has passed; with -P the median in epoch
    seconds (expected_low, expected_high: the interval). SLURM_START is when Slurm's backfill
    expects it to start, from time limits. `gsched why` says more of a job. TIME is the time that a
    job waits or runs. With -P a rank is its number alone and unknown values are empty.

    PROGRESS and ETA stand there where a job that is shown tells how far it is: the share of its
    steps, or their number, and when they should all be done at its pace of the last ten minutes;
    "silent" and since when for one whose steps no longer end. With -P only if asked for. So do
    DEADLINE, the one that is aimed at, and TARGET: "on target" or "at risk" with the probability
    that it is met, "late" when its last deadline is over, "refused", "open" before the answer.

    --plan shows the jobs with promised deadlines, the nearest first (with -S in that order), when
    they are to hold GPUs, and as a chart: a line a job, # where it is to hold them, | its last
    deadline. Below, in tenths, is what is left of partitions that share nodes: free of promises,
    reservations and running jobs, which keep theirs until their leases or limits end. The plan is
    made anew in each round: what it says of tomorrow is one way to keep all promises, not an
    appointment. Where Slurm hides others' jobs, yours alone are shown. See gsched-deadlines(7).

    \b
    Example:
      gsched queue -u $USER -o +account,slurm_start
      gsched queue --me -P -o jobid,expected,expected_low,expected_high
      gsched queue --pending -p gpu -S -gpus,submit
      gsched queue -t all --since 6h -P -o jobid,state,running
      gsched queue --plan -u $USER

    \b
    JSON:
      cluster, policy, predictions_as_of, note, counts, rejects, jobs
      jobs[]: job, partition, name, user, account, qos, state, num_gpus, gpu_types, num_nodes,
        num_cpus, mem_bytes, time_limit_s, priority, nice, submit_time, eligible_time,
        start_time, end_time, slurm_start_time, waited_s, running_s, rank,
        predicted_duration_s, predicted_low_s, predicted_high_s, expected_start_time,
        expected_low_time, expected_high_time, no_start, deadline_time, target_state,
        target_finish_time, target_probability, step, total_steps, step_time, eta_time,
        is_silent, iteration_s, loss, tokens_per_s, committed_step, slurm_reason, reason,
        node_list, reservation, dependency, features, licences, restarts, comment

    \b
    JSON with plan:
      cluster, policy, predictions_as_of, note, targets, refused, pools
      targets[]: job, user, account, state, num_gpus, deadlines, target_state, finish_time,
        probability, plan, plan_cut
      refused[]: job, user, deadline_time
      pools[]: pool, num_gpus, free

    A time_limit_s of null is unlimited, or unknown. no_start is a code why a waiting job has no
    expected start. step to committed_step are a training job's own word, null where it says none;
    `gsched show` explains them. target_state is on-target, at-risk, late, refused or open, null for
    a job without a deadline. deadlines have time and reward (100: the full one), plan has
    start_time, end_time and num_gpus, free the num_gpus that nobody holds from start_time on;
    plan_cut later parts of a plan are not told.
    """
    from gsched.app.queue import list_queue

    gc.disable()  # nothing that is made here is let go before the end: a tenth of the time
    settings = load_settings()
    view = list_queue(settings, wanted, one_a_task=array, clusters=clusters)
    view = replace(view, jobs=tuple(ordered(view.jobs, order))) if order else view
    note = view.note
    if plan:
        note = _show_plan(settings, view, layout, as_json=as_json, keep_order=bool(order))
    elif as_json:
        emit_json(view.document())
    else:
        print_rows(with_told_columns(layout, view.jobs), view.jobs)
    for message in view.warnings(os.environ.get("SLURM_CLUSTERS", "")):
        warn(message)
    if view.unknown_ids and not view.jobs:
        sys.exit(1)  # as squeue does
    if note and not as_json:
        say(note)


def _show_plan(
    settings: Settings, view: QueueView, layout: Layout, *, as_json: bool, keep_order: bool
) -> str:
    """Print the calendar of deadlines: a table, for people a chart below; its note."""
    from gsched.app.target_calendar import target_calendar
    from gsched_cli.plan_chart import plan_chart

    calendar = target_calendar(settings, view, keep_order=keep_order)
    if as_json:
        emit_json(calendar.document())
        return ""
    print_rows(layout, calendar.targets)
    if not layout.parsable:
        lines = plan_chart(calendar)
        for line in ["", *lines] if lines else []:
            print(line)
        if not calendar.targets and not calendar.note:
            return "no job has a promised deadline"
    return calendar.note
