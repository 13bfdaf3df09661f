"""A reload of the daemon's configuration: what changed, what of it needs a restart."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from gsched.config import loader
from gsched.config.settings import Settings
from gsched.daemon.wishes import Reloaded

_OPENED_AT_START = (
    "state_dir",
    "database.",
    "slurm.",
    "phases.",
    "daemon.query_listen",
    "daemon.socket",
    "daemon.metrics_listen",
)
"""Keys, and beginnings of keys, of what is opened once and kept."""
_NOT_THE_DAEMONS = ("submit.", "helper.", "energy.", "daemon.query_address", "daemon.query_user")
"""Those that only other programs read."""


class Configuration:
    """The settings in force. `apply` follows new ones, or raises and changes nothing."""

    def __init__(self, settings: Settings, load: Callable[[], Settings] = loader.load) -> None:
        self.settings = settings
        self.apply: Callable[[Settings], None] = lambda _: None
        self._load = load

    def reload(self) -> Reloaded:
        """Read files and environment again and put in force what can be.

        Raises ConfigError and the like; the settings that are in force stay then.
        """
        wanted = self._load()
        differing = [
            key
            for key in loader.known_keys()
            if _value(wanted, key) != _value(self.settings, key)
            and not key.startswith(_NOT_THE_DAEMONS)
        ]
        needs_restart = tuple(k for k in differing if k.startswith(_OPENED_AT_START))
        possible = wanted
        for key in needs_restart:
            possible = _with(possible, key, _value(self.settings, key))
        self.apply(possible)
        self.settings = possible
        return Reloaded(tuple(k for k in differing if k not in needs_restart), needs_restart)


def _value(settings: Settings, key: str) -> Any:
    found: Any = settings
    for name in key.split("."):
        found = getattr(found, name)
    return found


def _with(settings: Settings, key: str, value: Any) -> Settings:
    table, _, name = key.rpartition(".")
    if not table:
        return dataclasses.replace(settings, **{name: value})
    inner = dataclasses.replace(getattr(settings, table), **{name: value})
    return dataclasses.replace(settings, **{table: inner})
