"""What the history tells of gsched's own effect: jobs that waited, and what was done to them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class JobWait:
    """One logical job: when it came, started and ended (epoch seconds; None: not, or not known).

    `start_time` is that of the last attempt, `queueing_s` the time from the first submit to it
    without the runs of earlier attempts, `gpu_time_s` over all attempts. `is_eligible` is False of
    one that has not started and of which Slurm has told no time from which it may: it is held, or
    waits for another job.
    """

    first_submit: int
    start_time: int | None
    end_time: int | None
    queueing_s: int | None
    duration_s: int | None
    num_gpus: int | None
    gpu_time_s: int | None
    partition: str
    is_eligible: bool = True


@dataclass(frozen=True, slots=True)
class MovedJob:
    """A job that gsched's last word on it moves by `points` of priority."""

    user: str
    tenant: str
    points: int


@dataclass(frozen=True, slots=True)
class JournalSums:
    """What the rounds of a time did, and what they would have done.

    `changes` counts by the state that they have now, `taken_back` those among the confirmed ones
    that undid gsched's own value. `written` are the jobs on which a value of gsched came to stand,
    `observed` those which an observing daemon would have moved. `jobs_by_reason` counts jobs by
    the code of a change's reason. `inversions` are what rounds counted, oldest first.
    """

    changes: Mapping[str, int] = field(default_factory=dict)
    taken_back: int = 0
    written: tuple[MovedJob, ...] = ()
    observed: tuple[MovedJob, ...] = ()
    jobs_by_reason: Mapping[str, int] = field(default_factory=dict)
    inversions: tuple[Mapping[str, int], ...] = ()
    requests: int = 0
    jobs_with_requests: int = 0
