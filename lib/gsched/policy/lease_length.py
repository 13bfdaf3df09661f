"""The same policy with leases of another length: on a live cluster the hand-over asks for one."""

from __future__ import annotations

import copy

from gsched.policy.base import Policy
from gsched.policy.scoped import Scoped

LEASE_KNOB = "lease_s"
"""See ``preemption.lease_knob``."""


def with_lease(policy: Policy, length_s: int) -> Policy:
    """`policy`, or its like that grants leases of so many seconds; it itself where it grants none.

    Beyond what the knob allows it is the longest that it does.
    """
    if isinstance(policy, Scoped):
        found = tuple(with_lease(one, length_s) for one in policy.policies)
        if all(new is old for new, old in zip(found, policy.policies, strict=True)):
            return policy
        like = copy.copy(policy)
        like.policies = found
        return like
    knob = next((knob for knob in policy.knobs if knob.name == LEASE_KNOB), None)
    if knob is None:
        return policy
    value = min(max(float(length_s), knob.minimum), knob.maximum)
    if value == policy.knob_values[LEASE_KNOB]:
        return policy
    made = copy.copy(policy)
    made.knob_values = {**policy.knob_values, LEASE_KNOB: value}
    return made


def lease_lengths(policy: Policy) -> tuple[float, ...]:
    """Seconds of the leases that the policy, or each part of it, grants; () where none does."""
    parts = policy.policies if isinstance(policy, Scoped) else (policy,)
    return tuple(p.knob_values[LEASE_KNOB] for p in parts if LEASE_KNOB in p.knob_values)
