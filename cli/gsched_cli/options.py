"""Options and set-up that commands share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from gsched.config.settings import Settings

Command = TypeVar("Command", bound=Callable[..., Any])


def json_option(command: Command) -> Command:
    """Add ``--json``; the command receives it as `as_json`."""
    option = click.option(
        "--json", "as_json", is_flag=True, help="Print one JSON document instead of text."
    )
    return option(command)


def load_settings() -> Settings:
    """The configuration in force (files, then environment). Raises ConfigError."""
    from gsched.config import loader

    return loader.load()
