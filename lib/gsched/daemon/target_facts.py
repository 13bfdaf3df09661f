"""What is true of deadlines beside the rounds, for the daemon's metrics."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class TargetFacts:
    """`standing` counts promises by risk, `refused` the refused requests of jobs in the queue.

    Since the process began: `outcomes` counts what promises came to, by state; `rounds` the rounds
    by how the policy made its plans; `warnings` those that were handed to the site's command
    (``sent``) and those that it did not take (``failed``).
    """

    standing: Mapping[str, int] = field(default_factory=dict)
    refused: int = 0
    outcomes: Mapping[str, int] = field(default_factory=dict)
    rounds: Mapping[str, int] = field(default_factory=dict)
    warnings: Mapping[str, int] = field(default_factory=dict)
