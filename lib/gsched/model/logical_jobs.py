"""Attempts → logical jobs: which attempts belong together, and what they are together.

Slurm gives a requeued job a new submit time and uses ids again after they wrap around (or after
the state of slurmctld was lost), so that attempts of one slot are told apart here:

- another user's attempt never continues a job;
- an attempt with a known restart count continues the job before it if and only if it is > 0;
- else one that follows an attempt that Slurm marked REQUEUED continues it;
- else one that was submitted within REQUEUE_WINDOW_S of the end of the attempt before continues
  it: `scontrol requeue` works only while Slurm remembers an ended job, and the new submit time is
  when the nodes were freed (after KillWait and the epilog);
- else it is a new job. In particular an attempt whose end nobody has told is not continued
  without one of the signs above; when its end arrives, the chain is made again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from gsched.model.job import JobState
from gsched.model.merge import MAX_INTEGER, STATUS, AttemptKey, Claimed, value

REQUEUE_WINDOW_S = 300
"""MinJobAge's default: for so long slurmctld remembers an ended job."""

JOB_FACTS = (
    "user",
    "tenant",
    "partition",
    "qos",
    "name",
    "time_limit_s",
    "num_nodes",
    "num_cpus",
    "num_gpus",
    "phase",
)
"""What a logical job takes from its latest attempt that knows it."""


@dataclass
class Attempt:
    """One attempt in the middle of an ingest: its merged fields and its row, once it has one."""

    key: AttemptKey
    fields: Claimed
    row_id: int | None = None
    job_row_id: int | None = None

    def __getitem__(self, name: str) -> Any:
        return value(self.fields, name)

    @property
    def state(self) -> JobState:
        """The merged base state."""
        return JobState(self.fields[STATUS].value[0])

    @property
    def run_s(self) -> int | None:
        """Seconds from start to end; 0 when it ended without a start, None when not known."""
        start, end = self["start_time"], self["end_time"]
        if end is None:
            return None
        return 0 if start is None else end - start


@dataclass
class LogicalJob:
    """Attempts that belong together, by submit time, and the columns of table `jobs`."""

    epoch: int
    attempts: list[Attempt] = field(default_factory=list)

    def facts(self) -> dict[str, Any]:
        """The columns of `jobs` but its key; texts as they are, the phase as it was told."""
        last = self.attempts[-1]
        state, state_text, _ = last.fields[STATUS].value
        known = {name: self._latest(name) for name in JOB_FACTS}
        # A requeued attempt ended, its job did not: the next attempt has only not been seen yet.
        is_over = last["end_time"] is not None and last.state is not JobState.REQUEUED
        start_time = last["start_time"]
        end_time = last["end_time"] if is_over else None
        return {
            **known,
            "state": state,
            "state_text": state_text,
            "start_time": start_time,
            "end_time": end_time,
            "num_attempts": len(self.attempts),
            "queueing_s": self._queueing_s(start_time),
            "duration_s": _elapsed(start_time, end_time),
            "gpu_time_s": self._device_time_s("num_gpus") if is_over else None,
            "cpu_time_s": self._device_time_s("num_cpus") if is_over else None,
        }

    def _latest(self, name: str) -> Any:
        told = (a[name] for a in reversed(self.attempts))
        return next((v for v in told if v is not None), None)

    def _queueing_s(self, last_start: int | None) -> int | None:
        """Seconds from the first submit to the last start, without those of earlier runs."""
        if last_start is None or any(a["start_assumed"] for a in self.attempts):
            return None
        ran = [a.run_s for a in self.attempts[:-1]]
        if any(seconds is None for seconds in ran):
            return None
        return _fitting(max(0, last_start - self.epoch - sum(s for s in ran if s is not None)))

    def _device_time_s(self, name: str) -> int | None:
        """GPUs or CPUs times seconds over all attempts; None when a count or an end is missing."""
        usual = self._latest(name)
        total = 0
        for attempt in self.attempts:
            seconds = attempt.run_s
            if seconds is None or seconds < 0:
                return None
            count = attempt[name] if attempt[name] is not None else usual
            if count is None and seconds:
                return None
            total += (count or 0) * seconds
        return _fitting(total)


def _elapsed(start_time: int | None, end_time: int | None) -> int | None:
    """Seconds of a run, None when it is not known or the clock went back."""
    if start_time is None or end_time is None or end_time < start_time:
        return None
    return _fitting(end_time - start_time)


def _fitting(seconds: int) -> int | None:
    """What can be stored; more than 64 bits come of counts and times that are none."""
    return seconds if -MAX_INTEGER <= seconds <= MAX_INTEGER else None


def continues(previous: Attempt, attempt: Attempt) -> bool:
    """Whether `attempt` is the next one of the job that `previous` belongs to (see above)."""
    users = {previous["user"], attempt["user"]} - {None}
    if len(users) > 1:
        return False
    if attempt["restarts"] is not None:
        return bool(attempt["restarts"] > 0)
    if previous.state is JobState.REQUEUED:
        return True
    end_time: int | None = previous["end_time"]
    if end_time is None:
        return False
    return 0 <= attempt.key.submit_time - end_time <= REQUEUE_WINDOW_S


def chain(attempts: Sequence[Attempt]) -> list[LogicalJob]:
    """The logical jobs of one slot, oldest first."""
    jobs: list[LogicalJob] = []
    for attempt in sorted(attempts, key=lambda a: a.key.submit_time):
        if not jobs or not continues(jobs[-1].attempts[-1], attempt):
            jobs.append(LogicalJob(attempt.key.submit_time))
        jobs[-1].attempts.append(attempt)
    return jobs
