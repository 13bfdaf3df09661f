"""`gsched trace convert`: past jobs as one file of gsched's own format."""

from __future__ import annotations

from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from gsched.errors import EXIT_DATA, UsageError
from gsched_cli.errors import EXIT_INTERRUPTED
from gsched_cli.import_rows import emit_report, say_notes, say_rejects
from gsched_cli.options import json_option, load_settings
from gsched_cli.output import count, emit_json, say
from gsched_cli.progress import ProgressLine
from gsched_cli.trace_options import trace_options

if TYPE_CHECKING:
    from gsched.app.import_report import ImportReport
    from gsched.app.trace_formats import TraceOptions


@click.command()
@partial(trace_options, required=False)
@click.option("--from-history", is_flag=True, help="Export the own history; --cluster: one of it.")
@click.option(
    "-o",
    "--output",
    metavar="OUT",
    required=True,
    help="NAME.csv or NAME.parquet, perhaps with .gz or .zst; -: CSV on standard output.",
)
@click.option("--force", is_flag=True, help="Replace OUT where it exists.")
@click.option("--keep-going", is_flag=True, help="Exit with 0 though rows were rejected.")
@click.argument("files", metavar="[FILE]...", nargs=-1)
@json_option
def convert(
    told: TraceOptions | None,
    cluster: str | None,
    files: tuple[str, ...],
    from_history: bool,
    output: str,
    force: bool,
    keep_going: bool,
    as_json: bool,
) -> int:
    """Write past jobs from files, or the own history, into one file of gsched's own format.

    FILE may be plain, .gz, .zst, .zip (NAME.zip:MEMBER where it holds several) or .tar.gz, or - for
    standard input. gsched-attempts(5) describes OUT; `gsched db import --format gsched` reads it.
    OUT is there when all is read, or not at all.

    The summary counts attempts, as db import does. An empty file is an error. A row that cannot be
    understood is left out, told with its line and the reason, and makes the
    exit code 65.

    \b
    Example:
      gsched trace convert --format swf KTH-SP2.swf.gz -o kth.parquet
      gsched trace convert --from-history -o history.csv.zst

    \b
    JSON:
      format, output, total, files
      files[]: file, rows, attempts, rejected, skipped, gpu_time_s, gpu_time_attempts,
        cpu_time_s, cpu_time_attempts, states, clusters, rejects, notes

    total has the counts of files[]; rejects are the first 20 of a file.
    """
    from gsched.app.convert_trace import convert_files, export_history
    from gsched.app.wiring import open_history

    if output == "-" and as_json:
        raise UsageError("-o - and --json both print on standard output")
    if from_history and (told or files):
        raise UsageError("--from-history takes neither --format nor files")
    try:
        with ExitStack() as stack:
            line = stack.enter_context(ProgressLine())
            way: Any = {"force": force, "told": lambda f, n: line.show(f"{f}: {count(n)} rows")}
            if from_history:
                history = stack.enter_context(open_history(load_settings()))
                done = export_history(history, cluster, output, **way)
            elif told and files:
                done = convert_files(files, told, output, **way)
            else:
                raise UsageError("name files and their --format, or --from-history")
    except KeyboardInterrupt:
        say(f"interrupted: {output} is not written")
        return EXIT_INTERRUPTED
    if as_json:
        emit_json({"format": told.format if told else "history", "output": output, **_shown(done)})
    elif output != "-":
        emit_report(done, is_kept=False)
    say_notes(done, is_kept=False)
    say_rejects(done, is_kept=False)
    return EXIT_DATA if done.total.rejected and not keep_going else 0


_COUNTS = (
    *("rows", "attempts", "rejected", "skipped", "gpu_time_s", "gpu_time_attempts"),
    *("cpu_time_s", "cpu_time_attempts", "states"),
)


def _shown(done: ImportReport) -> dict[str, Any]:
    """What a conversion has of the report of an import."""
    document = done.document()
    keys = ("file", *_COUNTS, "clusters", "rejects", "notes")
    return {
        "total": {key: document["total"][key] for key in _COUNTS},
        "files": [{key: found[key] for key in keys} for found in document["files"]],
    }
