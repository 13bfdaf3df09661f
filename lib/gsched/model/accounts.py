"""What is kept of leases and of what tenants were given: values of the durable accounts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

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
class Told:
    """What a job's heartbeat said right before it was told to save: so many steps were finished.

    `run` and `seq` are those of the heartbeat: what it says later has the same `run` and a higher
    `seq`.
    """

    step: int
    run: str = ""
    seq: int = -1


@dataclass(frozen=True, slots=True)
class LeaseGrant:
    """A lease with what it is for: one attempt of a job, and its GPUs.

    The attempt is told by its submit time and Slurm's count of `restarts`. `since` is when the
    lease came to its present state (epoch), `revoke` is there from ENDING on. `told` is what the
    job's own heartbeat said when it was told to save; None: it said nothing, or was not told.
    """

    lease: Lease
    key: JobKey
    attempt: int
    num_gpus: int
    restarts: int = 0
    since: int = 0
    revoke: LeaseRevoke | None = None
    told: Told | None = None


@dataclass(frozen=True, slots=True)
class LeaseEvent:
    """One transition of a lease; `before` is None where it began."""

    at: int
    before: LeaseState | None
    after: LeaseState
    detail: str


@dataclass(frozen=True, slots=True)
class SiteQuotas:
    """What a site says of its tenants now: how many GPUs are whose, and what a GPU is worth.

    `gpus` go by tenant and count as GPUs of worth 1; {}: all have equal parts of `total_gpus`.
    `source` is who says so (see QUOTA_SOURCES). `gpu_weights` are the worths of GPUs by type, as
    Slurm spells it behind ``gres/gpu:``; a type that is not named is worth 1.
    """

    gpus: Mapping[str, float]
    total_gpus: float
    source: str
    gpu_weights: Mapping[str, float] = field(default_factory=dict)


QUOTA_SOURCES = ("settings", "limits", "shares", "equal")
"""gsched.toml, Slurm's GrpTRES of accounts, shares of accounts, or equal parts where all fail."""


@dataclass(frozen=True, slots=True)
class QuotaChange:
    """From `since_time` (epoch) on a tenant has a quota of so many GPUs; `source` says so."""

    tenant: str
    since_time: int
    gpus: float
    source: str


@dataclass(frozen=True, slots=True)
class WeightChange:
    """From `since_time` (epoch) on a GPU of a type is worth so much."""

    gpu_type: str
    since_time: int
    weight: float


@dataclass(frozen=True, slots=True)
class LeasePast:
    """A lease and the way that it has come, oldest first."""

    grant: LeaseGrant
    events: tuple[LeaseEvent, ...]


@dataclass(frozen=True, slots=True)
class FairnessEntry:
    """What a tenant was given and owed in the `length_s` seconds from `begin_time` on.

    All amounts are GPU-seconds. `entitled_gpu_s` is the metric's account, of what was asked for;
    `due_gpu_s` the rule's, by the quota alone. `borrowed_gpu_s` is what of the received was beyond
    the quota at the time.
    """

    cluster: str
    tenant: str
    begin_time: int
    length_s: int
    received_gpu_s: float
    entitled_gpu_s: float
    demanded_gpu_s: float
    borrowed_gpu_s: float
    due_gpu_s: float = 0.0
