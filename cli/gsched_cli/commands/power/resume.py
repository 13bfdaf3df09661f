"""`gsched power resume`: Slurm's ResumeProgram."""

from __future__ import annotations

import click

from gsched_cli import completion as complete
from gsched_cli.options import json_option
from gsched_cli.power_rows import by_slurm, print_result


@click.command()
@click.argument("hostlist", shell_complete=complete.nodes)
@by_slurm
@json_option
def resume(hostlist: str, by_slurm: bool, as_json: bool) -> int:
    """Switch on the nodes of HOSTLIST, as ResumeProgram of Slurm.

    A node that may never have gone off, because its last suspend failed, was refused, was
    interrupted or is not known, is restarted instead: Slurm takes a node back only with a new boot
    time. It is not restarted where jobs may run on it as far as Slurm shows, nor by hand where
    Slurm does not answer. Resuming goes on while suspending is stopped, for nodes that have failed,
    where the state folder cannot be used, and while gsched.toml is wrong: by the settings that were
    last worked by.

    Ends within power.resume_limit_s with 0 when all nodes were told, or have got a later order
    (these are `overtaken`), 2 when Slurm has no such node, 69 when some failed. Whether they come
    up is seen by Slurm: see `gsched power resume-failed`.

    \b
    Example:
      gsched power resume 'gn[01-16]'

    \b
    JSON:
      done, failed, refused, overtaken
      failed[]: node, why
      refused[]: node, why
    """
    from gsched.app.power import as_slurms_program, exit_code, order

    with as_slurms_program():
        result = order("resume", hostlist, is_by_slurm=by_slurm)
    print_result(result, as_json)
    return exit_code(result)
