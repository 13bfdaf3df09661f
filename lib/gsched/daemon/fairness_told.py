"""How accounts stand, as the status file tells everybody; or that the cluster hides it."""

from __future__ import annotations

from collections.abc import Mapping

from gsched.model.decision import JsonValue

_HIDING = frozenset({"accounts", "jobs", "usage"})
"""What PrivateData may name so that users are not told what others use."""


def fairness_for_everybody(
    told: Mapping[str, JsonValue], private_data: str
) -> dict[str, JsonValue]:
    """The document, or ``{"private": True}`` where PrivateData of slurm.conf hides usage."""
    words = (word.strip() for word in private_data.lower().split(","))
    return dict(told) if _HIDING.isdisjoint(words) else {"private": True}
