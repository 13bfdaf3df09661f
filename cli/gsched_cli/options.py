"""Options and set-up that commands share."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

import click

from gsched.config.settings import Settings
from gsched.errors import ConfigError
from gsched_cli import completion as complete
from gsched_cli.output import warn

Command = TypeVar("Command", bound=Callable[..., Any])

_FILTERS = (
    (("-u", "--user", "--users", "users"), "these users' jobs", complete.users),
    (("-A", "--account", "accounts"), "these accounts' jobs", complete.accounts),
    (("-p", "--partition", "partitions"), "these partitions' jobs", complete.partitions),
    (("-q", "--qos", "qos"), "jobs of these QOS", complete.qos),
    (("-L", "--licenses", "licences"), "jobs that ask for these licences", None),
    (("-R", "--reservation", "reservations"), "jobs of these reservations", None),
    (("-n", "--name", "names"), "jobs of this whole name", None),
    (("-j", "--jobs", "job_ids"), "these jobs; an array's id means all its tasks", complete.jobs),
    (("-t", "--states", "states"), "jobs in these states (PD, RUNNING, …; all)", complete.states),
    (("-w", "--nodelist", "node_lists"), "jobs that hold one of these nodes", complete.nodes),
)
"""Filters of squeue(1): names, what is shown, values; the last name is QueueFilter's."""


def json_option(command: Command) -> Command:
    """Add ``--json``; the command receives it as `as_json`."""
    option = click.option(
        "--json", "as_json", is_flag=True, help="Print one JSON document instead of text."
    )
    return option(command)


def queue_filters(command: Command) -> Command:
    """Add the filters of squeue(1); the command receives `wanted`, a QueueFilter."""

    @functools.wraps(command)
    def with_filter(*args: Any, me: bool, since: str | None, **others: Any) -> Any:
        from gsched.app.queue_filter import QueueFilter, own_name
        from gsched.app.when import parse_when
        from gsched.app.wiring import now

        fields = {names[-1]: others.pop(names[-1]) for names, _, _ in _FILTERS}
        for name in ("pending_only", "running_only", "all_partitions"):
            fields[name] = others.pop(name)
        if me:
            fields["users"] = (own_name(),)
        if since is not None:
            fields["submitted_since"] = parse_when(since, now())
        return command(*args, wanted=QueueFilter(**fields), **others)

    options = [
        click.option(*names, multiple=True, help=f"Only {text}; repeatable.", shell_complete=values)
        for names, text, values in _FILTERS
    ]
    options += [
        click.option("--me", is_flag=True, help="Only your own jobs."),
        click.option("--pending", "pending_only", is_flag=True, help="Only jobs that wait."),
        click.option(
            "--running", "running_only", is_flag=True, help="Only jobs that have started."
        ),
        click.option("--since", metavar="T", help="Only jobs submitted since (2d, 13:00, …)."),
        click.option(
            "-a", "--all", "all_partitions", is_flag=True, help="Hidden partitions' jobs as well."
        ),
    ]
    wrapped: Any = with_filter
    for option in reversed(options):
        wrapped = option(wrapped)
    return wrapped  # type: ignore[no-any-return]


def load_settings() -> Settings:
    """The configuration in force (files, then environment). Raises ConfigError."""
    from gsched.config import loader

    return loader.load()


def load_settings_to_ask() -> tuple[Settings, ConfigError | None]:
    """As `load_settings`, to reach a daemon that runs though its configuration is broken by now.

    Warns of that, and returns the error with what could be read.
    """
    from gsched.config import loader

    settings, wrong = loader.load_to_ask()
    if wrong is not None:
        warn(f"the configuration is wrong: {wrong.message}")
    return settings, wrong


def warn_of_other_clusters(settings: Settings) -> None:
    """Say so on stderr where SLURM_CLUSTERS names another cluster than that of the answer."""
    from gsched.app.other_clusters import host_cluster_warning

    message = host_cluster_warning(settings)
    if message:
        warn(message)
