"""What `gsched fairness` is asked."""

from __future__ import annotations

from dataclasses import dataclass

from gsched.model.jobid import JobId


@dataclass(frozen=True, slots=True)
class FairnessQuery:
    """The window (epoch seconds), and whom to show: of each kind, none means all.

    `job` is one job, or all tasks of an array.
    """

    since: int
    until: int
    accounts: tuple[str, ...] = ()
    users: tuple[str, ...] = ()
    job: JobId | None = None

    @property
    def names_jobs(self) -> bool:
        """Whether jobs are to be shown one by one."""
        return bool(self.accounts or self.users or self.job)
