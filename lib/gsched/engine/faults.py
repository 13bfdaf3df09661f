"""The named points of a round at which a test may kill the process.

At each of them the journal and Slurm are in a state from which the next round recovers by itself.
"""

from __future__ import annotations

import enum
from collections.abc import Callable


class FaultPoint(enum.Enum):
    """Where a round can be cut off; `value` is the name that the environment gives."""

    SNAPSHOT_TAKEN = "snapshot-taken"
    DECIDED = "decided"
    INTENT_RECORDED = "intent-recorded"
    CHUNK_SENT = "chunk-sent"
    ALL_SENT = "all-sent"
    CONFIRMED = "confirmed"
    ROUND_ENDED = "round-ended"


FaultHook = Callable[[FaultPoint], None]


def no_faults(_point: FaultPoint) -> None:
    """The hook of normal life."""
