"""`gsched daemon`: the priority daemon. One file a subcommand."""

from __future__ import annotations

import click

from gsched_cli.commands.daemon.audit import audit
from gsched_cli.commands.daemon.clear import clear
from gsched_cli.commands.daemon.once import once
from gsched_cli.commands.daemon.reload import reload
from gsched_cli.commands.daemon.report import report
from gsched_cli.commands.daemon.run import run
from gsched_cli.commands.daemon.status import status


@click.group()
def daemon() -> None:
    """Order the queue by a policy, one round after the other.

    By default the daemon observes: it decides, journals and publishes, and changes nothing in
    Slurm. With --act it sets jobs' SiteFactor. Slurm goes on by its own rules when it stops. As a
    service it is run by systemd's gsched-daemon.service.

    An operator exempts one job by another SiteFactor than gsched found, such as
    `scontrol update jobid=N sitefactor=1`: it is another hand's from then on. 0 does not do: it is
    what most jobs had before, and is written over.

    \b
    Example:
      gsched daemon run --act
    """


for _command in (run, once, status, reload, clear, audit, report):
    daemon.add_command(_command)
