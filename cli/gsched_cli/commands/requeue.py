"""``gsched requeue``: start jobs again, each the right unit of Slurm."""

from __future__ import annotations

from typing import Any

import click

from gsched_cli import completion as complete
from gsched_cli.options import json_option, load_settings
from gsched_cli.output import duration, emit_json, emit_table, say


@click.command()
@click.argument("jobs", metavar="JOB...", nargs=-1, required=True, shell_complete=complete.jobs)
@click.option("--hold", is_flag=True, help="Keep the jobs held until `scontrol release`.")
@click.option("--dry-run", is_flag=True, help="Say what would be requeued and touch nothing.")
@json_option
def requeue(jobs: tuple[str, ...], hold: bool, dry_run: bool, as_json: bool) -> int:
    """Stop running jobs, or take ended ones, and let them wait for a new start.

    JOB is a job (48211), a task of an array (48211_3), several of them (48211_[3-5]), or the id of
    a whole array or heterogeneous job; a single component of the latter is refused. Of a whole
    array the running and ended tasks start again; those that wait stay as they are.

    A job starts from the beginning of its script, under the same id. Its log is truncated unless it
    was submitted with --open-mode=append. Slurm starts it only after its last start's credential
    has expired (AuthInfo=cred_expire, 120 s unless the site has changed it), counted from the end
    of its last attempt; `gsched why` tells when that is. A training with gsched's checkpoints (see
    gsched-jobscripts(7)) saves at the SIGTERM, as far as KillWait allows, and goes on from there.

    Nothing is requeued when one of the jobs is unknown (exit code 2), somebody else's (77), waits
    already, is interactive, or was submitted with --no-requeue (3). Should Slurm then refuse some,
    its words are shown and the exit code is 1. Slurm keeps ended jobs for MinJobAge only.
    gsched acts on this host's cluster.

    \b
    Example:
      gsched requeue 48211_3
      gsched requeue --hold 48211 48213
      gsched requeue --dry-run 48211

    \b
    JSON:
      dry_run, hold, eligible_in_s, jobs
      jobs[]: job, user, state, components, checkpoints, requeued, error
      jobs[].checkpoints: dir, committed_step, step

    checkpoints is what the job itself tells, null where it tells nothing.
    """
    from gsched.app.requeue import document, plan_requeue
    from gsched.app.requeue import requeue as carry_out

    settings = load_settings()
    plan = plan_requeue(settings, jobs, hold=hold)
    answer = document(plan, None) if dry_run else carry_out(settings, plan)
    for note in plan.notes:
        say(note)
    if as_json:
        emit_json(answer)
    else:
        _print(answer)
    return 1 if any(job["error"] for job in answer["jobs"]) else 0


def _print(answer: dict[str, Any]) -> None:
    rows = [
        (job["job"], job["user"], job["state"], _outcome(answer, job)) for job in answer["jobs"]
    ]
    emit_table(["JOB", "USER", "WAS", "OUTCOME"], rows)
    if any(job["requeued"] for job in answer["jobs"]) or answer["dry_run"]:
        when = answer["eligible_in_s"]
        start = "held until released"
        if when is not None:
            start = f"eligible again {duration(when)} after the end of the last attempt"
        say(f"{start}; from the beginning of the script, logs truncated unless --open-mode=append")


def _outcome(answer: dict[str, Any], job: dict[str, Any]) -> str:
    if job["error"]:
        return f"refused: {job['error']}"
    parts = f" with its {job['components']} components" if job["components"] > 1 else ""
    return ("would be requeued" if answer["dry_run"] else "requeued") + parts
