"""What is true of leases beside the rounds, for the daemon's metrics."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

UNSAVED = "unsaved"
"""Among the transitions: a job kept its GPUs because it had not saved in time."""

OF_SIGNAL = "ended_when_told"
"""Among the transitions: a job ended as if by the signal that told it to save."""


@dataclass(frozen=True, slots=True)
class LeaseFacts:
    """`standing` counts leases by state; `transitions` what they came to since the process began,
    by state, UNSAVED or OF_SIGNAL. `length_s` is what the policy grants, `hand_over_s` what it
    costs to take GPUs from a job, both None where that is not known.
    """

    standing: Mapping[str, int] = field(default_factory=dict)
    transitions: Mapping[str, int] = field(default_factory=dict)
    length_s: float | None = None
    hand_over_s: int | None = None
