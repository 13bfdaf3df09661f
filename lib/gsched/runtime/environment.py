"""What the job's environment tells the runtime. No torch: the wrapper and the heartbeat need none.

The options of gsched's own variables are checked where they are used.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from gsched.telemetry.job_environment import of_this_job

CHECKPOINT_FOLDER = "GSCHED_CHECKPOINT_DIR"
GRACE_S = "GSCHED_GRACE_S"

DEFAULT_GRACE_S = 30.0
"""Slurm's own KillWait, where nobody says how long the grace is."""

_STOPPED_MARK = "GSCHED_STOPPED_MARK"
"""A file that the job's batch process looks for when the script has ended."""


def mark_stopped() -> None:
    """Say that a signal ends the training before it is done, whatever the script ends with."""
    if name := of_this_job(os.environ, _STOPPED_MARK):
        with suppress(OSError):
            Path(name).touch()
