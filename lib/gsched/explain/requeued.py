"""A requeued job between two attempts: the last one ends, then Slurm keeps it back for a while.

A node may hold the credential of the last start until it has expired (cred_expire), so slurmctld
sets the earliest start that long after the last attempt's end. The reason is then that of --begin.
"""

from __future__ import annotations

from dataclasses import dataclass

from gsched.explain.words import count, short_time
from gsched.model.job import JobState
from gsched.slurm.records import QueueRow

_SLACK_S = 2
"""By which slurmctld's two times may differ from the delay."""


@dataclass(frozen=True, slots=True)
class RequeueDelay:
    """`wait_s` seconds from the last attempt's end, over at `until` (epoch seconds)."""

    restarts: int
    wait_s: int
    until: int

    @property
    def words(self) -> str:
        """What the job does meanwhile."""
        return (
            f"waits out the delay after its requeue, {short_time(self.wait_s)} from the end of its "
            f"last attempt (Slurm's cred_expire; {count(self.restarts, 'restart')} so far)"
        )

    def end_words(self, now: int) -> str:
        """How to take the moment at which it is over."""
        if self.until > now:
            return "the end of that delay: the next scheduling pass after it may start the job"
        return "that delay is over: the next scheduling pass may start the job"


def requeue_delay(row: QueueRow, wait_s: int) -> RequeueDelay | None:
    """The delay that holds a waiting job back; None where it is none, or another --begin's.

    `wait_s` is the site's: `SlurmConfig.requeue_wait_s`.
    """
    if row.reason != "BeginTime" or not row.restarts or row.eligible_time is None:
        return None
    # slurmctld moves the submit time to the last attempt's end
    if not 0 < row.eligible_time - row.submit_time <= wait_s + _SLACK_S:
        return None
    return RequeueDelay(row.restarts, wait_s, row.eligible_time)


def is_ending_to_start_again(row: QueueRow, now: int) -> bool:
    """Whether a job that completes was requeued: slurmctld then gives it no end, or one to come."""
    has_ended = row.end_time is not None and row.end_time <= now
    return row.state is JobState.COMPLETING and row.restarts > 0 and not has_ended
