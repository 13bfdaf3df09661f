"""`gsched power clear`: forget failures, and let nodes be suspended again."""

from __future__ import annotations

import click

from gsched_cli import completion as complete
from gsched_cli.options import json_option, load_settings
from gsched_cli.output import emit_json, say


@click.command()
@click.argument("hostlist", required=False, shell_complete=complete.nodes)
@json_option
def clear(hostlist: str | None, as_json: bool) -> None:
    """Forget the failures of the nodes of HOSTLIST, of all nodes without it.

    Without HOSTLIST suspending also goes on where too many failures had stopped it. For root and
    SlurmUser. Slurm itself is told nothing: a node that it has set DOWN sleeps again, and wakes for
    its next job, after `scontrol update nodename=NODE state=resume`.

    \b
    Example:
      gsched power clear gn07

    `nodes` are those that had failed.

    \b
    JSON:
      nodes, was_stopped
    """
    from gsched.app.power import clear as forget
    from gsched.model.hostlist import fold

    names, was_stopped = forget(load_settings(), hostlist)
    if as_json:
        emit_json({"nodes": names, "was_stopped": was_stopped})
        return
    say(f"failures forgotten of {fold(names)}" if names else "no such failures")
    if was_stopped:
        say("nodes are suspended again")
