"""The time limit's notice, and how often a job comes back from its time limit."""

from __future__ import annotations

import signal
import time
from contextlib import suppress
from pathlib import Path

from gsched.launch.job import Job
from gsched.launch.job_notes import JobNote
from gsched.launch.say import say
from gsched.launch.slurm_view import JobView

NOTICE = signal.SIGUSR1
DEFAULT_NOTICE_S = 120.0
"""How long before the limit it comes where nobody says: the setting jobscript.grace_s."""

_MAX_DIGITS = 10
_EARLY_S = 60.0 + 15.0  # it comes up to 60 s earlier, says sbatch(1); and takes its time


class TimeLimit:
    """Requeues of a job by itself, at its time limit; its other restarts do not count.

    Where the count cannot be kept, or not be believed, each restart is taken for one: else there
    might be no end.
    """

    def __init__(self, job: Job, folder: Path, *, at_timeout: int, notice_s: float) -> None:
        """`at_timeout`: how often; `folder`, that of the job's checkpoints, keeps the count."""
        self._at_timeout = at_timeout
        self._notice_s = notice_s
        self._num_restarts = job.restarts
        self.note = JobNote.of(folder, "timeouts", job)

    def end_time(self, view: JobView | None) -> float | None:
        """When the job's time is over, where a notice that has just come is of that, by what Slurm
        says; None where it is of something else.
        """
        if view is None or not view.is_running or view.preempt_time or view.end_time is None:
            return None
        is_near = view.end_time - time.time() <= self._notice_s + _EARLY_S
        return view.end_time if is_near else None

    def allows_requeue(self) -> bool:
        """Whether the job may come back once more, which then counts; says it where it may not."""
        num_before = self._num_before()
        if num_before < self._at_timeout:
            with suppress(OSError):
                self.note.path.parent.mkdir(parents=True, exist_ok=True)
            if self.note.write(str(num_before + 1).encode()):
                return True
            num_before = self._num_restarts
        if num_before < self._at_timeout:
            return True
        say(f"the time limit is near, and at_timeout={self._at_timeout} is used up: not requeued")
        return False

    def _num_before(self) -> int:
        text = self.note.read()
        if text is None:
            return 0
        return int(text) if text.isdigit() and len(text) < _MAX_DIGITS else self._num_restarts
