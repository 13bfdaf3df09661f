"""`gsched eff`: efficiency and waste of one job, or of many."""

from __future__ import annotations

from typing import Any

import click

from gsched_cli import completion as complete
from gsched_cli.eff_columns import COLUMNS, DEFAULT
from gsched_cli.options import json_option, load_settings, warn_of_other_clusters
from gsched_cli.output import emit_json, safe_text, say
from gsched_cli.past_options import past_filters
from gsched_cli.tables import Layout, print_rows, table_options


@click.command()
@click.argument("job", required=False, shell_complete=complete.jobs)
@past_filters
@click.option(
    "--limit",
    type=click.IntRange(min=1),
    default=100,
    show_default=True,
    help="Without JOB: look at the newest so many.",
)
@table_options(COLUMNS, DEFAULT)
@json_option
def eff(
    job: str | None, filters: dict[str, Any], limit: int, layout: Layout, as_json: bool
) -> None:
    """Say how well JOB used what it was given, and what was lost and why.

    JOB is an id as squeue prints it; that of an array or of a heterogeneous job means all of its
    parts. CPU efficiency is CPU time over allocated CPUs times elapsed time. Memory is the sum of
    the tasks' peaks (MaxRSS) in the step that had most, over all memory allocated. What Slurm's
    accounting has not measured is unknown, never 0. Figures are those of the last attempt; time
    of earlier ones is lost unless the job went on from a checkpoint.

    Without JOB, those of the newest jobs that the filters choose are listed, the greatest waste
    first: WASTEDGPU and WASTEDCPU are hours held for nothing as far as the figures tell (all of a
    failed job's, unless it saved its work), REASON says why. Figures of steps are read from the
    history where the site keeps them (database.keep_steps), else from sacct.

    Told as waste are: all of a failed job, and all that earlier attempts held; time without a step
    of at least 10 minutes and a tenth of the run; of runs of at least 10 minutes, GPUs used less
    than 50 %, CPUs used less than 50 % without GPUs, and less than 1 % with GPUs whose use is
    unknown; less than 25 % used of at least 1 GiB of memory; and of completed jobs, a time limit of
    which less than 25 % was needed and at least 1 hour was not.

    \b
    Example:
      gsched eff 48211
      gsched eff --me -S 7d

    \b
    JSON:
      job, source, total, jobs, rejects, more
      jobs[]: job, name, user, account, partition, qos, state, state_text, exit_code,
        exit_signal, exit_words, submit_time, start_time, end_time, queueing_s, elapsed_s,
        time_limit_s, unused_limit_s, num_nodes, num_cpus, num_gpus, gpu_types, cpu_time_s,
        cpu_available_s, cpu_efficiency, mem_used_bytes, mem_allocated_bytes, mem_efficiency,
        mem_largest_task_bytes, gpu_time_s, gpu_util_percent, num_attempts, lost_s,
        lost_gpu_time_s, wasted_gpu_time_s, wasted_cpu_time_s, waste

    source is sacct, database or squeue; the last knows nothing of CPU time and memory. Jobs that
    sacct no longer has are told as far as the history knows them. total
    has num_jobs, states, cpu_time_s, cpu_available_s, cpu_efficiency, mem_efficiency_most,
    gpu_time_s, elapsed_s, lost_s and lost_gpu_time_s; cpu_jobs, mem_jobs and gpu_jobs are how
    many of the jobs each rests on. A time_limit_s of null is unlimited, or unknown. waste has code
    (failed, cancelled, requeued, idle-allocation, gpu, cpu, memory, time-limit), words,
    gpu_time_s and cpu_time_s.
    """
    from gsched.app.measured import usage_of, usage_of_many
    from gsched.app.past import PastQuery
    from gsched.app.usage_words import report_lines

    if job is not None and any(filters.values()):
        raise click.UsageError("either JOB or filters")
    settings = load_settings()
    warn_of_other_clusters(settings)
    if job is not None:
        report = usage_of(settings, job)
    else:
        report = usage_of_many(settings, PastQuery(**filters, limit=limit))
    if as_json:
        emit_json(report.document())
    elif job is None:
        print_rows(layout, report.jobs)
    else:
        for what, words in report_lines(report):
            print(safe_text(words) if not what else f"  {what:<12}{safe_text(words)}")
    if not report.jobs:
        say("no such jobs")
    if report.num_rejects:
        say(f"{report.num_rejects} rows of {report.source} were not understood")
    if report.more:
        say(f"only the newest {limit} jobs were looked at; --limit {limit * 2} looks at more")
