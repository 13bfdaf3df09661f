"""`gsched daemon clear`: what gsched wrote is taken back."""

from __future__ import annotations

import click

from gsched_cli.options import json_option, load_settings
from gsched_cli.output import count, emit_json, emit_table, say, warn


@click.command()
@click.option(
    "--all", "everything", is_flag=True, help="Set every SiteFactor to 0, whoever set it."
)
@click.option("--lift-halt", is_flag=True, help="Let a halted daemon act again; clears nothing.")
@json_option
def clear(everything: bool, lift_halt: bool, as_json: bool) -> None:
    """Set every SiteFactor that gsched wrote back to what it was; end reservations that it made.

    From then on daemons only observe, also ones started later, until
    `gsched daemon clear --lift-halt`. That is settled before anything else, and stays when the rest
    fails. What gsched wrote is in the history database: while that cannot be opened, `--all` is the
    way. It then sets to 0 whatever SiteFactor sprio shows, which journal and audit do not tell, and
    does not see whether another host's daemon leads. Afterwards a job that had another value than
    0 before gsched counts as set by another hand; others are gsched's again.

    \b
    Example:
      gsched daemon clear

    The lists of jobs are `cleared`, `unread` (accepted, but sprio does not list the job: held or
    running), `failed`, and `foreign` (left alone: another hand has set them).

    \b
    JSON:
      jobs, journalled
    """
    from gsched.app.daemon_clear import clear_all
    from gsched.app.daemon_views import clear_document
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
    if result.no_journal:
        warn(
            f"done without the history database ({result.no_journal}): the journal knows nothing "
            "of it, and jobs that sprio does not list (held) keep their value"
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
