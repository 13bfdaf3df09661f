"""What tenants have received so far, as a policy counts it that forgets by and by.

It comes from the job history. Of the time before jobs were pruned the hours of the ledger are left:
what was received in one of them counts as received in its middle, which is off by less than a part
in a million at a half-life of a week.
"""

from __future__ import annotations

from gsched.app.fairness.books import fairness_books
from gsched.fairness.fading import HALF_LIVES, faded_gpu_s
from gsched.fairness.rule import faded_received
from gsched.model.accounts import FairnessEntry, SiteQuotas
from gsched_sql import History

NO_QUOTAS = SiteQuotas({}, 0.0, "equal")
"""What is received does not depend on quotas."""


def received_gpu_s(
    history: History, cluster: str, at: int, half_life_s: float, *, by_worth: bool
) -> dict[str, float]:
    """GPU-seconds by tenant, received until `at` (epoch), of which half counts after a half-life.

    `by_worth`: GPUs count by their worth where the site names any; in the time whose jobs are
    pruned they always do.
    """
    since = max(0, at - round(HALF_LIVES * half_life_s))
    entries = _pruned_hours(history, cluster, since)
    begin = max((entry.begin_time + entry.length_s for entry in entries), default=since)
    books, _ = fairness_books(history, cluster, begin, at, NO_QUOTAS, by_worth=by_worth)
    received = faded_received(books, at, half_life_s, since_s=begin)
    found: dict[str, float] = dict(zip(books.tenants, received.tolist(), strict=True))
    for entry in entries:
        found[entry.tenant] = found.get(entry.tenant, 0.0) + faded_gpu_s(entry, at, half_life_s)
    return {tenant: gpu_s for tenant, gpu_s in found.items() if gpu_s > 0}


def _pruned_hours(history: History, cluster: str, since: int) -> list[FairnessEntry]:
    """The hours from `since` on of which jobs are gone."""
    ledger = history.fairness()
    mark = ledger.pruned_before(cluster)
    return [] if mark is None else ledger.read(cluster, since, mark)
