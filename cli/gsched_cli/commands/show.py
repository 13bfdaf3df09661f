"""`gsched show`: everything known of a job."""

from __future__ import annotations

import click

from gsched_cli import completion as complete
from gsched_cli.options import json_option, load_settings, warn_of_other_clusters
from gsched_cli.output import emit_json, emit_table, say
from gsched_cli.show_rows import attempt_rows, fact_rows


@click.command()
@click.argument("job", shell_complete=complete.jobs)
@json_option
def show(job: str, as_json: bool) -> None:
    """Show what Slurm, the daemon and the history know of JOB.

    JOB is an id as squeue prints it: 48211, 48211_3, 48211+1; that of an array or het job means
    all of its parts. Where this host has no history database that you may read, past attempts are
    those that sacct shows to you.

    \b
    Example:
      gsched show 48211

    \b
    JSON:
      job, slurm, parts, gsched, history_source, history, history_note, requests
      parts[]: job, state, slurm_reason, num_tasks, node_list
      history[]: job, cluster, user, account, partition, qos, name, state, state_text,
        num_gpus, num_cpus, num_nodes, time_limit_s, submit_time, start_time, end_time,
        queueing_s, duration_s, gpu_time_s, cpu_time_s, phase, attempts
      requests[]: job, user, token, wants, unknown, first_seen

    A time_limit_s of null is unlimited, or unknown.
    """
    from gsched.app.show import show_job

    settings = load_settings()
    warn_of_other_clusters(settings)
    shown = show_job(settings, job)
    document = shown.document
    if as_json:
        emit_json(document)
        return
    emit_table(["WHAT", "IS"], fact_rows(shown))
    if document["history"]:
        print()
        columns = ["JOBID", "ATTEMPT", "SUBMIT", "START", "RUN", "STATE"]
        attempts = [row for past in document["history"] for row in attempt_rows(past)]
        emit_table(columns, attempts, right={1, 4})
    if document["history_note"]:
        say(document["history_note"])
