"""What tenants have received so far, as a policy counts it that forgets by and by.

It comes from the job history. Of the time before jobs were pruned the hours of the ledger are left:
what was received in one of them counts as received in its middle, which is off by less than a part
in a million at a half-life of a week.
"""

from __future__ import annotations

from collections import Counter

from gsched.app.fairness.books import fairness_books
from gsched.fairness.rule import faded_received
from gsched.model.accounts import FairnessEntry, SiteQuotas
from gsched_sql import History

HALF_LIVES = 14.0
"""What was received earlier counts less than 1/16,000: at a week, a minute of all GPUs."""

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
    found = Counter(dict(zip(books.tenants, received.tolist(), strict=True)))
    for entry in entries:
        age_s = at - (entry.begin_time + entry.length_s / 2)
        found[entry.tenant] += entry.received_gpu_s * 0.5 ** (age_s / half_life_s)
    return {tenant: gpu_s for tenant, gpu_s in found.items() if gpu_s > 0}


def _pruned_hours(history: History, cluster: str, since: int) -> list[FairnessEntry]:
    """The hours from `since` on of which jobs are gone."""
    ledger = history.fairness()
    mark = ledger.pruned_before(cluster)
    return [] if mark is None else ledger.read(cluster, since, mark)
