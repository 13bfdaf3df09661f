"""How long the steps of one try may take."""

from __future__ import annotations

from dataclasses import dataclass

from gsched.config.node_settings import PowerSettings


@dataclass(frozen=True, slots=True)
class Limits:
    """Seconds for each step; none is longer than what is left of the whole call."""

    connect_s: float
    auth_s: float
    command_s: float
    whole_s: float
    """All steps together."""

    @classmethod
    def of(cls, settings: PowerSettings, left_s: float) -> Limits:
        """The site's limits within the `left_s` seconds that the call still has."""
        return cls(
            connect_s=min(settings.connect_timeout_s, left_s),
            auth_s=min(settings.auth_timeout_s, left_s),
            command_s=min(settings.command_timeout_s, left_s),
            whole_s=left_s,
        )
