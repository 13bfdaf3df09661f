"""How accounts stand, as the status file tells everybody; or that the cluster hides it."""

from __future__ import annotations

from collections.abc import Mapping

from gsched.model.decision import JsonValue
from gsched.slurm.records import SlurmConfig

_HIDING = ("accounts", "jobs", "usage")
"""What PrivateData may name so that users are not told what others use."""


def fairness_for_everybody(
    told: Mapping[str, JsonValue], config: SlurmConfig
) -> dict[str, JsonValue]:
    """The document, or ``{"private": True}`` where PrivateData of slurm.conf hides usage."""
    return {"private": True} if config.hides(*_HIDING) else dict(told)
