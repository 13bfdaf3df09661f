"""How the rooms are joined for one command: settings in, connected parts out."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from gsched.config.settings import Settings
from gsched.slurm.client import CommandClient

if TYPE_CHECKING:
    from gsched_sql import History


def now() -> int:
    """Epoch seconds."""
    return int(time.time())


def tell(words: str) -> None:
    """Tell whoever waits for a command why it takes so long."""
    print(f"gsched: {words}", file=sys.stderr, flush=True)


def slurm_client(
    settings: Settings, notify: Callable[[str], None] = tell, *, asks_again: bool = True
) -> CommandClient:
    """The adapter to this machine's Slurm; `notify` is told when Slurm lets somebody wait."""
    return CommandClient(settings.slurm.command_timeout_s, notify, asks_again=asks_again)


def open_history(settings: Settings) -> History:
    """The job-history database. Raises ConfigError when there is none yet."""
    from gsched_sql import History

    return History.open(settings.database_url)


def has_history(settings: Settings) -> bool:
    """Whether a history database seems to be there (a user on a login node has none)."""
    if settings.database.url and not settings.database.url.startswith("sqlite"):
        return True
    path = Path(settings.database_url.removeprefix("sqlite:///"))
    return os.access(path, os.R_OK) and path.is_file()
