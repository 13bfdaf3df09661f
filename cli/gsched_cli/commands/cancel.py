"""``gsched cancel``: scancel, with the job ids checked first."""

from __future__ import annotations

import click
from click.shell_completion import CompletionItem

from gsched.app.named_job import named_jobs
from gsched.errors import UsageError
from gsched.jobscript.command_line import SCANCEL, Kind, Word, scan
from gsched.slurm.run import become, caller_environment
from gsched_cli import completion as complete
from gsched_cli.options import load_settings
from gsched_cli.output import emit_json, emit_table, say

_OWN = ("dry-run", "json")


class ScancelCommand(click.Command):
    """Takes scancel's command line to the letter; a few words are ours."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Leave every word to scancel's own grammar."""
        ctx.obj = scan(args, SCANCEL)
        if any(_is_option(word) and args[word.start] == "--help" for word in ctx.obj):
            super().parse_args(ctx, ["--help"])
        ctx.args = list(args)
        return ctx.args

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Options of both, and one's own jobs."""
        found = super().shell_complete(ctx, incomplete)
        return found + complete.slurm_words(incomplete, SCANCEL, complete.jobs)


@click.command(
    cls=ScancelCommand,
    options_metavar="JOB... [SCANCEL OPTIONS]",
    params=[
        click.Option(
            ["--dry-run"], is_flag=True, help="Show what would be cancelled; touch nothing."
        ),
        click.Option(["--json"], is_flag=True, help="With --dry-run: one JSON document."),
        *complete.slurm_options(SCANCEL),
    ],
)
@click.pass_context
def cancel(ctx: click.Context, /, **_: object) -> None:
    """Cancel jobs, as scancel does.

    JOB is a job (123), a task of an array (123_4, 123_[4-7]), a whole array or heterogeneous job
    (123), a step (123.0), or several with commas between. Nothing is cancelled when one of them is
    no job id. All options of scancel(1) are handed on, filters as well as -i, which asks for each
    job, and --signal; its output and exit code come back. Slurm ends a single component (123+1) of
    a heterogeneous job only once the job runs. Filters without -u also mean the jobs of others,
    which Slurm refuses to anybody but an operator. An id that Slurm does not know (any more) is no
    error to scancel; --dry-run tells.

    A training with gsched's checkpoints saves at the SIGTERM that Slurm sends first, as far as
    KillWait allows; --dry-run says what is saved by then. The job does not come back: what goes on
    from there is a new job with the same folder (see gsched-jobscripts(7)).

    \b
    Example:
      gsched cancel 4711
      gsched cancel 4711_3 4712
      gsched cancel --state=PENDING --user=alice --dry-run

    \b
    JSON:
      dry_run, signal, jobs, unmatched
      jobs[]: job, user, partition, state, name, checkpoints
      jobs[].checkpoints: dir, committed_step, step

    checkpoints is what the job itself tells, null where it tells nothing, and with --signal.
    """
    words: list[Word] = ctx.obj
    own = {word.name for word in words if _is_option(word) and word.name in _OWN}
    if "dry-run" in own:
        _show(words, as_json="json" in own)
        return
    if own:
        raise UsageError("--json goes with --dry-run: scancel itself prints no data")
    if not words:
        raise UsageError("no job named", "see `gsched cancel --help`")
    for word in words:
        if word.kind is Kind.OPERAND:
            named_jobs(word.name)
    become(["scancel", *ctx.args], caller_environment())


def _is_option(word: Word) -> bool:
    return word.kind is Kind.OPTION


def _show(words: list[Word], *, as_json: bool) -> None:
    from gsched.app.cancel import preview

    found = preview(load_settings(), words)
    document = found.document()
    if as_json:
        emit_json(document)
        return
    keys = ("job", "user", "partition", "state", "name")
    emit_table(
        [key.upper() for key in keys], [[job[key] for key in keys] for job in document["jobs"]]
    )
    what = f"be sent {found.signal}" if found.signal else "be cancelled"
    say(f"{len(found.targets)} would {what}; nothing was touched")
    for note in found.notes:
        say(note)
    for unmatched in found.unmatched:
        say(f"{unmatched} is no job that waits or runs")
