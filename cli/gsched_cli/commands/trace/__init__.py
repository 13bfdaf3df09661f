"""`gsched trace`: work with traces of past jobs. One file a subcommand."""

from __future__ import annotations

import click

from gsched_cli.commands.trace.convert import convert
from gsched_cli.commands.trace.synth import synth


@click.group()
def trace() -> None:
    """Work with traces of past jobs.

    \b
    Example:
      gsched trace convert --format philly philly.csv.gz -o philly.parquet
      gsched trace synth --like philly --days 7 -o week.csv.gz
    """


trace.add_command(convert)
trace.add_command(synth)
