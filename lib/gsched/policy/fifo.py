"""First in, first out: plain order of submission, the baseline of every comparison."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from gsched.model.cluster import ClusterState
from gsched.model.decision import Decision, JsonValue
from gsched.model.job import Capability
from gsched.policy.base import OrderKind, Policy
from gsched.policy.ranking import order_queues, position_level, rank_queues, reasons_by_queue

if TYPE_CHECKING:
    from gsched.model.jobtable import FloatColumn, IntColumn, JobTable
    from gsched.model.ranks import RankTable


class Fifo(Policy):
    """Earliest first submit first; a requeue does not send a job to the end.

    Times have no natural middle, so the level comes from the position and moves on as jobs leave.
    """

    name = "fifo"
    summary = "earliest first submission first"
    requires = frozenset({Capability.REORDER})
    order_kind = OrderKind.STATE

    def static_key(self, jobs: JobTable) -> FloatColumn:
        """First submit time, epoch seconds."""
        return jobs.first_submit.astype(float)

    def decide(self, state: ClusterState, memory: Mapping[str, JsonValue], now: int) -> Decision:
        """Rank and reason of every reorderable job; needs no memory and no clock."""
        import numpy as np

        from gsched.model.ranks import ReasonTable

        del memory, now
        jobs = state.jobs
        keys = self.static_key(jobs)

        def levels(_queue: str, ordered: FloatColumn) -> FloatColumn:
            return position_level(np.arange(1, len(ordered) + 1), len(ordered))

        order = rank_queues(jobs, keys, order_queues(jobs, keys), levels)
        groups = reasons_by_queue(order, "fifo.first-submit", _submits)
        return Decision(order, (), ReasonTable(jobs, tuple(groups)), {})


def _submits(_queue: str, ranks: RankTable) -> dict[str, IntColumn]:
    return {"first_submit": ranks.key.astype("int64")}
