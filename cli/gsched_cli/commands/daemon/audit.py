"""`gsched daemon audit`: what was decided and done."""

from __future__ import annotations

from typing import Any

import click

from gsched_cli.options import json_option, load_settings
from gsched_cli.output import emit_json, emit_table, local_time


@click.command()
@click.option("-j", "--job", help="Only this job.")
@click.option(
    "-n",
    "--limit",
    type=click.IntRange(min=1),
    default=50,
    show_default=True,
    help="The newest so many rows.",
)
@json_option
def audit(job: str | None, limit: int, as_json: bool) -> None:
    """Show what was decided and done, why, and what Slurm confirmed; the newest first.

    What users asked for is among it, as it was captured from their jobs' comments (channel
    `request`), and so are leases that were to end, with what came of each (channel `lease`).
    Slurm's operators who cannot open the database get it from the daemon on this host, 1,000 rows
    at most.

    \b
    Example:
      gsched daemon audit -j 48211

    \b
    JSON:
      []: decided_at, settled_at, round_id, policy, job, first_submit_time, channel, before,
        after, state, reason, reason_text, detail, transitions
    """
    from gsched.app.daemon_views import audit_rows

    rows = audit_rows(load_settings(), job, limit)
    if as_json:
        emit_json(rows)
        return
    emit_table(
        ["TIME", "JOBID", "POLICY", "SITEFACTOR", "STATE", "REASON"],
        [
            (
                local_time(r["decided_at"]),
                r["job"],
                r["policy"] or "-",
                _change_text(r),
                r["state"],
                r["reason_text"] + (f" [{r['detail']}]" if r["detail"] else ""),
            )
            for r in rows
        ],
    )


def _change_text(row: dict[str, Any]) -> str:
    if row["after"] is None:
        return "-"
    return f"{'?' if row['before'] is None else row['before']} → {row['after']}"
