"""`gsched power restart`: off and on again, for a node that Slurm waits for in vain."""

from __future__ import annotations

import click

from gsched_cli import completion as complete
from gsched_cli.options import json_option
from gsched_cli.power_rows import print_result


@click.command()
@click.argument("hostlist", shell_complete=complete.nodes)
@click.option("--force", is_flag=True, help="Also nodes on which jobs may run.")
@json_option
def restart(hostlist: str, force: bool, as_json: bool) -> int:
    """Switch the nodes of HOSTLIST off and on again.

    For a node that never went off, and whose new boot Slurm waits for. One on which jobs may run is
    refused: it must be down, drained, or be waking or powered down for Slurm. So is every node
    where Slurm does not answer. With --force what runs on them is lost.

    Ends within power.resume_limit_s with 0 when all nodes were told, or have got a later order
    (these are `overtaken`), 2 when Slurm has no such node, 3 when some were refused, 69 when some
    failed, 78 when no back-end can restart them.

    \b
    Example:
      gsched power restart gn07

    \b
    JSON:
      done, failed, refused, overtaken
      failed[]: node, why
      refused[]: node, why
    """
    from gsched.app.power import as_slurms_program, exit_code, order

    with as_slurms_program():
        result = order("restart", hostlist, is_by_slurm=False, is_forced=force)
    print_result(result, as_json)
    return exit_code(result)
