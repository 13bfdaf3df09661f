"""`gsched db`: the job-history database."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from gsched.errors import EXIT_DATA
from gsched_cli.options import json_option, load_settings
from gsched_cli.output import count, duration, emit_json, emit_table, local_time, say

if TYPE_CHECKING:
    from gsched.app.ingest import Source
    from gsched.model.history import Reject
    from gsched_sql import HistoryStats


@click.group()
def db() -> None:
    """Set up, fill and inspect the job-history database.

    \b
    Example:
      gsched db init
      gsched db ingest
    """


@db.command()
@json_option
def init(as_json: bool) -> None:
    """Make the database, or bring its schema up to date; data is kept.

    \b
    Example:
      gsched db init

    \b
    JSON:
      database, schema_before, schema
    """
    from gsched_sql import History

    made = History.create(load_settings().database_url)
    if as_json:
        emit_json(
            {"database": made.location, "schema_before": made.before, "schema": made.revision}
        )
    elif made.before is None:
        say(f"made {made.location} (schema {made.revision})")
    elif made.changed:
        say(f"brought {made.location} from schema {made.before} to {made.revision}")
    else:
        say(f"{made.location} is up to date (schema {made.revision})")


@db.command()
@click.option(
    "--source",
    type=click.Choice(["auto", "sacct", "jobcomp", "queue"]),
    default="auto",
    show_default=True,
    help="What to read; auto: squeue, and slurmdbd or else jobcomp's file.",
)
@click.option("-S", "--since", help="Read again from this time on (2d, 2026-11-29T13:00).")
@click.option(
    "--jobcomp",
    "jobcomp_file",
    type=click.Path(path_type=Path, dir_okay=False, exists=True),
    help="jobcomp/filetxt's file, where it is not the one that Slurm names.",
)
@click.option("--keep-going", is_flag=True, help="Exit with 0 though rows were rejected.")
@json_option
def ingest(
    source: Source, since: str | None, jobcomp_file: Path | None, keep_going: bool, as_json: bool
) -> int:
    """Read what is new of this cluster's jobs into the history.

    Reading the same again changes nothing. A row that cannot be understood is kept in the
    database, and makes the exit code 65 the first time it is met.

    \b
    Example:
      gsched db ingest --since 7d

    \b
    JSON:
      cluster, sources, rejected_new
    """
    from gsched.app.ingest import ingest as read_cluster
    from gsched.app.when import parse_when
    from gsched.app.wiring import open_history, slurm_client

    settings = load_settings()
    start = None if since is None else parse_when(since, int(time.time()))
    with open_history(settings) as history:
        report = read_cluster(
            settings,
            slurm_client(settings),
            history,
            source=source,
            since=start,
            jobcomp_file=jobcomp_file,
            on_progress=_tell_progress,
        )
    columns = ("rows_in", "attempts_new", "attempts_updated", "unchanged", "rejected", "skipped")
    if as_json:
        counts = {n: {c: getattr(s, c) for c in columns} for n, s in report.sources}
        rejected_new = report.total.rejected_new
        emit_json({"cluster": report.cluster, "sources": counts, "rejected_new": rejected_new})
    else:
        emit_table(
            ["SOURCE", "ROWS", "NEW", "UPDATED", "UNCHANGED", "REJECTED", "SKIPPED"],
            [(n, *(count(getattr(s, c)) for c in columns)) for n, s in report.sources],
            right=set(range(1, 7)),
        )
    if report.total.rejected_new:
        say(
            f"rows not understood: {report.total.rejected_new}; "
            "`gsched db stats --rejects` shows them"
        )
        return 0 if keep_going else EXIT_DATA
    return 0


def _tell_progress(until: int, rows: int) -> None:
    """A first ingest takes long: somebody at a terminal sees how far it has come."""
    if sys.stderr.isatty():
        say(f"slurmdbd is read up to {local_time(until)}, {count(rows)} rows")


@db.command()
@click.option("--rejects", is_flag=True, help="List the rows that were not understood instead.")
@json_option
def stats(rejects: bool, as_json: bool) -> None:
    """Show what the database holds.

    \b
    Example:
      gsched db stats

    \b
    JSON:
      location, revision, rows, states, unknown_states, first_submit, last_end, finished_jobs,
        gpu_time_jobs, gpu_time_s, size_bytes
    """
    from gsched.app.wiring import open_history

    with open_history(load_settings()) as history:
        if rejects:
            _show_rejects(history.rejects(), as_json)
            return
        found = history.stats()
    if as_json:
        emit_json(asdict(found))
    else:
        emit_table(["WHAT", "IS"], _stats_rows(found))


def _show_rejects(rejects: Sequence[Reject], as_json: bool) -> None:
    if as_json:
        emit_json([asdict(r) for r in rejects])
    else:
        emit_table(["SOURCE", "WHY", "ROW"], [(r.source, r.reason, r.raw) for r in rejects])


def _stats_rows(found: HistoryStats) -> list[tuple[str, str]]:
    of = f"{count(found.gpu_time_jobs)} of {count(found.finished_jobs)} finished jobs"
    rows = [
        ("database", found.location),
        ("schema", found.revision),
        ("size", f"{found.size_bytes / 2**20:,.1f} MiB" if found.size_bytes else "-"),
        ("first submit", local_time(found.first_submit)),
        ("last end", local_time(found.last_end)),
        ("GPU time", f"{duration(found.gpu_time_s)} over {of}"),
    ]
    rows += [(f"jobs {state}", count(number)) for state, number in found.states.items()]
    rows += [
        (f"attempts in the unknown state {text}", count(number))
        for text, number in found.unknown_states.items()
    ]
    rows += [(f"rows of {table}", count(number)) for table, number in found.rows.items()]
    return rows
