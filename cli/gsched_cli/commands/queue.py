"""`gsched queue`: the queue in predicted order."""

from __future__ import annotations

import click

from gsched_cli.options import json_option, load_settings
from gsched_cli.output import duration, emit_json, emit_table, say


@click.command()
@click.option("-u", "--user", "users", multiple=True, help="Only this user's jobs; repeatable.")
@click.option("-A", "--account", "accounts", multiple=True, help="Only this account's jobs.")
@click.option("-p", "--partition", "partitions", multiple=True, help="Only this partition's jobs.")
@click.option("--pending", is_flag=True, help="Only jobs that wait.")
@json_option
def queue(
    users: tuple[str, ...],
    accounts: tuple[str, ...],
    partitions: tuple[str, ...],
    pending: bool,
    as_json: bool,
) -> None:
    """Show waiting jobs in the order that gsched gives them, and why; then running ones.

    Without a daemon it shows squeue's order and no predictions.

    \b
    Example:
      gsched queue -u $USER

    \b
    JSON:
      policy, predictions_as_of, note, jobs
      jobs[]: job, partition, name, user, account, state, num_gpus, priority, submit_time,
        waited_s, running_s, rank, predicted_duration_s, slurm_reason, reason
    """
    from gsched.app.queue import QueueFilter, list_queue

    view = list_queue(load_settings(), QueueFilter(users, accounts, partitions, pending))
    if as_json:
        emit_json(view.document())
        return
    rows = [
        (
            job.rank_text,
            job.slurm_id,
            job.partition,
            job.name,
            job.user,
            job.state_text,
            str(job.num_gpus),
            duration(job.predicted_duration_s),
            duration(job.waited_s if job.is_pending else job.running_s),
            job.reason,
        )
        for job in view.jobs
    ]
    emit_table(
        ["RANK", "JOBID", "PARTITION", "NAME", "USER", "STATE", "GPUS", "PREDICTED", "TIME", "WHY"],
        rows,
        right={0, 6, 7, 8},
    )
    if view.note:
        say(view.note)
