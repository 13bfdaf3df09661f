"""A policy that leases: every job that runs gets a lease, and chosen ones lose it at its end."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from gsched.model.cluster import ClusterState
from gsched.model.decision import Action, Decision, Grant, JsonValue, Revoke
from gsched.model.job import Capability, JobState
from gsched.model.jobtable import FloatColumn, JobTable
from gsched.policy.base import KnobSpec, OrderKind, Policy
from gsched.policy.preemption import GRACE, lease_knob

GRACE_S = 1


class Leasing(Policy):
    """Leases for an hour; `chosen` is the number of the job whose lease is revoked."""

    name: ClassVar[str] = "leasing"
    summary: ClassVar[str] = "for a test"
    requires: ClassVar[frozenset[Capability]] = frozenset({Capability.PREEMPT})
    order_kind: ClassVar[OrderKind] = OrderKind.STATE
    chosen = 0
    grace_s = GRACE_S

    def static_key(self, jobs: JobTable) -> FloatColumn:
        return jobs.time_limit_s

    def decide(self, state: ClusterState, memory: Mapping[str, JsonValue], now: int) -> Decision:
        del memory
        actions: list[Action] = []
        for v in state.jobs.views:
            base: dict[str, Any] = {"key": v.key, "attempt": v.attempt, "after_seq": state.seq}
            base |= {"valid_until": now + 60, "undo": None}
            if v.state is JobState.RUNNING and v.lease is None and v.restarts == 0:
                grant = Grant(action_id=f"g{v.key.job_id}", length_s=0, **base)
                actions.append(grant)
            elif v.lease and v.lease.end_time <= now and v.key.job_id == self.chosen:
                revoke = Revoke(
                    action_id=f"r{v.key.job_id}", grace_s=self.grace_s, beneficiary=None, **base
                )
                actions.append(revoke)
        return Decision({}, tuple(actions), {}, {})


class HandingOver(Policy):
    """Gives every job that may be leased a lease, and takes it at its end, for nobody else."""

    name: ClassVar[str] = "handing-over"
    summary: ClassVar[str] = "for a trial"
    requires: ClassVar[frozenset[Capability]] = frozenset({Capability.PREEMPT})
    order_kind: ClassVar[OrderKind] = OrderKind.STATE
    knobs: ClassVar[tuple[KnobSpec, ...]] = (lease_knob(60.0), GRACE)

    def static_key(self, jobs: JobTable) -> FloatColumn:
        return jobs.time_limit_s

    def decide(self, state: ClusterState, memory: Mapping[str, JsonValue], now: int) -> Decision:
        del memory
        actions: list[Action] = []
        for v in state.jobs.views:
            name = f"{v.key.job_id}-{v.attempt}-{v.restarts}"
            base: dict[str, Any] = {"key": v.key, "attempt": v.attempt, "after_seq": state.seq}
            base |= {"valid_until": now + 120, "undo": None}
            if v.state is not JobState.RUNNING or v.exclusion(Capability.PREEMPT) is not None:
                continue
            if v.lease is None:
                length_s = int(self.knob_values["lease_s"])
                actions.append(Grant(action_id=f"g{name}", length_s=length_s, **base))
            elif v.lease.end_time <= now:
                grace_s = int(self.knob_values["grace_s"])
                actions.append(
                    Revoke(action_id=f"r{name}", grace_s=grace_s, beneficiary=None, **base)
                )
        return Decision({}, tuple(actions), {}, {})
