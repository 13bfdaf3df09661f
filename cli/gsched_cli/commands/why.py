"""`gsched why`: why a job waits."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from gsched_cli import completion as complete
from gsched_cli.options import json_option, load_settings, warn_of_other_clusters
from gsched_cli.output import emit_json, local_time, safe_text

if TYPE_CHECKING:
    from gsched.app.waiting import WhyLine


@click.command()
@click.argument("job", shell_complete=complete.jobs)
@json_option
def why(job: str, as_json: bool) -> None:
    """Say why JOB waits, what is ahead of it and where its place in the order comes from.

    Says so when the job can never start. JOB is an id as squeue prints it: 48211, 48211_3,
    48211+1; that of an array or het job means all of its parts.

    \b
    Example:
      gsched why 48211

    \b
    JSON:
      job, verdict, state, slurm_reason, headline, blocks, parts, lines, ahead, next_to_end,
        slurm_start_time, gsched, dependencies, limits
      blocks[]: code, words, advice, params
      parts[]: job, state, slurm_reason, num_tasks
      lines[]: what, words, at
      dependencies[]: kind, job, status, job_state, words
      limits[]: owner, name, tres, limit, used, asked, hopeless

    verdict is never, held, waiting, running, suspended, completing, ended or unknown. The first
    of blocks is what mainly holds the job back; a code slurm.X is Slurm's own reason X. status is
    met, open, never or unknown. Memory is in bytes, times and TRES times time in seconds.
    """
    from gsched.app.why import explain_job

    settings = load_settings()
    warn_of_other_clusters(settings)
    answer = explain_job(settings, job)
    if as_json:
        emit_json(answer.document())
        return
    for line in answer.lines:
        words = safe_text(_words(line))
        print(words if not line.what else f"  {line.what:<15}{words}")


def _words(line: WhyLine) -> str:
    return line.words if line.at is None else f"{local_time(line.at)} ({line.words})"
