"""`gsched top`: the queue, live."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

import click

from gsched.errors import UsageError
from gsched_cli.options import load_settings, queue_filters

if TYPE_CHECKING:
    from gsched.app.queue_filter import QueueFilter


@click.command()
@queue_filters
@click.option(
    "-d",
    "--delay",
    "delay_s",
    type=click.FloatRange(min=1),
    default=5,
    show_default=True,
    help="Seconds between two looks at Slurm.",
)
def top(wanted: QueueFilter, delay_s: float) -> int:
    """Watch the queue: the jobs of `gsched queue`, again and again, and how full the cluster is.

    Slurm is asked once a delay. While it gives no answer, the last one stays in view, with its
    time. A narrow terminal shows fewer columns.

    Keys: arrows, page up and down, home and end move; / shows only jobs with a text; u one's own
    jobs or all; s sorts otherwise; p pauses; Enter shows a job's details; ? helps; q quits.

    \b
    Example:
      gsched top -p gpu -d 10
    """
    _check_terminal()
    from gsched.app.queue_filter import own_name
    from gsched.app.watch import QueueWatch
    from gsched.slurm.run import stop_running
    from gsched_cli.top.app import TopApp

    watch = QueueWatch(load_settings(), wanted)
    app = TopApp(watch.look, delay_s, own_name(), stop_running)
    code = app.run(mouse=False)
    if app.failure is not None:
        raise app.failure
    return code or 0


def _check_terminal() -> None:
    streams = (sys.stdin, sys.stdout, sys.stderr)
    if not all(stream is not None and stream.isatty() for stream in streams):
        problem = "standard input, output and error are not all a terminal"
    elif os.environ.get("TERM", "") in ("", "dumb"):
        problem = "TERM names no terminal that can move its cursor"
    else:
        return
    raise UsageError(f"no live view here: {problem}", "`gsched queue` prints the queue once")
