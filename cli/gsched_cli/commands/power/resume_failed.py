"""`gsched power resume-failed`: Slurm's ResumeFailProgram."""

from __future__ import annotations

import click

from gsched_cli import completion as complete
from gsched_cli.options import json_option
from gsched_cli.output import emit_json


@click.command(name="resume-failed")
@click.argument("hostlist", shell_complete=complete.nodes)
@json_option
def resume_failed(hostlist: str, as_json: bool) -> None:
    """Write down that the nodes of HOSTLIST have not come up, as ResumeFailProgram of Slurm.

    Slurm runs it when ResumeTimeout is over, and sets the nodes DOWN (with ReturnToService=2 it
    may give them to the next job at once). They count as failures, see `gsched power status`, and
    are not suspended again before `gsched power clear`. The next resume goes the other way about
    it: it restarts what a resume did not bring up, and the reverse.

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
        names = note(hostlist)
    if as_json:
        emit_json({"nodes": names})
