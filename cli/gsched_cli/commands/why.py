"""`gsched why`: why a job waits."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from gsched_cli.options import json_option, load_settings
from gsched_cli.output import emit_json, local_time, safe_text

if TYPE_CHECKING:
    from gsched.app.job import WhyLine


@click.command()
@click.argument("job")
@json_option
def why(job: str, as_json: bool) -> None:
    """Say why JOB waits, what is ahead of it and where its place in the order comes from.

    Says so when the job can never start.

    \b
    Example:
      gsched why 48211

    \b
    JSON:
      job, state, slurm_reason, lines, gsched
      lines[]: what, words
    """
    from gsched.app.job import find_live, why_lines
    from gsched.errors import UsageError

    live = find_live(load_settings(), job)
    if live is None:
        raise UsageError(
            f"Slurm has no job {job} (any more)", "`gsched show` looks in the history as well"
        )
    lines = [(line.what, _words(line)) for line in why_lines(live)]
    if as_json:
        emit_json(
            {
                "job": live.line.slurm_id,
                "state": live.row.state_text,
                "slurm_reason": live.row.reason,
                "lines": [{"what": what, "words": words} for what, words in lines],
                "gsched": live.line.answer or None,
            }
        )
        return
    for what, words in lines:
        print(safe_text(words) if not what else f"  {what:<15}{safe_text(words)}")


def _words(line: WhyLine) -> str:
    return line.words if line.at is None else f"{local_time(line.at)} ({line.words})"
