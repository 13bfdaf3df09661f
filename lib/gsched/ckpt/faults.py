"""The named points of writing a checkpoint at which a test may kill the writer.

Whatever lies on the disk then, the newest valid checkpoint is the new one or the one before.
"""

from __future__ import annotations

import enum
import os
import signal
from collections.abc import Callable, Mapping

VARIABLE = "GSCHED_FAULT_POINT"
"""`point`, or `point:N` for the Nth time that the process comes there."""


class FaultPoint(enum.Enum):
    """Where writing can be cut off; `value` is the name that the environment gives."""

    PARTIAL_MADE = "ckpt-partial-made"
    CHUNK_WRITTEN = "ckpt-chunk-written"
    DATA_WRITTEN = "ckpt-data-written"
    DATA_SYNCED = "ckpt-data-synced"
    MARKED = "ckpt-marked"
    ALL_MARKED = "ckpt-all-marked"
    MANIFEST_WRITTEN = "ckpt-manifest-written"
    MANIFEST_SYNCED = "ckpt-manifest-synced"
    SET_ASIDE = "ckpt-set-aside"
    RENAMED = "ckpt-renamed"
    COMMITTED = "ckpt-committed"
    POINTER_REPLACED = "ckpt-pointer-replaced"
    REMOVAL_BEGUN = "ckpt-removal-begun"
    FILE_REMOVED = "ckpt-file-removed"
    ENDED = "ckpt-ended"
    FLUSH_ANNOUNCED = "ckpt-flush-announced"
    FLUSH_DECIDED = "ckpt-flush-decided"


FLUSH_POINTS = (FaultPoint.FLUSH_ANNOUNCED, FaultPoint.FLUSH_DECIDED)
"""Those that only a flush of several ranks comes to."""

RARE_POINTS = (FaultPoint.SET_ASIDE,)
"""Those that only a commit over a torn checkpoint of the same step comes to."""

FaultHook = Callable[[FaultPoint], None]


def no_faults(_point: FaultPoint) -> None:
    """The hook of normal life."""


def kill_where_asked(environment: Mapping[str, str]) -> FaultHook:
    """The hook that obeys `GSCHED_FAULT_POINT`; one without faults when it names none of ours."""
    name, _, count = environment.get(VARIABLE, "").partition(":")
    left = int(count) if count.isdecimal() else 1
    if name not in {point.value for point in FaultPoint}:
        return no_faults

    def hook(point: FaultPoint) -> None:
        nonlocal left
        if point.value == name:
            left -= 1
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)

    return hook
