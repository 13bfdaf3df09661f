"""`gsched db import`: past jobs from files."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING

import click

from gsched.errors import EXIT_DATA
from gsched_cli.errors import EXIT_INTERRUPTED, report
from gsched_cli.import_rows import Teller, emit_report, say_notes, say_rejects
from gsched_cli.options import json_option, load_settings
from gsched_cli.output import emit_json, say
from gsched_cli.progress import ProgressLine
from gsched_cli.trace_options import trace_options

if TYPE_CHECKING:
    from gsched.app.trace_formats import TraceOptions


@click.command("import")
@trace_options
@click.option("--steps", is_flag=True, help="Keep job steps too (sacct, sacct-json).")
@click.option("--dry-run", is_flag=True, help="Read and count; no database is touched or needed.")
@click.option("--keep-going", is_flag=True, help="Exit with 0 though rows were rejected.")
@click.argument("files", metavar="FILE...", nargs=-1, required=True)
@json_option
def import_(
    told: TraceOptions,
    files: tuple[str, ...],
    steps: bool,
    dry_run: bool,
    keep_going: bool,
    as_json: bool,
) -> int:
    """Bring past jobs from files into the history: saved accounting, public traces.

    FILE may be plain, .gz, .zst or .zip, or - for standard input; all files of one command are one
    import. What is kept already stays as it is: files may overlap, come in any order and come
    again. An empty file is an error.

    Jobs without a number are the exception (philly's CSV; csv whose map has no job_id): the files
    of ONE command are parts of one file, and equal rows in them are different jobs, while a row
    that a later command brings again is the same job. So give all parts of one file in one command,
    and files that overlap in a command each.

    Ctrl-C, a crash or a lost server loses nothing: the same command goes on from there.

    The summary counts rows, states, and GPUs and CPUs times run time as the files have them, to be
    checked against their source. EARLIER are rows that an interrupted import has kept. A row that
    cannot be understood is kept in the database with its line and the reason (`gsched db stats
    --rejects`) and makes the exit code 65, every time that it is met. A file that ends too early is
    read up to there; a file of another format does not keep the rest from being read.

    \b
    Example:
      gsched db import --format philly philly.csv.gz
      sacct -aPD -S 2025-01-01 -o ALL | gsched db import --format sacct -

    \b
    JSON:
      format, dry_run, total, files
      files[]: file, rows, attempts, rejected, skipped, attempts_new, attempts_updated,
        unchanged, pruned, earlier, conflicts, steps, gpu_time_s, gpu_time_attempts,
        cpu_time_s, cpu_time_attempts, states, clusters, rejects, notes, same_as, error

    total has the counts of files[]; rows = attempts + rejected + skipped. gpu_time_s is over the
    gpu_time_attempts that tell GPUs and times, cpu_time_s likewise. same_as is a file with the same
    content, read in its place; rejects are the first 20.
    """
    from gsched.app.import_files import ImportInterrupted, ImportOrder, import_files
    from gsched.app.wiring import open_history

    settings = load_settings()
    order = ImportOrder(files, told, keep_steps=steps or settings.database.keep_steps)
    try:
        with ExitStack() as stack:
            history = None if dry_run else stack.enter_context(open_history(settings))
            line = stack.enter_context(ProgressLine())
            done = import_files(order, history, Teller(line))
    except ImportInterrupted as end:
        say(str(end))
        return EXIT_INTERRUPTED
    if as_json:
        emit_json({"format": told.format, "dry_run": dry_run, **done.document()})
    else:
        emit_report(done, is_kept=not dry_run)
    say_notes(done, is_kept=not dry_run)
    say_rejects(done, is_kept=not dry_run)
    codes = [report(found.error) for found in done.files if found.error]
    if codes:
        return codes[0]
    return EXIT_DATA if done.total.rejected and not keep_going else 0
