"""`gsched power resume-failed`: Slurm's ResumeFailProgram."""

from __future__ import annotations

import click

from gsched_cli import completion as complete
from gsched_cli.options import json_option, load_settings
from gsched_cli.output import emit_json


@click.command(name="resume-failed")
@click.argument("hostlist", shell_complete=complete.nodes)
@json_option
def resume_failed(hostlist: str, as_json: bool) -> None:
    """Write down that the nodes of HOSTLIST have not come up, as ResumeFailProgram of Slurm.

    Slurm runs it when ResumeTimeout is over, and sets the nodes DOWN. They count as failures, see
    `gsched power status`, and are not suspended again before `gsched power clear`.

    \b
    Example:
      gsched power resume-failed gn07

    \b
    JSON:
      nodes
    """
    from gsched.app.power import as_slurms_program
    from gsched.app.power import resume_failed as note

    with as_slurms_program():
        names = note(load_settings(), hostlist)
    if as_json:
        emit_json({"nodes": names})
