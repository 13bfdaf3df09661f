"""First in, first out: plain order of submission, the baseline of every comparison."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from gsched.model.cluster import ClusterState
from gsched.model.decision import Decision, JsonValue, Rank, Reason
from gsched.model.job import Capability, JobKey
from gsched.policy.base import OrderKind, Policy
from gsched.policy.ranking import order_queues, position_level, rank_rows

if TYPE_CHECKING:
    from gsched.model.jobtable import FloatColumn, JobTable


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
        del memory, now
        jobs = state.jobs
        keys = self.static_key(jobs)
        order: dict[JobKey, Rank] = {}
        for queue, rows in order_queues(jobs, keys).items():

            def level(position: int, _key: float, of: int = len(rows)) -> float:
                return position_level(position, of)

            order |= rank_rows(jobs, keys, queue, rows, level)
        reasons = {
            key: Reason("fifo.first-submit", {"first_submit": int(rank.key)})
            for key, rank in order.items()
        }
        return Decision(order=order, actions=(), reasons=reasons, memory={})
