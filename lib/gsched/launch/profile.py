"""A profile run: the script for a while, to see how fast its iterations are.

It ends a given time after the first step that its heartbeat tells; where it tells none, when its
start has taken too long. What it has saved is thrown away.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from gsched.errors import DataError
from gsched.launch.job import Job
from gsched.launch.say import say
from gsched.telemetry.heartbeats import HeartbeatFolder
from gsched.telemetry.job_environment import FOLDER_VARIABLE

START_S = 600.0
"""For so long a script may start up. Slurm's time limit has room for it."""

_LOOK_S = 2.0


class Profile:
    """Tells when the script has run for long enough."""

    def __init__(self, seconds: float, job: Job | None, environ: Mapping[str, str]) -> None:
        """`seconds` from the first step on; heartbeats lie where `environ` says."""
        self.is_over = False
        self._seconds = seconds
        self._job = job
        self._folder = environ.get(FOLDER_VARIABLE, "")
        self._began = time.monotonic()
        self._looked = -_LOOK_S
        self._stepped: float | None = None

    def is_due(self) -> bool:
        """Whether it is to end now; said once."""
        now = time.monotonic()
        if self.is_over or now - self._looked < _LOOK_S:
            return False
        self._looked = now
        if self._stepped is None and self._has_stepped():
            self._stepped = now
        if self._stepped is None:
            self.is_over = now - self._began > START_S
            why = f"no step within {START_S:.0f} s"
        else:
            self.is_over = now - self._stepped >= self._seconds
            why = f"it has run for {self._seconds:.0f} s from its first step on"
        if self.is_over:
            say(f"the profile run ends: {why}")
        return self.is_over

    def _has_stepped(self) -> bool:
        if self._job is None or not self._folder:
            return False
        with suppress(DataError, OSError), HeartbeatFolder(Path(self._folder)) as folder:
            record = folder.record(os.getuid(), self._job.job_id)
            return record is not None and record.step > record.first_step
        return False


def throw_away(folder: Path | None) -> None:
    """Remove the checkpoints of a profile run; what cannot be removed is said."""
    if folder is None or not folder.is_dir() or folder.is_symlink():
        return
    try:
        shutil.rmtree(folder)
    except OSError as error:
        say(f"{folder} could not be removed: {error.strerror}")
    with suppress(OSError):  # others of the user's checkpoints lie beside it
        folder.parent.rmdir()
