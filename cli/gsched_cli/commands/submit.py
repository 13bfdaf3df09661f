"""``gsched submit``: sbatch with gsched's own options."""

from __future__ import annotations

import os
import sys

import click

from gsched.app.submit import dry_run_text, prepare, scan_sbatch
from gsched.jobscript.command_line import Kind
from gsched.jobscript.requests import OPTIONS
from gsched.slurm.run import passthrough
from gsched_cli.output import warn


class SbatchCommand(click.Command):
    """Takes sbatch's command line to the letter; ``--help`` alone is ours."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Leave every word to sbatch's own grammar."""
        if "--help" in args and any(
            word.kind is Kind.OPTION and word.name == "help" and args[word.start] == "--help"
            for word in scan_sbatch(args)
        ):
            super().parse_args(ctx, ["--help"])
        ctx.args = list(args)
        return ctx.args


@click.command(
    cls=SbatchCommand,
    options_metavar="[SBATCH OPTIONS] [--gs-...] [SCRIPT [ARGS]...]",
    params=[click.Option([name], is_flag=True, help=text) for name, text in OPTIONS.items()],
)
@click.pass_context
def submit(ctx: click.Context, /, **_: bool) -> int:
    """Submit a batch job, as sbatch does.

    All options of sbatch(1) are handed on to the letter, and what it prints and its exit code come
    back unchanged: scripts that parse sbatch go on working. Options of gsched begin with --gs- and
    stand before the script's name; what follows the script belongs to the script. They may also
    stand in the script, in lines #GSCHED --gs-… beside its #SBATCH lines. The script is found as
    sbatch finds it; without one it is read from standard input.

    gsched tells its daemon what you ask for by a short token, gs1{…}, behind the job's comment;
    your own --comment is kept. Submitting from inside a job, variables that describe that job
    (SLURM_…, CPU and memory binding) are not passed on to the new one.

    \b
    Example:
      gsched submit --gres=gpu:4 --time=3:00:00 train.sh --epochs 10
      gsched submit --gs-none -p gpu train.sh
      gsched submit --gs-dry-run --wrap 'python train.py'
    """
    submission = prepare(ctx.args, os.environ, _read_stdin)
    for message in submission.warnings:
        warn(message)
    if submission.is_dry_run:
        sys.stdout.write(dry_run_text(submission))
        return 0
    return passthrough(submission.argv, submission.environ, submission.stdin)


def _read_stdin() -> bytes:
    return b"" if sys.stdin is None else sys.stdin.buffer.read()
