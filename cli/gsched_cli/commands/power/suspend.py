"""`gsched power suspend`: Slurm's SuspendProgram."""

from __future__ import annotations

import click

from gsched_cli import completion as complete
from gsched_cli.options import json_option
from gsched_cli.power_rows import by_slurm, print_result


@click.command()
@click.argument("hostlist", shell_complete=complete.nodes)
@click.option("--force", is_flag=True, help="Also nodes that Slurm has not powered down.")
@by_slurm
@json_option
def suspend(hostlist: str, force: bool, by_slurm: bool, as_json: bool) -> int:
    """Switch off the nodes of HOSTLIST, as SuspendProgram of Slurm.

    A node that Slurm has not powered down is refused, for a job may run on it; by hand also where
    Slurm does not answer. With --force it is switched off, and what runs on it is lost. Nothing is
    switched off while suspending is stopped, nor a node that has failed before; both until `gsched
    power clear`. Slurm believes such a node to be off all the same, and it stays on until it is
    resumed.

    Ends within power.suspend_limit_s with 0 when all nodes are off or have got a later order (these
    are `overtaken`), 2 when Slurm has no such node, 3 when some were refused, 69 when some failed.

    \b
    Example:
      gsched power suspend 'gn[01-16]'

    \b
    JSON:
      done, failed, refused, overtaken
      failed[]: node, why
      refused[]: node, why
    """
    from gsched.app.power import as_slurms_program, exit_code, order

    with as_slurms_program():
        result = order("suspend", hostlist, is_by_slurm=by_slurm, is_forced=force)
    print_result(result, as_json)
    return exit_code(result)
