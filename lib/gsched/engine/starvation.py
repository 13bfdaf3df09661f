"""No job waits for ever: one that has waited too long goes above all that have not.

A policy's levels are drawn together to leave room at the top. A starving job's level grows with
its own wait alone, so that it is written seldom, and other jobs that come or leave do not move it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from gsched.model.cluster import ClusterState
from gsched.model.decision import QUEUES, Decision, Reason
from gsched.model.job import JobKey
from gsched.model.jobtable import BoolColumn, JobTable
from gsched.model.ranks import RankTable, ReasonGroup, ReasonTable

POLICY_TOP = 0.9
"""The highest level that a job gets from a policy while there is a starvation bound."""

STARVING_FROM = 0.91
"""A starving job's level lies above this: apart from POLICY_TOP after rounding to points, too."""

STARVING = "starving"
"""Code of the reason of a starving job."""


def lift_starving(decision: Decision, state: ClusterState, now: int, bound_s: int) -> Decision:
    """`decision` (checked) with the jobs that have waited longer than `bound_s` on top.

    They are ranked whatever the policy says of them, unless they must not be touched at all; the
    longest waiter first. `bound_s` 0 changes nothing.
    """
    if bound_s <= 0:
        return decision
    jobs = state.jobs
    order = RankTable.of(decision.order, jobs)
    order = replace(order, level=order.level * POLICY_TOP)
    waited_s = now - jobs.waiting_since
    starving = jobs.reorderable & (waited_s > bound_s)  # False where nothing is waited for
    if not starving.any():
        return replace(decision, order=order)
    lifted = _in_front(order, jobs, starving, now, bound_s)
    reasons = _with_reasons(decision.reasons, jobs, starving, bound_s)
    return replace(decision, order=lifted, reasons=reasons)


def _in_front(
    order: RankTable, jobs: JobTable, starving: BoolColumn, now: int, bound_s: int
) -> RankTable:
    """The starving jobs at the head of their queues, the others behind them as they were."""
    rest = order.take(~starving[order.rows])
    rest = rest.take(np.lexsort((jobs.tie[rest.rows], rest.position)))
    rows = jobs.select(starving)
    rows = rows[np.lexsort((jobs.tie[rows], jobs.waiting_since[rows]))]
    since = jobs.waiting_since[rows]
    over_s = now - since - bound_s
    level = STARVING_FROM + (1.0 - STARVING_FROM) * (over_s / (over_s + bound_s))
    anew = np.zeros(len(rows), dtype=np.int64)
    columns = {
        "rows": rows,
        "queue": np.where(jobs.num_gpus[rows] > 0, *map(QUEUES.index, ("gpu", "cpu"))),
        "position": anew,
        "out_of": anew,
        "key": since,
        "level": level,
    }
    both = {name: np.concatenate([columns[name], c]) for name, c in rest.columns().items()}
    return RankTable(jobs, **both).renumbered()


def _with_reasons(
    reasons: Mapping[JobKey, Reason], jobs: JobTable, starving: BoolColumn, bound_s: int
) -> ReasonTable:
    rows = jobs.select(starving)
    params = {
        "waiting_since": jobs.waiting_since[rows].astype(np.int64),
        "bound_s": np.full(len(rows), bound_s, dtype=np.int64),
    }
    table = ReasonTable.of(reasons, jobs)
    return replace(table, groups=(*table.groups, ReasonGroup(STARVING, rows, params)))
