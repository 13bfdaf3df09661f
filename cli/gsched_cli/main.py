"""The ``gsched`` command: a table of commands, each loaded only when it is used."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Sequence

import click
from click.shell_completion import CompletionItem

from gsched import __version__
from gsched_cli.errors import guarded
from gsched_cli.output import open_closed_streams, speak_locale

COMMANDS: dict[str, tuple[str, str]] = {
    "submit": ("gsched_cli.commands.submit:submit", "Submit a batch job, as sbatch does."),
    "queue": ("gsched_cli.commands.queue:queue", "Show the queue in predicted order."),
    "top": ("gsched_cli.commands.top:top", "Watch the queue live."),
    "show": ("gsched_cli.commands.show:show", "Show everything known of a job."),
    "why": ("gsched_cli.commands.why:why", "Say why a job waits and when it should start."),
    "cancel": ("gsched_cli.commands.cancel:cancel", "Cancel jobs, as scancel does."),
    "requeue": ("gsched_cli.commands.requeue:requeue", "Start jobs again."),
    "history": ("gsched_cli.commands.history:history", "List past jobs."),
    "eff": ("gsched_cli.commands.eff:eff", "Say how well a job used what it was given."),
    "ckpt": ("gsched_cli.commands.ckpt:ckpt", "Look after the checkpoints of training runs."),
    "predict": ("gsched_cli.commands.predict:predict", "Train and ask the run-time predictor."),
    "jobscript": ("gsched_cli.commands.jobscript:jobscript", "Show the templates of job scripts."),
    "policy": ("gsched_cli.commands.policy:policy", "List and explain the scheduling policies."),
    "daemon": ("gsched_cli.commands.daemon:daemon", "Run and inspect the priority daemon."),
    "db": ("gsched_cli.commands.db:db", "Set up and fill the job-history database."),
    "trace": ("gsched_cli.commands.trace:trace", "Convert past jobs; draw synthetic traces."),
    "sim": ("gsched_cli.commands.sim:sim", "Simulate scheduling policies on past jobs."),
    "fairness": ("gsched_cli.commands.fairness:fairness", "Show whose the GPUs were, and are."),
    "deadlines": (
        "gsched_cli.commands.deadlines:deadlines",
        "List promised deadlines, kept and missed.",
    ),
    "ces": ("gsched_cli.commands.ces:ces", "Let idle nodes sleep, and see what that saves."),
    "power": ("gsched_cli.commands.power:power", "Switch nodes off and on for Slurm."),
    "doctor": ("gsched_cli.commands.doctor:doctor", "Check this machine and say how to mend it."),
    "testbed": ("gsched_cli.commands.testbed:testbed", "Run a private Slurm on this machine."),
    "completion": ("gsched_cli.commands.completion:completion", "Let a shell complete words."),
}
"""Command → (``module:object``, one line of help), in the order of ``gsched --help``."""

COMPLETE_VARIABLE = "_GSCHED_COMPLETE"


class LazyGroup(click.Group):
    """A group whose members come from COMMANDS and are imported on first use."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Names in the order of the table."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import one command; None for an unknown name."""
        if cmd_name not in COMMANDS:
            return None
        module_name, _, attribute = COMMANDS[cmd_name][0].partition(":")
        command: click.Command = getattr(importlib.import_module(module_name), attribute)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """As click does, with near names of the table in the error."""
        try:
            return super().resolve_command(ctx, args)
        except click.exceptions.NoSuchCommand as error:
            raise click.exceptions.NoSuchCommand(
                error.command_name, possibilities=COMMANDS, ctx=ctx
            ) from None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands from the table alone."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, help_line) for name, (_, help_line) in COMMANDS.items()])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Complete names of commands from the table alone, options as click does."""
        names = [
            CompletionItem(name, help=help_line)
            for name, (_, help_line) in COMMANDS.items()
            if name.startswith(incomplete)
        ]
        return names + click.Command.shell_complete(self, ctx, incomplete)


@click.command(cls=LazyGroup, context_settings={"max_content_width": 100})
@click.version_option(__version__, prog_name="gsched", message="%(prog)s %(version)s")
def cli() -> None:
    """Scheduling of deep-learning clusters on Slurm.

    gsched predicts how long jobs run, orders the queue by predicted GPU-time, and tells why a job
    waits. It works beside Slurm: every job is a Slurm job, and Slurm starts it.

    \b
    Example:
      gsched submit --gres=gpu:2 train.sh
      gsched queue
      gsched why 4711
    """


def run(arguments: Sequence[str]) -> int:
    """Run one command line (without the program's name) and return its exit code.

    A command may return an exit code (int); None counts as 0.
    """
    instruction = os.environ.get(COMPLETE_VARIABLE)
    if instruction:
        from click.shell_completion import shell_complete

        from gsched_cli.completion import register

        register()
        return shell_complete(cli, {}, "gsched", COMPLETE_VARIABLE, instruction)
    try:
        with cli.make_context("gsched", list(arguments)) as context:
            code = cli.invoke(context)
    except click.exceptions.Exit as request:
        return request.exit_code
    return code if isinstance(code, int) else 0


def main() -> int:
    """Entry point: the exit code of the command line in sys.argv."""
    open_closed_streams()
    for stream in (sys.stdout, sys.stderr):
        speak_locale(stream)  # a locale's encoding must not stop an answer
    return guarded(lambda: run(sys.argv[1:]))


if __name__ == "__main__":
    sys.exit(main())
