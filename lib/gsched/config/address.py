"""``host:port``, as settings name a place on the network."""

from __future__ import annotations

import re

from gsched.errors import ConfigError

_ADDRESS = re.compile(r"(?:\[(?P<v6>[0-9A-Fa-f:.]+)\]|(?P<host>[^\s:\[\]]+)):(?P<port>\d{1,5})")


def parse_address(text: str) -> tuple[str, int]:
    """Host and port of ``login1:7321`` or ``[::1]:7321``. Raises ConfigError for anything else."""
    match = _ADDRESS.fullmatch(text)
    if match is None or int(match["port"]) > 65535:
        raise ConfigError(f"{text!r} is no host:port", "write login1:7321 or [::1]:7321")
    return match["v6"] or match["host"], int(match["port"])
