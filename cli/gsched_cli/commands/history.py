"""`gsched history`: past jobs."""

from __future__ import annotations

import time

import click

from gsched_cli.options import json_option, load_settings
from gsched_cli.output import count, duration, emit_json, emit_table, local_time, say


@click.command()
@click.option("-u", "--user", "users", multiple=True, help="Only this user's jobs; repeatable.")
@click.option("-A", "--account", "accounts", multiple=True, help="Only this account's jobs.")
@click.option("-p", "--partition", "partitions", multiple=True, help="Only this partition's jobs.")
@click.option("-n", "--name", "names", multiple=True, help="Only jobs of this whole name.")
@click.option("-s", "--state", "states", multiple=True, help="Only this end (FAILED, F).")
@click.option("-S", "--since", help="Jobs that waited or ran then or later (2d, 2026-11-29).")
@click.option("-E", "--until", help="Jobs submitted before this time.")
@click.option("-j", "--job", help="Only this id; an array's id means all of its tasks.")
@click.option(
    "--limit", type=click.IntRange(min=1), default=50, show_default=True, help="The newest so many."
)
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
    as_json: bool,
) -> None:
    """List past and present jobs from the history, the newest first.

    A line is one job with all of its requeues: SUBMIT is its first submit, QUEUED the time that it
    waited in all, RUN that of its last attempt.

    \b
    Example:
      gsched history -u alice -S 7d -s FAILED

    \b
    JSON:
      jobs, more
      jobs[]: job, cluster, user, account, partition, qos, name, state, state_text, num_gpus,
        num_cpus, num_nodes, time_limit_s, submit_time, start_time, end_time, queueing_s,
        duration_s, gpu_time_s, attempts
    """
    from gsched.app.past import PastQuery, list_past
    from gsched_sql import history_document

    query = PastQuery(users, accounts, partitions, names, states, since, until, job, limit)
    found = list_past(load_settings(), query, int(time.time()))
    if as_json:
        emit_json({"jobs": [history_document(j) for j in found.jobs], "more": found.more})
        return
    rows = [
        (
            j.key.slurm_id,
            j.user or "-",
            j.tenant or "-",
            j.partition or "-",
            j.name or "-",
            j.state_text,
            count(j.num_gpus),
            local_time(j.key.epoch),
            duration(j.queueing_s),
            duration(j.duration_s),
            str(len(j.attempts)),
        )
        for j in found.jobs
    ]
    emit_table(
        ["JOBID", "USER", "ACCOUNT", "PARTITION", "NAME", "STATE", "GPUS", "SUBMIT", "QUEUED",
         "RUN", "ATTEMPTS"],
        rows,
        right={6, 8, 9, 10},
    )  # fmt: skip
    if found.more:
        say(f"there are more; --limit {limit * 2} shows them")
