"""What Slurm says of this job, and the few things that are asked of it. Nothing here is needed:
where its commands are missing, or it does not answer, that is said once.
"""

from __future__ import annotations

import signal
import time
from dataclasses import dataclass

from gsched.errors import GschedError
from gsched.launch.job import Job
from gsched.launch.say import say
from gsched.slurm.run import run

TIMEOUT_S = 10.0
_FIELDS = ("State", "EndTime", "PreemptTime", "RestartCnt")


@dataclass(frozen=True, slots=True)
class JobView:
    """The job at one moment. Times are epoch seconds; None for one that Slurm does not give."""

    state: str
    end_time: float | None
    preempt_time: float | None
    restarts: int | None

    @property
    def is_running(self) -> bool:
        """Neither cancelled nor on its way out: Slurm will not end it by itself now."""
        return self.state == "RUNNING"

    def has_ended(self, job: Job) -> bool:
        """Whether Slurm has ended it for good at this start, though processes of it may live.

        Of one that is requeued the restart counts already, and its end still lies in the future.
        """
        is_past = self.end_time is not None and self.end_time <= time.time()
        return not self.is_running and is_past and self.restarts == job.restarts


class SlurmView:
    """Slurm's commands, for one job."""

    def __init__(self, job: Job | None) -> None:
        self._job = job
        self._said = False

    def look(self) -> JobView | None:
        """The job as squeue shows it; None where it cannot be asked."""
        columns = ",".join(f"{field}:24" for field in _FIELDS)
        out = self._ask("squeue", "-h", "-a", "-t", "all", "-O", columns, "-j")
        words = (out or "").split()
        if len(words) < len(_FIELDS):
            return None
        state, end, preempt, restarts, *_ = words
        return JobView(state, _time(end), _time(preempt), _whole(restarts))

    def signal_steps(self, number: int) -> bool:
        """Send a signal to all tasks of the job's steps, and to no batch shell."""
        name = signal.Signals(number).name.removeprefix("SIG")
        return self._ask("scancel", f"--signal={name}") is not None

    def requeue(self) -> bool:
        """Have the job begin again; whether Slurm will."""
        return self._ask("scontrol", "requeue") is not None

    def _ask(self, *argv: str) -> str | None:
        if self._job is None:
            return None
        try:
            return run([*argv, self._job.job_id], timeout_s=TIMEOUT_S).check().stdout
        except GschedError as error:
            if not self._said:
                self._said = True
                say(f"Slurm cannot be asked: {error.message}")
            return None


def _time(text: str) -> float | None:
    return float(text) if text.isdecimal() and int(text) > 0 else None


def _whole(text: str) -> int | None:
    return int(text) if text.isdecimal() else None
