"""`gsched-helper`: the program beside the daemon that has an administrator's rights in Slurm."""

from __future__ import annotations

import sys

import click

from gsched import __version__
from gsched_cli.errors import guarded
from gsched_cli.options import load_settings
from gsched_cli.output import open_closed_streams, speak_locale


@click.command(context_settings={"max_content_width": 100})
@click.version_option(__version__, prog_name="gsched-helper", message="%(prog)s %(version)s")
def helper() -> None:
    """Drain, resume, wake and power down nodes for gsched's daemon, as [helper] allows.

    Runs as SlurmUser, under a unit of its own, until SIGTERM. With nothing allowed it ends at once.
    gsched-privileges(7) says what it does and for whom.

    \b
    Example:
      GSCHED_HELPER_VERBS=drain,resume GSCHED_HELPER_NODES='gn[01-16]' gsched-helper
    """
    from gsched.daemon.helper import run

    run(load_settings())


def _run() -> int:
    try:
        with helper.make_context("gsched-helper", sys.argv[1:]) as context:
            helper.invoke(context)
    except click.exceptions.Exit as request:
        return request.exit_code
    return 0


def main() -> int:
    """Entry point: the exit code of the command line in sys.argv."""
    open_closed_streams()
    for stream in (sys.stdout, sys.stderr):
        speak_locale(stream)
    return guarded(_run)


if __name__ == "__main__":
    sys.exit(main())
