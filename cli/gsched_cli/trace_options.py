"""The options by which files of past jobs are named: `db import`, `trace convert`, `sim`."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from gsched.app.trace_formats import FORMATS

Command = TypeVar("Command", bound=Callable[..., Any])

_FILE = click.Path(path_type=Path, dir_okay=False, exists=True)


def trace_options(command: Command, *, required: bool = True) -> Command:
    """Add --format and what explains a format; the command receives `told`, a TraceOptions.

    Where the format is not `required`, the command also receives `cluster`, and `told` is None
    without a format.
    """

    @functools.wraps(command)
    def with_options(*args: Any, format_name: str | None, **others: Any) -> Any:
        from gsched.app.trace_formats import TraceOptions

        given = {
            name: others.pop(name) for name in ("cluster", "timezone", "columns", "fields", "gpus")
        }
        if not required:
            others["cluster"] = given["cluster"]
        told = None if format_name is None else TraceOptions(format_name, **given)
        return command(*args, told=told, **others)

    wrapped: Any = with_options
    for option in reversed(_options(required)):
        wrapped = option(wrapped)
    return wrapped  # type: ignore[no-any-return]


def _options(required: bool) -> tuple[Callable[[Any], Any], ...]:
    return (
        click.option(
            "-f",
            "--format",
            "format_name",
            type=click.Choice(list(FORMATS)),
            metavar="FORMAT",
            required=required,
            help=f"What the files are: {', '.join(FORMATS)}.",
        ),
        click.option(
            "--cluster",
            metavar="NAME",
            help="The cluster of all rows; else the file's own, or a name made from the format "
            "and, for acme, helios, itp, swf, chronus, elasticflow, titan, muri and csv, from the "
            "name of the file or its folder: standard input or a renamed file needs --cluster to "
            "be the same jobs.",
        ),
        click.option(
            "--timezone",
            metavar="ZONE",
            help="For times without a zone (Europe/Berlin); UTC where it is not given.",
        ),
        click.option(
            "--columns",
            type=_FILE,
            metavar="MAP.toml",
            help="For csv: which column is what, see gsched-columns(5).",
        ),
        click.option(
            "--fields",
            type=_FILE,
            metavar="FILE",
            help="For sacct text without header: the names of its fields in their order.",
        ),
        click.option(
            "--gpus",
            type=click.Choice(["counted", "uncounted"]),
            help="For sacct, sacct-json: whether the cluster's accounting tells GPUs (gres/gpu in "
            "AccountingStorageTRES). If so, a job that tells none has 0, else an unknown number. "
            "Default: whether any row of these files tells GPUs; say it where parts of one "
            "accounting are read by several commands.",
        ),
    )
