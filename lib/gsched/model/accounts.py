"""What is kept of leases and of what tenants were given: values of the durable accounts."""

from __future__ import annotations

from dataclasses import dataclass

from gsched.model.job import JobKey, Lease, LeaseState


@dataclass(frozen=True, slots=True)
class LeaseRevoke:
    """How a lease is taken back: `revoke_id` is the idempotency key of the policy's action.

    The job has `grace_s` seconds to save. The revoke is void unless the job has been told by
    `valid_until` (epoch). `beneficiary` is the job that shall have the GPUs, as Slurm spells it;
    "" = no certain one.
    """

    revoke_id: str
    grace_s: int
    valid_until: int
    beneficiary: str = ""


@dataclass(frozen=True, slots=True)
class LeaseGrant:
    """A lease with what it is for: one attempt of a job, and its GPUs.

    The attempt is told by its submit time and Slurm's count of `restarts`. `since` is when the
    lease came to its present state (epoch), `revoke` is there from ENDING on.
    """

    lease: Lease
    key: JobKey
    attempt: int
    num_gpus: int
    restarts: int = 0
    since: int = 0
    revoke: LeaseRevoke | None = None


@dataclass(frozen=True, slots=True)
class LeaseEvent:
    """One transition of a lease; `before` is None where it began."""

    at: int
    before: LeaseState | None
    after: LeaseState
    detail: str


@dataclass(frozen=True, slots=True)
class FairnessEntry:
    """What a tenant was given and owed in the `length_s` seconds from `begin_time` on.

    All amounts are GPU-seconds. `borrowed_gpu_s` is what of the received was beyond the quota.
    """

    cluster: str
    tenant: str
    begin_time: int
    length_s: int
    received_gpu_s: float
    entitled_gpu_s: float
    demanded_gpu_s: float
    borrowed_gpu_s: float
