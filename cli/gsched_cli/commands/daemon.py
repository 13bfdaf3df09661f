"""`gsched daemon`: the priority daemon."""

from __future__ import annotations

from typing import Any

import click

from gsched.errors import TryAgainError, UnavailableError
from gsched_cli.options import json_option, load_settings
from gsched_cli.output import count, duration, emit_json, emit_table, local_time, say, warn


@click.group()
def daemon() -> None:
    """Order the queue by a policy, one round after the other.

    By default the daemon observes: it decides, journals and publishes, and changes nothing in
    Slurm. With --act it sets jobs' SiteFactor. Slurm goes on by its own rules when it stops.

    \b
    Example:
      gsched daemon run --act
    """


_CLEARED = {
    "cleared": "cleared",
    "unread": "cleared, not readable again",
    "failed": "failed",
    "foreign": "left alone, another hand has set them",
}

_acting = click.option(
    "--act/--observe", "acting", default=False, help="Write to Slurm, or only decide [observe]."
)


@daemon.command()
@_acting
@click.option("--interval", type=click.FloatRange(min=0.1), help="Seconds between rounds.")
def run(acting: bool, interval: float | None) -> None:
    """Run rounds until SIGTERM or SIGINT.

    \b
    Example:
      gsched daemon run --observe --interval 30
    """
    from gsched.app.run_daemon import open_daemon
    from gsched.daemon.service import serve

    with open_daemon(load_settings(), acting, interval, listens=True) as loop:
        serve(loop)


@daemon.command()
@_acting
@json_option
def once(acting: bool, as_json: bool) -> None:
    """Run one round and show what it decided.

    \b
    Example:
      gsched daemon once

    \b
    JSON:
      round_id, cluster, started_at, policy, acting, model_id, summary, jobs
      jobs[]: job, user, rank, of, queue, predicted_duration_s, site_factor_before,
        site_factor_after, change_state, reason, excluded
    """
    from gsched.app.daemon_views import round_document, round_rows
    from gsched.app.run_daemon import open_daemon

    with open_daemon(load_settings(), acting, None) as loop:
        result = loop.once()
        halted = loop.state_dir.halted()
    if as_json:
        emit_json(round_document(result))
    else:
        emit_table(
            ["RANK", "JOBID", "USER", "PREDICTED", "SITEFACTOR", "STATE", "REASON"],
            round_rows(result, duration),
            right={0, 3},
        )
    mode = "acting" if result.info.acting else "observing: nothing was written to Slurm"
    say(", ".join(f"{name} {number}" for name, number in result.summary.items()) + f" ({mode})")
    for problem in result.problems:
        warn(f"job {problem.key.slurm_id}: {problem.what}" if problem.key else problem.what)
    if acting and halted:
        raise TryAgainError(
            f"acting is halted by {halted}",
            "`gsched daemon clear --lift-halt` lets daemons act again",
        )
    refused = [c for c in result.changes if result.settled[c.change_id][0].value == "rejected"]
    if refused:
        job, why = refused[0].key.slurm_id, result.settled[refused[0].change_id][1]
        raise UnavailableError(
            f"Slurm refused {len(refused)} of {len(result.changes)} changes (job {job}: {why})"
        )


@daemon.command()
@json_option
def status(as_json: bool) -> None:
    """Show whether a daemon runs, how, and what its last round did.

    \b
    Example:
      gsched daemon status --json

    \b
    JSON:
      running, pid, mode, started_at, halted, cluster, policy, model_id, last_round_as_of,
        summary, query_address, query_problem
    """
    from gsched.app.daemon_views import daemon_status

    found = daemon_status(load_settings())
    if as_json:
        emit_json(found)
        return
    rows = [(name.replace("_", " "), _status_text(name, value)) for name, value in found.items()]
    emit_table(["WHAT", "IS"], rows)


@daemon.command()
@click.option(
    "--all", "everything", is_flag=True, help="Set every SiteFactor to 0, whoever set it."
)
@click.option("--lift-halt", is_flag=True, help="Let a halted daemon act again; clears nothing.")
@json_option
def clear(everything: bool, lift_halt: bool, as_json: bool) -> None:
    """Set every SiteFactor that gsched wrote back to what it was.

    From then on daemons only observe, also ones started later, until
    `gsched daemon clear --lift-halt`.

    \b
    Example:
      gsched daemon clear

    The lists of jobs are `cleared`, `unread` (accepted, but sprio does not list the job: held or
    running), `failed`, and `foreign` (left alone: another hand has set them).

    \b
    JSON:
      jobs
    """
    from gsched.app.daemon_views import clear_document
    from gsched.app.run_daemon import clear_all
    from gsched.daemon.locks import StateDir

    settings = load_settings()
    if lift_halt:
        lifted = StateDir(settings.state_dir).lift_halt()
        say("the daemon may act again" if lifted else "nothing was halted")
        return
    result = clear_all(settings, everything)
    found = clear_document(result)
    if as_json:
        emit_json(found)
    else:
        emit_table(
            ["WHAT", "JOBS"], [(name, count(len(jobs))) for name, jobs in found["jobs"].items()]
        )
    say("daemons only observe from now on; `gsched daemon clear --lift-halt` lets them act again")
    if result.foreign:
        say(
            f"{len(result.foreign)} jobs have a SiteFactor that the journal does not know: "
            "`gsched daemon clear --all` sets those to 0 as well"
        )
    if result.failed:
        from gsched.errors import EXIT_UNAVAILABLE, GschedError

        key, error = result.failed[0]
        raise GschedError(
            f"{len(result.failed)} SiteFactors not set back (job {key.slurm_id}: {error})",
            "run `gsched daemon clear` again as root, SlurmUser or a Slurm operator",
            EXIT_UNAVAILABLE,
        )


@daemon.command()
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
    `request`).

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


def _status_text(name: str, value: Any) -> str:
    if value in (None, ""):
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, dict):
        return ", ".join(f"{key} {number}" for key, number in value.items())
    return local_time(value) if name.endswith(("_at", "as_of")) else str(value)
