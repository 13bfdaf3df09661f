"""The slurmstepd above this process: when it is gone, Slurm has lost the job.

A node's Slurm that is killed leaves the job's processes alive, on GPUs that Slurm will give to
others, while the job is started again elsewhere. Nobody tells them: they have to see it.
"""

from __future__ import annotations

import os
import select
from contextlib import suppress
from pathlib import Path

_NAME = "slurmstepd"
_MAX_ANCESTORS = 64


class StepDaemon:
    """The nearest one among the ancestors; none outside Slurm, or where /proc does not show it."""

    def __init__(self) -> None:
        self._fd = _open()

    @property
    def has_ended(self) -> bool:
        """Whether there was one that is gone now."""
        if self._fd < 0:
            return False
        poll = select.poll()
        poll.register(self._fd, select.POLLIN)
        return bool(poll.poll(0))

    def close(self) -> None:
        """Look no more."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def _open() -> int:
    """A descriptor that tells of its end; -1 where there is none (or Linux before 5.3)."""
    pid = os.getppid()
    for _ in range(_MAX_ANCESTORS):
        name, parent = _name_and_parent(pid)
        if name == _NAME:
            with suppress(OSError):
                return os.pidfd_open(pid)
        if parent <= 1:
            break
        pid = parent
    return -1


def _name_and_parent(pid: int) -> tuple[str, int]:
    """("", 0) where there is no such process, or it may not be seen."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return "", 0
    before, _, after = text.rpartition(")")
    return before.partition("(")[2], int(after.split()[1])
