"""`gsched sim`: the simulator. One file a subcommand."""

from __future__ import annotations

import click

from gsched_cli.commands.sim.compare import compare
from gsched_cli.commands.sim.run import run


@click.group()
def sim() -> None:
    """Simulate scheduling policies on past jobs.

    The policies are the ones that the daemon runs. Nothing is changed anywhere: before the daemon
    acts, `gsched sim compare --since 30d` tells what policies would have done with the site's own
    last month.

    \b
    Example:
      gsched sim compare --since 30d --live
    """


for _command in (run, compare):
    sim.add_command(_command)
