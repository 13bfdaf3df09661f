"""The filters of past jobs, in the letters of sacct and squeue, that `history` and `eff` share."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

import click

from gsched_cli import completion as complete

Command = TypeVar("Command", bound=Callable[..., Any])

_FILTERS = (
    (("-u", "--user", "users"), "these users' jobs", complete.users),
    (("-A", "--account", "accounts"), "these accounts' jobs", complete.accounts),
    (("-p", "--partition", "partitions"), "these partitions' jobs", complete.partitions),
    (("-q", "--qos", "qos"), "jobs of these QOS", complete.qos),
    (("-n", "--name", "names"), "jobs of this whole name", None),
    (("-s", "--state", "states"), "jobs in these states (FAILED, F, …)", complete.states),
    (("--phase", "phases"), "jobs of these phases (pretrain, …, unclassified)", None),
    (
        ("-N", "-w", "--nodelist", "node_lists"),
        "jobs that ran on one of these nodes",
        complete.nodes,
    ),
    (("-M", "--clusters", "clusters"), "jobs of these clusters", None),
)


def past_filters(command: Command) -> Command:
    """Add the filters; the command receives them as `filters`, keywords of ``PastQuery``."""

    @functools.wraps(command)
    def with_filters(*args: Any, **others: Any) -> Any:
        names = [names[-1] for names, _, _ in _FILTERS] + ["own", "since", "until"]
        filters = {name: others.pop(name) for name in names}
        return command(*args, filters=filters, **others)

    options = [
        click.option(*names, multiple=True, help=f"Only {text}; repeatable.", shell_complete=values)
        for names, text, values in _FILTERS
    ]
    options += [
        click.option("--me", "own", is_flag=True, help="Only your own jobs."),
        click.option(
            "-S",
            "--since",
            "--starttime",
            "since",
            metavar="T",
            help="Jobs that waited or ran then or later (2d, 6h, 2026-11-29, 13:00).",
        ),
        click.option(
            "-E", "--until", "--endtime", "until", metavar="T", help="Jobs submitted before then."
        ),
    ]
    wrapped: Any = with_filters
    for option in reversed(options):
        wrapped = option(wrapped)
    return wrapped  # type: ignore[no-any-return]
