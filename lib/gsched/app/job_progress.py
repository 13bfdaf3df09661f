"""How far a training job is, by its own word: step, loss, checkpoint, and when it should be done.

A heartbeat is its job's word about itself: it can be wrong, or forged by the job's owner and nobody
else. Nothing is decided by it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from gsched.telemetry.heartbeat_file import HeartbeatRecord

SILENT_S = 300.0
"""A job that has ended no step for so long, and for ten steps' time, is silent."""


@dataclass(frozen=True, slots=True)
class JobProgress:
    """What a job last told, judged at the time `at`.

    `is_running`: the attempt that told it runs now; else it is the last word of an attempt before,
    or of a job that has ended.
    """

    record: HeartbeatRecord
    at: float
    is_running: bool

    @property
    def done(self) -> float | None:
        """The share of the steps that is done, 0 to 1; None where their number is not told."""
        total = self.record.total_steps
        return min(1.0, self.record.step / total) if total else None

    @property
    def since_step_s(self) -> float:
        """Since the last step has ended; 0 where the job's clock is ahead of this host's."""
        return max(0.0, self.at - self.record.step_time)

    @property
    def is_silent(self) -> bool:
        """Whether the job runs and has ended no step for long: an evaluation, or it hangs."""
        pace_s = self.record.pace_s or 0.0
        is_late = self.since_step_s > max(SILENT_S, 10 * pace_s)
        return self.is_running and self.record.ended_time is None and is_late

    @property
    def remaining_s(self) -> float | None:
        """Until all steps are done, at the pace of the last ten minutes; None where nobody knows,
        and of a job that is silent or does not run.
        """
        record = self.record
        if record.total_steps is None or record.pace_s is None or record.ended_time is not None:
            return None
        if not self.is_running or self.is_silent:
            return None
        steps_s = max(0, record.total_steps - record.step) * record.pace_s
        return max(0.0, steps_s - self.since_step_s)

    @property
    def eta_time(self) -> int | None:
        """When all steps should be done, by this host's clock; see `remaining_s`."""
        return None if self.remaining_s is None else round(self.at + self.remaining_s)

    def summary(self) -> dict[str, Any]:
        """As JSON, in short; times epoch seconds, durations seconds."""
        record = self.record
        return {
            "step": record.step,
            "total_steps": record.total_steps,
            "step_time": round(record.step_time),
            "eta_time": self.eta_time,
            "is_silent": self.is_silent,
            "iteration_s": record.iteration_s,
            "loss": record.loss,
            "tokens_per_s": record.tokens_per_s,
            "committed_step": record.committed_step,
        }

    def document(self) -> dict[str, Any]:
        """As JSON, with all that is told."""
        record = self.record
        return self.summary() | {
            "first_step": record.first_step,
            "written_time": round(record.written_time),
            "ended_time": _whole(record.ended_time),
            "is_running": self.is_running,
            "remaining_s": self.remaining_s,
            "pace_s": record.pace_s,
            "bad_losses": record.bad_losses,
            "tokens": record.tokens,
            "checkpoint_dir": record.checkpoint_dir,
            "committed_time": _whole(record.committed_time),
            "restart": record.restart,
            "world_size": record.world_size,
            "host": record.host,
        }


def _whole(time: float | None) -> int | None:
    return None if time is None else round(time)


NOTHING_TOLD: dict[str, None] = dict.fromkeys(
    ("step", "total_steps", "step_time", "eta_time", "is_silent", "iteration_s", "loss",
     "tokens_per_s", "committed_step")
)  # fmt: skip
"""The summary of a job that tells nothing."""
