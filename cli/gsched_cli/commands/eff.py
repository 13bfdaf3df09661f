"""`gsched eff`: efficiency and waste of one job."""

from __future__ import annotations

import click

from gsched_cli import completion as complete
from gsched_cli.options import json_option, load_settings, warn_of_other_clusters
from gsched_cli.output import emit_json, safe_text, say


@click.command()
@click.argument("job", shell_complete=complete.jobs)
@json_option
def eff(job: str, as_json: bool) -> None:
    """Say how well JOB used what it was given, and what was lost.

    JOB is an id as squeue prints it; that of an array or of a heterogeneous job means all of its
    parts. CPU efficiency is CPU time over allocated CPUs times elapsed time. Memory is the sum of
    the tasks' peaks (MaxRSS) in the step that had most, over all memory allocated. What Slurm's
    accounting has not measured is unknown, never 0. Figures are those of the last attempt; time
    of earlier ones is lost unless the job went on from a checkpoint.

    \b
    Example:
      gsched eff 48211

    \b
    JSON:
      job, source, total, jobs, rejects
      jobs[]: job, name, user, account, partition, qos, state, state_text, exit_code,
        exit_signal, exit_words, submit_time, start_time, end_time, queueing_s, elapsed_s,
        time_limit_s, unused_limit_s, num_nodes, num_cpus, num_gpus, gpu_types, cpu_time_s,
        cpu_available_s, cpu_efficiency, mem_used_bytes, mem_allocated_bytes, mem_efficiency,
        mem_largest_task_bytes, gpu_time_s, gpu_util_percent, num_attempts, lost_s,
        lost_gpu_time_s

    source is sacct, database or squeue; the last two know nothing of CPU time and memory. total
    has num_jobs, states, cpu_time_s, cpu_available_s, cpu_efficiency, mem_efficiency_most,
    gpu_time_s, elapsed_s, lost_s and lost_gpu_time_s; cpu_jobs, mem_jobs and gpu_jobs are how
    many of the jobs each rests on. A time_limit_s of null is unlimited, or unknown.
    """
    from gsched.app.usage import usage_of
    from gsched.app.usage_words import report_lines

    settings = load_settings()
    warn_of_other_clusters(settings)
    report = usage_of(settings, job)
    if as_json:
        emit_json(report.document())
        return
    for what, words in report_lines(report):
        print(safe_text(words) if not what else f"  {what:<12}{safe_text(words)}")
    if report.num_rejects:
        say(f"{report.num_rejects} rows of {report.source} were not understood")
