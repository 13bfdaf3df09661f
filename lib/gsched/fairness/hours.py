"""What tenants asked for, received and were due, one interval after the other: for the ledger.

Both accounts side by side, each under its own name: `entitled` is the metric's (``metric``), `due`
the rule's (``rule``). An interval's sums depend on nothing outside it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gsched.fairness.books import Books, Steps, sums
from gsched.model.jobtable import FloatColumn


@dataclass(frozen=True, eq=False)
class IntervalSums:
    """GPU-seconds: a row a tenant, a column an interval.

    `borrowed` is what of the received was beyond the quota at the time, `lent` what of the quota
    was not held at the time.
    """

    received: FloatColumn
    entitled: FloatColumn
    demanded: FloatColumn
    borrowed: FloatColumn
    due: FloatColumn

    @property
    def lent(self) -> FloatColumn:
        """What of the quota was not held: what is due less what of it was received."""
        lent: FloatColumn = self.due - (self.received - self.borrowed)
        return lent


def interval_sums(books: Books, edges_s: FloatColumn) -> IntervalSums:
    """The sums between each two of `edges_s`, which rise."""
    first, last = float(edges_s[0]), float(edges_s[-1])
    asked = books.asked.disjoint().within(first, last)
    held = books.held.disjoint().within(first, last)
    asks, holds = books.tenant[asked.job], books.tenant[held.job]
    found = np.zeros((5, len(books.tenants), len(edges_s) - 1))
    for tenant in range(len(books.tenants)):
        mine = asked.of(np.flatnonzero(asks == tenant))
        hers = held.of(np.flatnonzero(holds == tenant))
        since, gpus = books.quotas.of(tenant)
        inside = since[(since > first) & (since < last)]
        steps = Steps(
            np.concatenate((edges_s, inside, mine.begin_s, mine.end_s, hers.begin_s, hers.end_s))
        )
        quota = steps.latest(since, gpus)
        demand, received = steps.level(mine, mine.gpus), steps.level(hers, hers.gpus)
        place = np.searchsorted(edges_s, steps.moments_s[:-1], side="right") - 1
        rates = (
            received,
            np.minimum(demand, quota),
            demand,
            np.maximum(received - quota, 0.0),
            quota,
        )
        for number, rate in enumerate(rates):
            found[number, tenant] = sums(place, rate * steps.lengths_s, len(edges_s) - 1)
    return IntervalSums(*found)
