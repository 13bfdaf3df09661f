"""A writer that does not answer: noticed, said once, and what the kernel knows of it.

A disk that hangs (a file server that is gone) makes no error: the writer just never comes back.
"""

from __future__ import annotations

import logging
import time
from pathlib import Path

from gsched.runtime.checkpoint.cadence import Cadence
from gsched.runtime.checkpoint.snapshots import Snapshots

_log = logging.getLogger("gsched.checkpoint")

_LOOK_S = 5.0
"""So often a wait for the writer looks whether it hangs."""

_STATES = {
    "T": "is stopped, as by SIGSTOP",
    "t": "is stopped by a debugger",
    "D": "waits for the file system, which may hang",
    "Z": "has ended",
    "": "has ended",
}
"""By the letter of proc(5): what a writer in that state does."""


class WriterWatch:
    """Looks at the writer of one rank."""

    def __init__(self, snapshots: Snapshots, cadence: Cadence) -> None:
        self._snapshots = snapshots
        self._cadence = cadence
        self._has_told = False

    def look(self) -> None:
        """Say it in the log, once, where a checkpoint has been asked for too long ago."""
        asked = self._snapshots.oldest_asked
        if asked is None:
            self._has_told = False
            return
        waited_s = time.monotonic() - asked.time
        if self._has_told or waited_s < self._cadence.patience_s(self._snapshots.num_bytes):
            return
        self._has_told = True
        _log.warning(
            "the checkpoint of step %s is not written after %.0f s: %s; until it answers, no newer "
            "one is",
            f"{asked.step:,}",
            waited_s,
            self.words(),
        )

    def words(self) -> str:
        """What the writer does now: ``its writer (process 71) is stopped``."""
        pid = self._snapshots.writer_pid
        return f"its writer (process {pid}) {_STATES.get(_state(pid), 'does not answer')}"


def next_look_s(deadline: float) -> float:
    """How long to wait, until `deadline` by the monotonic clock, before the writer is looked at."""
    return min(max(deadline - time.monotonic(), 0.0), _LOOK_S)


def _state(pid: int) -> str:
    """The letter of a process's state; "" where there is no such process."""
    try:
        status = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
    return status.rpartition(")")[2].split()[0]
