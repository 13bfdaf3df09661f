"""The rule's account: what is due to tenants by their quotas, whether they ask for it or not.

r = GPU-time received over ∫ quota (ASTRAEA's equation 16): the least is served next, so that a
quota which was lent comes back quickly. It says nothing of whether somebody was wronged: who asked
for nothing has an r of 0 and no loss. See ``metric`` for that.

The policy ``ltgf`` forgets by and by: what was received counts half after a half-life. `faded_…`
are the figures by which it decides, as its reasons tell them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from gsched.fairness.books import Books, Steps, ratio, sums
from gsched.model.jobtable import FloatColumn


@dataclass(frozen=True, eq=False)
class RuleAccount:
    """GPU-seconds of one window, by code of tenants."""

    received: FloatColumn
    due: FloatColumn

    @property
    def r_quota(self) -> FloatColumn:
        """Received over due; NaN where nothing is due."""
        return ratio(self.received, self.due)

    @property
    def owed_gpu_s(self) -> FloatColumn:
        """Due less received; below 0: it has had what was others', or nobody's."""
        owed: FloatColumn = self.due - self.received
        return owed


def rule_account(books: Books, begin_s: float, end_s: float) -> RuleAccount:
    """The account from `begin_s` to `end_s`."""
    tenants = len(books.tenants)
    held = books.held.disjoint().within(begin_s, end_s)
    gpu_s = held.gpus * (held.end_s - held.begin_s)
    received = sums(books.tenant[held.job], gpu_s, tenants)
    due = np.zeros(tenants)
    for tenant in range(tenants):
        since, gpus = books.quotas.of(tenant)
        inside = since[(since > begin_s) & (since < end_s)]
        steps = Steps(np.concatenate(([begin_s, end_s], inside)))
        due[tenant] = steps.reached(steps.latest(since, gpus))[-1]
    return RuleAccount(received, due)


def faded_received(
    books: Books, at_s: float, half_life_s: float, since_s: float = -math.inf
) -> FloatColumn:
    """GPU-seconds by tenant, received from `since_s` to `at_s`; half counts after `half_life_s`."""
    held = books.held.disjoint().within(since_s, at_s)
    if math.isinf(half_life_s):
        gpu_s = held.gpus * (held.end_s - held.begin_s)
    else:
        to_end, to_begin = (0.5 ** ((at_s - t) / half_life_s) for t in (held.end_s, held.begin_s))
        gpu_s = held.gpus * half_life_s / math.log(2.0) * (to_end - to_begin)
    return sums(books.tenant[held.job], gpu_s, len(books.tenants))


def faded_owed(received: FloatColumn, quotas: FloatColumn) -> FloatColumn:
    """What is owed to each tenant: its quota's part of all that was received, less its own.

    Below 0: it has had what was others'. 0 for all where nobody has a quota.
    """
    total = quotas.sum()
    parts = quotas / total if total > 0 else np.zeros(len(quotas))
    owed: FloatColumn = parts * received.sum() - received
    return owed if total > 0 else np.zeros(len(quotas))
