"""``gsched cancel``: scancel, with the job ids checked first."""

from __future__ import annotations

import os
import re

import click

from gsched.app.named_job import named_job
from gsched.errors import UsageError
from gsched.jobscript.command_line import SCANCEL, Kind, scan
from gsched.slurm.run import passthrough

_BETWEEN_IDS = re.compile(r",(?![^\[]*\])")  # not the commas of 7_[1,3]


class ScancelCommand(click.Command):
    """Takes scancel's command line to the letter; ``--help`` alone is ours."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Leave every word to scancel's own grammar."""
        if "--help" in args:
            super().parse_args(ctx, ["--help"])
        ctx.args = list(args)
        return ctx.args


@click.command(cls=ScancelCommand, options_metavar="JOB... [SCANCEL OPTIONS]")
@click.pass_context
def cancel(ctx: click.Context, /) -> int:
    """Cancel jobs, as scancel does.

    JOB is a job (123), a task of an array (123_4, 123_[4-7]), a component of a heterogeneous job
    (123+1), a step (123.0), or several with commas between. Nothing is cancelled when one of them
    is no job id. All options of scancel(1) are handed on; its output and exit code come back.

    \b
    Example:
      gsched cancel 4711
      gsched cancel 4711_3 4712
      gsched cancel --state=PENDING --user=alice
    """
    words = scan(ctx.args, SCANCEL)
    if not words:
        raise UsageError("no job named", "see `gsched cancel --help`")
    for word in words:
        if word.kind is Kind.OPERAND:
            _check_ids(word.name)
    return passthrough(["scancel", *ctx.args], os.environ)


def _check_ids(text: str) -> None:
    for job_id in _BETWEEN_IDS.split(text):
        named_job(job_id)
