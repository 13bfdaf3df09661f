"""The rule's account: what is due to tenants by their quotas, whether they ask for it or not.

r = GPU-time received over ∫ quota (ASTRAEA's equation 16): the least is served next, so that a
quota which was lent comes back quickly. It says nothing of whether somebody was wronged: who asked
for nothing has an r of 0 and no loss. See ``metric`` for that.
"""

from __future__ import annotations

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
