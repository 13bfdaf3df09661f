"""`gsched db ingest`: read what is new of this cluster's jobs."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from gsched.errors import EXIT_DATA
from gsched_cli.ingest_rows import document, show
from gsched_cli.options import json_option, load_settings
from gsched_cli.output import count, emit_json, local_time, say

if TYPE_CHECKING:
    from gsched.app.ingest import Source


@click.command()
@click.option(
    "--source",
    type=click.Choice(["auto", "sacct", "sacct-json", "jobcomp", "queue", "node-events"]),
    default="auto",
    show_default=True,
    help="What to read; auto: squeue, and slurmdbd (jobs and node events) or else jobcomp's file.",
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
    database, and makes the exit code 65 the first time it is met. Job steps are kept where
    keep_steps is set in [database], from then on; --since brings earlier ones.

    The file of jobcomp/filetxt can be forged by names of jobs, which stand in it as they are;
    slurmdbd cannot. A record that contradicts an earlier one of the same attempt, or names another
    user than squeue or sacct does, is rejected; the first stays. Of an array that was cancelled
    before its start the file has one record, and the history one job; slurmdbd tells of each task.

    \b
    Example:
      gsched db ingest --since 7d

    \b
    JSON:
      cluster, sources, node_events, rejected_new
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
    if as_json:
        emit_json(document(report))
    else:
        show(report)
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
