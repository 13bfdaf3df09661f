"""Files of gsched's own that stand between it and a node."""

from __future__ import annotations

from gsched.errors import ConfigError


class OwnFileError(ConfigError):
    """A key, a password, known_hosts or a program of this host's: no node has failed by it."""
