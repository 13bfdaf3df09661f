"""How many GPUs are each tenant's, and who says so: the settings, or Slurm's accounts."""

from __future__ import annotations

from collections.abc import Sequence

from gsched.app.fairness.account_tree import AccountTree
from gsched.config.settings import FairnessSettings, Settings
from gsched.fairness.worth import weighted
from gsched.model.accounts import SiteQuotas
from gsched.slurm.client import SlurmClient

SOURCE_WORDS = {
    "settings": "[fairness.quotas] of gsched.toml",
    "limits": "GrpTRES of the accounts (sacctmgr)",
    "shares": "shares of the accounts (sacctmgr) of all GPUs",
    "equal": "nobody, so that all tenants have equal ones",
}
"""How each source of quotas is told."""


def quotas_of(settings: Settings, client: SlurmClient) -> SiteQuotas:
    """The quotas in force now.

    Raises what Slurm's commands raise, and PermissionDeniedError where slurmdbd shows this user
    only a part of the accounts.
    """
    chosen = settings.fairness
    nodes = client.nodes()
    total = weighted((gpu for node in nodes for gpu in node.gpus), chosen.gpu_weights)
    count = sum(number for node in nodes for _, number in node.gpus)
    source, gpus = _found(chosen, client, total, total / count if count else 1.0)
    return SiteQuotas(gpus, total, source, dict(chosen.gpu_weights))


def _found(
    chosen: FairnessSettings, client: SlurmClient, total: float, mean_worth: float
) -> tuple[str, dict[str, float]]:
    if chosen.quotas:
        return "settings", dict(chosen.quotas)
    config = client.config()
    if not config.has_slurmdbd:
        return "equal", {}

    def worth(gpus: Sequence[tuple[str, int]]) -> float:
        """A limit of GPUs of any type is taken to be of all types alike."""
        return weighted(gpus, {"": mean_worth, **chosen.gpu_weights})

    tree = AccountTree(client.associations(config.cluster))
    limits = tree.by_limits(worth)
    if limits is not None:
        return "limits", limits
    shares = tree.by_shares(total)
    return ("shares", shares) if shares else ("equal", {})
