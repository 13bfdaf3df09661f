"""Whether two rounds say the same of the same jobs, found without making a text a job."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from gsched.model.decision import Decision, Rank, Reason
from gsched.model.job import JobKey
from gsched.model.ranks import RankTable, ReasonTable


def same_decision(before: Decision, now: Decision) -> bool:
    """Whether both say the same of each job; a mere doubt is a no."""
    return (
        _same_order(before.order, now.order)
        and _same_reasons(before.reasons, now.reasons)
        and before.actions == now.actions
    )


def _same_order(before: Mapping[JobKey, Rank], now: Mapping[JobKey, Rank]) -> bool:
    if not isinstance(before, RankTable) or not isinstance(now, RankTable):
        return False
    pairs = zip(before.columns().values(), now.columns().values(), strict=True)
    return before.jobs is now.jobs and all(np.array_equal(a, b) for a, b in pairs)


def _same_reasons(before: Mapping[JobKey, Reason], now: Mapping[JobKey, Reason]) -> bool:
    if not isinstance(before, ReasonTable) or not isinstance(now, ReasonTable):
        return False
    if before.jobs is not now.jobs or len(before.groups) != len(now.groups):
        return False
    return all(
        a.code == b.code
        and np.array_equal(a.rows, b.rows)
        and a.params.keys() == b.params.keys()
        and all(np.array_equal(column, b.params[name]) for name, column in a.params.items())
        for a, b in zip(before.groups, now.groups, strict=True)
    )
