"""Quotas of tenants in simulations: as they are written, and told."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from gsched.app.fairness.quotas import SOURCE_WORDS, quotas_of
from gsched.app.wiring import slurm_client
from gsched.config.settings import Settings
from gsched.errors import UsageError
from gsched.policy.base import Policy
from gsched.policy.registry import takes

_MOST_NAMED = 8


def parse_quotas(texts: Sequence[str]) -> dict[str, float]:
    """GPUs by tenant, of texts like ``lab1=8``. Raises UsageError."""
    found: dict[str, float] = {}
    for text in texts:
        name, equals, number = text.rpartition("=")
        try:
            gpus = float(number)
        except ValueError:
            gpus = math.nan
        if not (equals and name and math.isfinite(gpus) and gpus >= 0):
            raise UsageError(
                f"--quota {text[:80]!r} is no tenant with a number of GPUs", "write --quota lab1=8"
            )
        if name in found:
            raise UsageError(f"--quota names {name[:80]!r} twice")
        found[name] = gpus
    if found and not any(found.values()):
        raise UsageError("--quota: nobody has one above 0", "leave it out: all have equal ones")
    return found


@dataclass(frozen=True, slots=True)
class QuotasInUse:
    """GPUs by tenant, {} where all have equal quotas, and who says so."""

    gpus: Mapping[str, float]
    source: str


def quotas_in_use(
    told: Mapping[str, float], settings: Settings, *, live: bool, policies: Iterable[str]
) -> QuotasInUse:
    """Those that were `told`, else those of the settings, else, where `live`, those of this Slurm.

    Slurm is asked only where one of the `policies` (names) takes quotas. Raises what
    ``fairness.quotas.quotas_of`` raises, ConfigError for a policy that there is not.
    """
    if told:
        return QuotasInUse(dict(told), "--quota")
    if settings.fairness.quotas:
        return QuotasInUse(settings.fairness.quotas, "[fairness.quotas]")
    if live and "quotas" in takes(policies):
        found = quotas_of(settings, slurm_client(settings))
        return QuotasInUse(dict(found.gpus), SOURCE_WORDS[found.source])
    return QuotasInUse({}, "")


def quota_words(quotas: QuotasInUse, policies: Collection[Policy]) -> str:
    """By which quotas policies judged; "" where none of them takes any."""
    names = [policy.name for policy in policies if "quotas" in policy.takes]
    if not names:
        return ""
    whom = " and ".join(dict.fromkeys(names))
    if not quotas.gpus:
        return f"{whom}: all tenants have equal quotas (--quota, [fairness.quotas] say others)."
    parts = [f"{name} {gpus:g}" for name, gpus in sorted(quotas.gpus.items())]
    more = len(parts) - _MOST_NAMED
    listed = ", ".join(parts[:_MOST_NAMED]) + (f" and {more} more" if more > 0 else "")
    return f"{whom}: quotas in GPUs by {quotas.source}: {listed}; other tenants have none."
