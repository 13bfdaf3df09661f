"""`gsched power clear`: forget failures, and let nodes be suspended again."""

from __future__ import annotations

import click

from gsched_cli import completion as complete
from gsched_cli.options import json_option
from gsched_cli.output import emit_json, say


@click.command()
@click.argument("hostlist", required=False, shell_complete=complete.nodes)
@click.option("--stop", is_flag=True, help="Let suspending go on, and forget no failure.")
@json_option
def clear(hostlist: str | None, stop: bool, as_json: bool) -> None:
    """Forget the failures of the nodes of HOSTLIST, of all nodes without it.

    Without HOSTLIST suspending also goes on where too many failures had stopped it; with --stop it
    goes on, and nodes that have failed are still left alone. Of the nodes of HOSTLIST their last
    orders are forgotten as well where these have failed, and everything where Slurm has no such
    node any more. For root and SlurmUser. Slurm itself is told nothing: a node that it has set DOWN
    sleeps again, and wakes for its next job, after `scontrol update nodename=NODE state=resume`.

    \b
    Example:
      gsched power clear gn07

    `nodes` are those that had failed. `stopped_why` says why suspending is still stopped.
    `may_be_on` are nodes that Slurm takes for off and that were not switched off.

    \b
    JSON:
      nodes, was_stopped, stopped_why, may_be_on
    """
    from dataclasses import asdict

    from gsched.app.power import as_slurms_program
    from gsched.app.power import clear as forget
    from gsched.app.power_settings import settings_of_power
    from gsched.model.hostlist import fold

    if stop and hostlist is not None:
        raise click.UsageError("--stop is for all nodes: give it without HOSTLIST")
    with as_slurms_program():
        found = forget(settings_of_power(), hostlist, is_stop=stop)
    if as_json:
        emit_json(asdict(found))
        return
    if not stop:
        say(f"failures forgotten of {fold(found.nodes)}" if found.nodes else "no such failures")
    if found.was_stopped:
        say("nodes are suspended again")
    elif found.stopped_why:
        say(f"suspending is still stopped: {found.stopped_why}")
        say("`gsched power clear --stop` lets it go on")
    elif stop:
        say("suspending was not stopped")
    if found.may_be_on:
        nodes = fold(found.may_be_on)
        say(
            f"may be on, though Slurm takes them for off: {nodes}; `gsched power suspend '{nodes}'`"
        )
