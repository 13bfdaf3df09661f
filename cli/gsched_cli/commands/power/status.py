"""`gsched power status`: what was asked of the nodes, and what failed."""

from __future__ import annotations

import click

from gsched_cli.options import json_option
from gsched_cli.output import emit_json


@click.command()
@json_option
def status(as_json: bool) -> None:
    """Show what Slurm has last asked of each node, which have failed, and whether it is stopped.

    `outcome` is done, failed, refused, under way, or interrupted (its process was killed). The
    verb restart stands for a resume of a node that may never have gone off. `failures` are those
    that nobody has cleared. done means that the back-end has taken the order, no more: what state
    a node is in, sinfo tells.

    \b
    Example:
      gsched power status --json

    \b
    JSON:
      state_dir, stopped_at, stopped_why, failures, nodes
      failures[]: node, verb, at, tries, error
      nodes[]: node, verb, asked_at, outcome, ended_at, tries, error
    """
    from gsched.app.power import status_document
    from gsched.app.power_settings import settings_of_power
    from gsched_cli.power_rows import print_status

    document = status_document(settings_of_power())
    if as_json:
        emit_json(document)
    else:
        print_status(document)
