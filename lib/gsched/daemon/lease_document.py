"""What the daemon tells of jobs' leases: in its status file, and to those who ask."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from gsched.daemon.shapes import is_number
from gsched.model.decision import JsonValue
from gsched.model.job import LeaseState

if TYPE_CHECKING:
    from gsched.engine.lease_driver import Unsaved
    from gsched.model.accounts import LeaseGrant
    from gsched.model.job import JobKey

_WHY_CHARS = 300


def lease_documents(
    standing: Sequence[LeaseGrant], unsaved: Mapping[JobKey, Unsaved], *, private: bool
) -> dict[str, dict[str, JsonValue]]:
    """By Slurm's id: `state`, since when (`since`) and, of a job that holds GPUs, until when
    (`end_time`); `beneficiary`, for whom it gives or gave way; `unsaved`: why it last kept its GPUs
    though it was to give way (`at`, `why`). What there is none of has no key.

    On a `private` cluster nobody is told of another's job.
    """
    return {g.key.slurm_id: _document(g, unsaved.get(g.key), private) for g in standing}


def _document(grant: LeaseGrant, unsaved: Unsaved | None, private: bool) -> dict[str, JsonValue]:
    lease = grant.lease
    found: dict[str, JsonValue] = {"state": lease.state.value, "since": grant.since}
    if lease.state is not LeaseState.REQUEUED:
        found["end_time"] = lease.end_time
    if grant.revoke is not None and grant.revoke.beneficiary and not private:
        found["beneficiary"] = grant.revoke.beneficiary
    if unsaved is not None and unsaved.attempt == grant.attempt:
        found["unsaved"] = {"at": unsaved.at, "why": unsaved.why[:_WHY_CHARS]}
    return found


def is_lease(lease: Any) -> bool:
    """Whether it has the shape of `lease_documents`."""
    if not isinstance(lease, dict) or not isinstance(lease.get("state"), str):
        return False
    unsaved = lease.get("unsaved")
    return (
        is_number(lease.get("since"))
        and is_number(lease.get("end_time", 0))
        and isinstance(lease.get("beneficiary", ""), str)
        and (
            unsaved is None
            or (
                isinstance(unsaved, dict)
                and is_number(unsaved.get("at"))
                and isinstance(unsaved.get("why"), str)
            )
        )
    )
