"""`gsched db stats`: what the database holds."""

from __future__ import annotations

from dataclasses import asdict

import click

from gsched_cli.db_rows import stats_rows
from gsched_cli.options import json_option, load_settings
from gsched_cli.output import emit_json, emit_table


@click.command()
@click.option("--rejects", is_flag=True, help="List the rows that were not understood instead.")
@click.option("--source", help="With --rejects: of this source alone (philly:jobs.csv).")
@click.option(
    "--limit",
    type=click.IntRange(1),
    default=20,
    show_default=True,
    help="With --rejects: so many.",
)
@click.option(
    "--page", type=click.IntRange(1), default=1, show_default=True, help="With --rejects: page."
)
@json_option
def stats(rejects: bool, source: str | None, limit: int, page: int, as_json: bool) -> None:
    """Show what the database holds: sizes, rows, growth, phases, conflicts, rejects, last reads.

    \b
    Example:
      gsched db stats
      gsched db stats --rejects --source sacct --page 2

    \b
    JSON:
      location, revision, rows, bytes_by_table, states, unknown_states, phases, first_submit,
        last_end, finished_jobs, gpu_time_jobs, gpu_time_s, size_bytes, jobs_by_month,
        conflicts, prune_marks, last_ingests, rejects, bytes_a_job
      phases[]: phase, jobs, gpu_time_jobs, gpu_time_s
      last_ingests[]: source, cursor, at
      rejects[]: source, reason, count
    """
    from gsched.app.wiring import open_history

    with open_history(load_settings()) as history:
        if rejects:
            found = history.rejects(limit, source=source, skip=limit * (page - 1))
        else:
            told = history.stats()
    if rejects and as_json:
        emit_json([asdict(r) for r in found])
    elif rejects:
        rows = [(r.source, str(r.line), r.reason, r.raw) for r in found]
        emit_table(["SOURCE", "LINE", "WHY", "ROW"], rows)
    elif as_json:
        emit_json({**asdict(told), "bytes_a_job": told.bytes_a_job})
    else:
        emit_table(["WHAT", "IS"], stats_rows(told))
