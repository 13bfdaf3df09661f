"""What bash, zsh and fish complete after ``gsched``: values that only the cluster knows.

Functions for ``shell_complete=`` of click's options and arguments. A value may be the last of a
list with commas (``-p gpu,de<Tab>``). Nothing is loaded before a value is asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

import click
from click.shell_completion import (
    BashComplete,
    CompletionItem,
    FishComplete,
    ZshComplete,
    add_completion_class,
)

if TYPE_CHECKING:
    from gsched.jobscript.command_line import Grammar

Values = Callable[[click.Context | None, click.Parameter | None, str], list[CompletionItem]]


def _fitting(found: Iterable[tuple[str, str]], incomplete: str) -> list[CompletionItem]:
    """Those (value, help) that continue the last word of a list with commas."""
    from gsched_cli.output import safe_text

    before, comma, begun = incomplete.rpartition(",")
    return [
        CompletionItem(f"{before}{comma}{safe_text(value)}", help=safe_text(text, 60) or None)
        for value, text in dict(found).items()
        if value.startswith(begun)
    ]


def _of(name: str) -> Values:
    """Values of a function of ``gsched.app.candidates``."""

    def values(
        _ctx: click.Context | None, _param: click.Parameter | None, incomplete: str
    ) -> list[CompletionItem]:
        from gsched.app import candidates

        found = getattr(candidates, name)()
        pairs = [item if isinstance(item, tuple) else (item, "") for item in found]
        return _fitting(sorted(pairs), incomplete)

    return values


jobs = _of("own_jobs")
partitions = _of("partitions")
nodes = _of("nodes")
users = _of("users")
accounts = _of("accounts")
qos = _of("qos")
templates = _of("templates")


def states(
    _ctx: click.Context | None, _param: click.Parameter | None, incomplete: str
) -> list[CompletionItem]:
    """Job states, in capitals as Slurm writes them."""
    from gsched.app.named_states import STATES

    before, comma, begun = incomplete.rpartition(",")
    names = [(long, short) for short, long in STATES.items()] + [("all", "")]
    begun = begun if begun in "all" and begun else begun.upper()
    return _fitting(names, f"{before}{comma}{begun}")


def runtime(
    _ctx: click.Context | None, _param: click.Parameter | None, incomplete: str
) -> list[CompletionItem]:
    """What ``--gs-runtime`` takes: a template, then its keys."""
    from gsched.app import candidates

    name, comma, _ = incomplete.partition(",")
    return _fitting(candidates.template_keys(name) if comma else candidates.templates(), incomplete)


def files(
    _ctx: click.Context | None, _param: click.Parameter | None, incomplete: str
) -> list[CompletionItem]:
    """Let the shell complete names of files."""
    return [CompletionItem(incomplete, type="file")]


_SLURM_VALUES: tuple[tuple[tuple[str, ...], Values], ...] = (
    (("-p", "--partition"), partitions),
    (("-A", "--account"), accounts),
    (("-q", "--qos"), qos),
    (("-w", "--nodelist"), nodes),
    (("-x", "--exclude"), nodes),
    (("-u", "--user"), users),
    (("-t", "--state"), states),
)


def slurm_options(grammar: Grammar) -> list[click.Option]:
    """Hidden options for values of Slurm's own options that are names of the cluster.

    For commands that hand a whole command line on to Slurm: they parse none of these.
    """
    return [
        click.Option(names, hidden=True, shell_complete=values, help="As Slurm's command has it.")
        for names, values in _SLURM_VALUES
        if names[-1].removeprefix("--") in grammar.valued
    ]


def slurm_words(incomplete: str, grammar: Grammar, operands: Values) -> list[CompletionItem]:
    """Long options of Slurm's command that begin so; of other words the `operands`."""
    if not incomplete.startswith("-"):
        return operands(None, None, incomplete)
    names = sorted({*grammar.valued, *grammar.optional, *grammar.flags} - {"help"})
    spelled = (f"--{name}" for name in names)
    return [CompletionItem(word) for word in spelled if word.startswith(incomplete)]


class _Bash(BashComplete):
    """Bash, which takes the = of ``--partition=gpu`` for a word of its own."""

    def get_completion_args(self) -> tuple[list[str], str]:
        """As click does, less that =."""
        args, incomplete = super().get_completion_args()
        return (args[:-1] if args[-1:] == ["="] else args), incomplete


def _whole_words(items: list[CompletionItem], incomplete: str) -> list[CompletionItem]:
    """zsh and fish replace the whole of ``--partition=gp``; click gives its value alone."""
    option, equals, _ = incomplete.partition("=")
    if not (equals and option.startswith("--")):
        return items
    return [
        CompletionItem(f"{option}={item.value}", item.type, item.help)
        if item.type == "plain"
        else item
        for item in items
    ]


class _Zsh(ZshComplete):
    def get_completions(self, args: list[str], incomplete: str) -> list[CompletionItem]:
        """As click does, in whole words."""
        return _whole_words(super().get_completions(args, incomplete), incomplete)


class _Fish(FishComplete):
    def get_completions(self, args: list[str], incomplete: str) -> list[CompletionItem]:
        """As click does, in whole words."""
        return _whole_words(super().get_completions(args, incomplete), incomplete)


_CLASSES = {"bash": _Bash, "zsh": _Zsh, "fish": _Fish}
SHELLS = tuple(_CLASSES)


def register() -> None:
    """Let click use these in place of its own."""
    for name, complete in _CLASSES.items():
        add_completion_class(complete, name)


def script(shell: str, command: click.Command, program: str, variable: str) -> str:
    """What the shell has to read once, so that it completes words after `program`."""
    return _CLASSES[shell](command, {}, program, variable).source()
