"""`gsched ces`: cluster energy saving, nodes that sleep. One file a subcommand."""

from __future__ import annotations

import click

from gsched_cli.commands.ces.orders import orders
from gsched_cli.commands.ces.plan import plan
from gsched_cli.commands.ces.report import report
from gsched_cli.commands.ces.status import status


@click.group()
def ces() -> None:
    """Put idle nodes to sleep, and wake them before they are needed.

    The daemon does it, through gsched-helper and Slurm's own power saving, where gsched.toml(5)
    says [ces] mode = "act"; with "observe" it tells what it would do. It looks at the demand of the
    next hours first, so that few jobs wait for a node to wake. See gsched-ces(7).

    \b
    Example:
      gsched ces report --since 7d
    """


for _command in (status, plan, orders, report):
    ces.add_command(_command)
