"""`gsched daemon once`: one round, and what it decided."""

from __future__ import annotations

import click

from gsched.errors import TryAgainError, UnavailableError
from gsched_cli.commands.daemon.acting import acting_option
from gsched_cli.options import json_option, load_settings
from gsched_cli.output import duration, emit_json, emit_table, say, warn


@click.command()
@acting_option
@json_option
def once(acting: bool, as_json: bool) -> None:
    """Run one round and show what it decided.

    \b
    Example:
      gsched daemon once

    \b
    JSON:
      round_id, cluster, started_at, policy, acting, mode, why, model_id, summary, timings_s,
        jobs
      jobs[]: job, user, rank, of, queue, predicted_duration_s, site_factor_before,
        site_factor_after, change_state, reason, excluded
    """
    import logging

    from gsched.app.daemon_views import round_document, round_rows
    from gsched.app.run_daemon import open_daemon
    from gsched.daemon.log import set_up

    set_up(logging.WARNING)
    with open_daemon(load_settings(), acting) as loop:
        result = loop.once()
        situation = loop.parts.board.now
    document = round_document(result, situation)
    if as_json:
        emit_json(document)
    else:
        emit_table(
            ["RANK", "JOBID", "USER", "PREDICTED", "SITEFACTOR", "STATE", "REASON"],
            round_rows(document, duration),
            right={0, 3},
        )
    mode = "acting" if result.info.acting else "observing: nothing was written to Slurm"
    counts = (f"{name} {n}" for name, n in result.summary.items() if isinstance(n, int))
    say(", ".join(counts) + f" ({mode})")
    for problem in result.problems:
        warn(f"job {problem.key.slurm_id}: {problem.what}" if problem.key else problem.what)
    if acting and not result.info.acting:
        raise TryAgainError(*_why_not(situation.mode.value, situation.why))
    refused = [c for c in result.changes if result.settled[c.change_id][0].value == "rejected"]
    if refused:
        job, why = refused[0].key.slurm_id, result.settled[refused[0].change_id][1]
        raise UnavailableError(
            f"Slurm refused {len(refused)} of {len(result.changes)} changes (job {job}: {why})"
        )


def _why_not(mode: str, why: str) -> tuple[str, str]:
    """Message and hint of a round that was to act and did not."""
    if mode == "halted":
        hint = "`gsched daemon clear --lift-halt` lets daemons act again"
        return f"acting is halted by {why}", hint
    return f"the daemon does not act now ({mode}): {why}", ""
