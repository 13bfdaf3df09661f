"""How the rooms are joined for one command: settings in, connected parts out."""

from __future__ import annotations

import os
import stat
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from gsched.config.settings import Settings
from gsched.slurm.client import CommandClient

if TYPE_CHECKING:
    from gsched_sql import History


UNREADABLE_HISTORY = "this host's history database is not readable for you"


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


def open_history(settings: Settings, *, bounded: bool = False) -> History:
    """The job-history database. Raises ConfigError when there is none yet.

    `bounded`: a server that falls silent is given up soon (see `gsched_sql.History.open`).
    """
    from gsched_sql import History

    return History.open(settings.database_url, phase_rules=settings.phases.rules, bounded=bounded)


def cluster_of(settings: Settings, history: History) -> str:
    """Whose history it is. Slurm is asked only where that holds several clusters, or none."""
    found = history.clusters()
    return found[0] if len(found) == 1 else slurm_client(settings).config().cluster


def has_history(settings: Settings) -> bool:
    """Whether a history database seems to be there (a user on a login node has none)."""
    return not why_no_history(settings)


def why_no_history(settings: Settings) -> str:
    """Why no history database can be read here, in words; "" where one seems to be there."""
    if settings.database.url and not settings.database.url.startswith("sqlite"):
        return ""
    path = Path(settings.database_url.removeprefix("sqlite:///"))
    try:
        found = path.stat()
    except PermissionError:
        return UNREADABLE_HISTORY
    except OSError:
        found = None
    if found is None or not stat.S_ISREG(found.st_mode):
        return "no history database on this host"
    is_own = os.geteuid() in (0, found.st_uid)  # SQLite is for one owner
    return "" if is_own and os.access(path, os.R_OK) else UNREADABLE_HISTORY
