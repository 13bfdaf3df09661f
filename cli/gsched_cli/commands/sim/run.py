"""`gsched sim run`: one policy over past jobs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from gsched_cli.sim_options import sim_options
from gsched_cli.sim_rows import emit_simulated, simulated

if TYPE_CHECKING:
    from gsched.app.sim.compare import SimOrder


@click.command()
@click.option(
    "-P",
    "--policy",
    metavar="NAME[:KNOB=VALUE]...",
    required=True,
    help="See `gsched policy list`; with knobs: tiresias:lease_s=600.",
)
@sim_options
def run(order: SimOrder, as_json: bool) -> int:
    """Simulate one policy on past jobs and show what would have become of them.

    The jobs are those of FILEs (formats and packing as for `gsched db import`), or with --since
    those of the history database. Requeues of a job are one job, with its first submission and the
    run time of all attempts. Jobs without GPUs, that never ran or have not ended, of zero seconds
    or too large for their pool are left out, counted and told, as are rows that could not be
    understood.

    Jobs wait for the pool of their partition (or account, where a trace has virtual clusters
    alone). Without --nodes, --pools or --live the pools are sized by the jobs themselves, as the
    report says. --pools takes a CSV file with the columns pool, nodes, gpus and perhaps type and
    speed (relative to the reference), a row for each kind of node; names are texts: 6214e9 is one.
    Partitions that share nodes are one pool: a100+debug is that of both, as the report names it. A
    job of several partitions (a100,h100) waits for the first of them that is there.
    Where a job is known to have run on GPUs of a type that has a speed here (AllocTRES), its
    recorded run time × that speed is its run time at speed 1; else it counts as recorded at speed
    1. A job that asked for a type runs on that type alone.

    Policies that order by predicted run times get what could be predicted at each submission from
    the jobs that had ended before: as recorded and under FIFO on the simulated cluster, the later
    of both. Predictions are the same for all policies; one that holds a job back for longer than
    FIFO may meet what was learnt from it. Jobs without one are ordered as if they had the median
    key of the others. Oracles (`gsched policy list`) are told the true run
    times, and the report says so.

    \b
    --sharing takes speeds of jobs that were measured on the same GPUs:
      CSV   class,partner,speed[,num_gpus]: speed of a job of class beside one of partner,
            relative to alone, 1 at most; a class is a job's name
      JSON  as published with Gavel (simulation_throughputs.json)

    --per-job has a row for each job and policy: policy, seed, job, user, account, pool, name,
    num_gpus, submit_time, duration_s, predicted_duration_s, start_time, end_time, jct_s,
    queueing_s, waiting_s, bounded_slowdown, finish_time_ratio, share_received, run_s, lost_s,
    preemptions, failures, deadline; times are epoch seconds, empty is what did not come about.

    TIME is in seconds, or 5m, 6h, 30d. The same jobs give the same result in whatever order they
    come. Ctrl-C leaves the part that is finished: it is shown and written, the exit code is 130.

    \b
    Example:
      gsched sim run --policy qssf --format philly philly.csv.gz
      gsched sim run --policy srtf --since 30d --live --per-job jobs.csv --html out

    \b
    JSON:
      source, cluster, assumptions, left_out, notes, interrupted, policies, baseline,
        confidence, interval_unit, differences
      left_out[]: reason, jobs, gpu_time_s, examples
      policies[]: label, policy, knobs, oracle, preempts, misfit, needs_prediction, estimates,
        runs, ended_under_both

    cluster has nodes, gpus, pools (name, nodes, gpus) and gpu_types (name, speed, gpus);
    assumptions has placement, scheduler, seeds, costs, failures, sharing, sleep, power, sample_s,
    size_first_tick_s, round_s and starvation_bound_s. Of policies[], estimates have metric, value,
    low and high (of the confidence interval over interval_unit: runs or days, null where there are
    too few), and each of runs, one a seed, has all figures of that simulation, also by_size,
    by_duration, by_tenant and by_pool. Times are epoch seconds, durations seconds, shares parts
    of 1; null: there is nothing to tell.
    """
    from gsched.app.sim.tables import class_tables, figures

    done = simulated(order)
    tables = () if done.report is None else (figures(done.report), *class_tables(done.report))
    return emit_simulated(done, tables, as_json)
