"""The same policy with a knob at what a live cluster asks for, as leases of another length."""

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
    return with_knob(policy, LEASE_KNOB, float(length_s))


def with_knob(policy: Policy, name: str, wanted: float) -> Policy:
    """`policy`, or its like with the knob `name` at this value or the nearest that it allows; it
    itself where it has no such knob.
    """
    if isinstance(policy, Scoped):
        found = tuple(with_knob(one, name, wanted) for one in policy.policies)
        if all(new is old for new, old in zip(found, policy.policies, strict=True)):
            return policy
        like = copy.copy(policy)
        like.policies = found
        return like
    knob = next((knob for knob in policy.knobs if knob.name == name), None)
    if knob is None:
        return policy
    value = min(max(wanted, knob.minimum), knob.maximum)
    if value == policy.knob_values[name]:
        return policy
    made = copy.copy(policy)
    made.knob_values = {**policy.knob_values, name: value}
    return made


def knob_of(policy: Policy, name: str) -> float | None:
    """The knob's value in the first part of the policy that has it; None where none has."""
    parts = policy.policies if isinstance(policy, Scoped) else (policy,)
    return next((p.knob_values[name] for p in parts if name in p.knob_values), None)


def lease_lengths(policy: Policy) -> tuple[float, ...]:
    """Seconds of the leases that the policy, or each part of it, grants; () where none does."""
    parts = policy.policies if isinstance(policy, Scoped) else (policy,)
    return tuple(p.knob_values[LEASE_KNOB] for p in parts if LEASE_KNOB in p.knob_values)
