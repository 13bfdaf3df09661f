"""What `gsched power` prints."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from gsched_cli.output import emit_json, emit_table, local_time, say

if TYPE_CHECKING:
    from gsched.power.orders import Result


by_slurm = click.option("--by-slurm", is_flag=True, hidden=True, help="Set by Slurm's programs.")
"""Slurm's own call: its word is good where it gives no answer."""


def print_result(result: Result, as_json: bool) -> None:
    """One call's outcome; what failed is told by the log."""
    if as_json:
        from gsched.app.power import result_document

        emit_json(result_document(result))


def print_status(document: dict[str, Any]) -> None:
    """The state as a table of nodes, with failures on stderr."""
    rows = [
        [
            node["node"],
            node["verb"],
            local_time(node["asked_at"]),
            node["outcome"],
            str(node["tries"]),
            node["error"] or "-",
        ]
        for node in document["nodes"]
    ]
    emit_table(["NODE", "VERB", "ASKED", "OUTCOME", "TRIES", "ERROR"], rows, right={4})
    if document["stopped_at"] is not None:
        since = local_time(document["stopped_at"])
        say(f"suspending is stopped since {since}: {document['stopped_why']}")
        say("`gsched power clear --stop` lets it go on")
    for failure in document["failures"]:
        say(
            f"{failure['node']} failed to {failure['verb']} at {local_time(failure['at'])}: "
            f"{failure['error']}"
        )
