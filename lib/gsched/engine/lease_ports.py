"""What carries leases out needs of others: where they are kept, and the cluster.

Implemented by ``gsched_sql.lease_rows`` (LeaseStore) and ``gsched.daemon.lease_backend``
(LeasePort).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from gsched.engine.leases import JobSeen, SaveReport, Verb
from gsched.model.accounts import LeaseEvent, LeaseGrant, LeaseRevoke, Told
from gsched.model.job import JobKey, JobView, LeaseState


class LeaseStore(Protocol):
    """Durable leases. Every call commits before it returns."""

    def grant(self, grant: LeaseGrant, at: int, detail: str = "") -> None:
        """Keep a new lease; one that is kept already changes nothing."""
        ...

    def renew(self, lease_id: str, following: LeaseGrant, at: int, detail: str = "") -> None:
        """End a lease as RENEWED and keep the one that follows it, both or none."""
        ...

    def revoke(self, lease_id: str, revoke: LeaseRevoke, at: int, detail: str = "") -> None:
        """Take a lease on to ENDING and keep how it is revoked."""
        ...

    def move(
        self,
        lease_id: str,
        state: LeaseState,
        at: int,
        detail: str = "",
        told: Told | None = None,
    ) -> None:
        """Take a lease on to its next state; what is told again changes nothing.

        `told`, unless None, is kept with it.
        """
        ...

    def standing(self, cluster: str) -> Sequence[LeaseGrant]:
        """The leases of a cluster that are not over, oldest first."""
        ...

    def events(self, lease_id: str) -> Sequence[LeaseEvent]:
        """The transitions of a lease; none where it is not kept."""
        ...

    def save_times(self, cluster: str) -> Sequence[int]:
        """Seconds that the jobs told last took to save, or were given to."""
        ...


class LeasePort(Protocol):
    """What leases need of a cluster."""

    @property
    def wait_s(self) -> int:
        """Seconds before which no requeued job starts again."""
        ...

    def observe(self, keys: Sequence[JobKey]) -> Mapping[JobKey, JobSeen]:
        """These jobs as they are now, ended ones too; those that nobody knows are absent.

        Raises UnavailableError or TryAgainError when the cluster does not answer.
        """
        ...

    def report(self, grant: LeaseGrant) -> SaveReport | None:
        """What the job tells of its checkpoints, in the lease's attempt; None: nothing."""
        ...

    def is_slurms(self, victim: JobView, beneficiary: JobView) -> bool:
        """Whether the cluster itself takes the GPUs of one job for the other, unasked."""
        ...

    def is_behind(self, beneficiary: str) -> bool:
        """Whether the cluster would give free GPUs to another waiting job before this one, which is
        spelled as in LeaseRevoke; by what this round has written.
        """
        ...

    def starts_safely(self) -> bool:
        """Whether a job may begin on GPUs that are freed now. Raises as `observe` does."""
        ...

    def act(self, verb: Verb, key: JobKey) -> str:
        """Signal or requeue a job, once; why that was refused, "" when it was taken.

        Raises UnavailableError or TryAgainError when that is not known: it may have been done.
        """
        ...
