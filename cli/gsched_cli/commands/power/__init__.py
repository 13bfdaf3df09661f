"""`gsched power`: nodes go off and come back, for Slurm's power saving. One file a subcommand."""

from __future__ import annotations

import click

from gsched_cli.commands.power.clear import clear
from gsched_cli.commands.power.restart import restart
from gsched_cli.commands.power.resume import resume
from gsched_cli.commands.power.resume_failed import resume_failed
from gsched_cli.commands.power.status import status
from gsched_cli.commands.power.suspend import suspend


@click.group()
def power() -> None:
    """Switch nodes off and on for Slurm, by the back-ends of [power] in gsched.toml(5).

    Slurm says when; these are the programs that it runs for it. slurm.conf takes no words behind a
    program's name, so gsched-suspend, gsched-resume and gsched-resume-failed are the commands
    suspend, resume and resume-failed as programs:

    \b
      SuspendProgram=/opt/gsched/bin/gsched-suspend
      ResumeProgram=/opt/gsched/bin/gsched-resume
      ResumeFailProgram=/opt/gsched/bin/gsched-resume-failed

    A node that fails is tried again with growing pauses, then reported and left: it is not
    suspended again before `gsched power clear`. When power.stop_after nodes have failed no node
    is. Resuming always goes on. The log goes to stderr, from Slurm's own calls to syslog.

    \b
    Example:
      gsched power status
    """


for _command in (suspend, resume, restart, resume_failed, status, clear):
    power.add_command(_command)
