"""`gsched db prune`: old jobs out of the database."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import click

from gsched_cli.db_rows import gpu_hours
from gsched_cli.long_work import long_work
from gsched_cli.options import json_option, load_settings
from gsched_cli.output import count, emit_json, emit_table, local_time, memory, say

if TYPE_CHECKING:
    from gsched_sql.values import PrunePlan


@click.command()
@click.option("--older-than", metavar="AGE", help="Jobs that ended longer ago (730d, 104w, 2y).")
@click.option("--before", metavar="T", help="Jobs that ended before (2025-01-01).")
@click.option("-M", "--cluster", "clusters", multiple=True, help="Of this cluster; repeatable.")
@click.option("--yes", "does_it", is_flag=True, help="Delete; without it, show what would go.")
@click.option("--force", is_flag=True, help="Also jobs that the predictor still learns from.")
@click.option("--keep-space", is_flag=True, help="Let SQLite's file keep the space for new rows.")
@json_option
def prune(
    older_than: str | None,
    before: str | None,
    clusters: tuple[str, ...],
    does_it: bool,
    force: bool,
    keep_space: bool,
    as_json: bool,
) -> None:
    """Delete jobs that ended long ago. What they used stays as sums by day (table usage_days).

    With a job go its attempts, steps, predictions, requests, leases, delays by sleeping nodes and
    journalled changes; then older journal rows of no job, rounds, what was kept of sleeping nodes,
    texts that nothing names, and samples become means of an hour. Jobs that nobody has told the end
    of stay, and so do the hours of accounts that the daemon has closed (gsched fairness). The same
    rows are not taken in again later: a job is judged by the end of its last attempt, of those that
    are read together or stored. On PostgreSQL, texts go when the owner of the tables prunes.

    \b
    Example:
      gsched db prune --older-than 730d          # shows what would go
      gsched db prune --older-than 730d --yes

    \b
    JSON:
      before, clusters, deleted, texts_left, bytes_before, bytes_after
      clusters[]: cluster, jobs, attempts, first_end, last_end, gpu_time_s, unfinished
    """
    from gsched.app.prune import prune_before
    from gsched_sql import maintenance

    settings = load_settings()
    url = settings.database_url
    moment = prune_before(settings, older_than, before, int(time.time()), is_forced=force)
    plans = maintenance.plan_prune(url, moment, clusters)
    document: dict[str, Any] = {
        "before": moment,
        "clusters": [plan.document() for plan in plans],
        "deleted": None,
        "texts_left": None,
        "bytes_before": None,
        "bytes_after": None,
    }
    if does_it:
        with long_work() as tell:
            done = maintenance.prune(url, moment, clusters, tell)
            document["deleted"] = dict(done.counts)
            document["texts_left"] = done.texts_left
            if not keep_space:
                sizes = maintenance.give_space_back(url)
                document["bytes_before"], document["bytes_after"] = sizes
    if as_json:
        emit_json(document)
    else:
        _show(plans, document)


def _show(plans: list[PrunePlan], document: dict[str, Any]) -> None:
    emit_table(
        ["CLUSTER", "JOBS", "ATTEMPTS", "GPU-TIME", "UNFINISHED", "FIRST END", "LAST END"],
        [
            (
                plan.cluster,
                count(plan.jobs),
                count(plan.attempts),
                gpu_hours(plan.gpu_time_s),
                count(plan.unfinished),
                local_time(plan.first_end),
                local_time(plan.last_end),
            )
            for plan in plans
        ],
        right={1, 2, 3, 4},
    )
    if document["deleted"] is None:
        say(f"--yes deletes what ended before {local_time(document['before'])}; nothing is yet")
        return
    gone = ", ".join(f"{name} {count(number)}" for name, number in document["deleted"].items())
    say(f"deleted: {gone}")
    if document["texts_left"]:
        say("job names and lists that nothing refers to stay: the owner of the tables prunes them")
    if document["bytes_before"] is not None:
        freed = document["bytes_before"] - document["bytes_after"]
        say(f"{memory(max(freed, 0))} given back, {memory(document['bytes_after'])} in use")
