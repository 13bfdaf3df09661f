"""Policies with one key in a job's life: written once, whatever comes or goes.

The level comes from the key's magnitude (see ``ranking.rank_by_magnitude``). A job without a key
gets no rank: it keeps the median place, so that nobody starves. While no job at all has one (there
is no model), the last order stands.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING

from gsched.model.cluster import ClusterState
from gsched.model.decision import LAST_ORDER_STANDS, QUEUES, Decision, JsonValue
from gsched.policy.base import OrderKind, Policy
from gsched.policy.ranking import SPAN_OCTAVES, rank_by_magnitude

if TYPE_CHECKING:
    from gsched.model.jobtable import FloatColumn, JobTable
    from gsched.model.ranks import RankTable, ReasonGroup


class KeyedPolicy(Policy):
    """Base of STATIC policies whose keys are magnitudes: seconds, GPUs, GPU-seconds."""

    order_kind = OrderKind.STATIC
    knobs = (SPAN_OCTAVES,)

    @abstractmethod
    def static_key(self, jobs: JobTable) -> FloatColumn:
        """One magnitude a job, smaller first, NaN where it is not known."""

    @abstractmethod
    def reason(self, queue: str, ranks: RankTable) -> ReasonGroup:
        """Why the jobs of one queue stand where they stand."""

    def decide(self, state: ClusterState, memory: Mapping[str, JsonValue], now: int) -> Decision:
        """Rank and reason of every reorderable job; does not depend on `now`."""
        from gsched.model.ranks import ReasonGroup, ReasonTable

        del now
        jobs = state.jobs
        keys = self.static_key(jobs)
        order, kept = rank_by_magnitude(jobs, keys, memory, self.knob_values["span_octaves"])
        code = ".no-prediction" if len(order) else LAST_ORDER_STANDS
        unranked = ReasonGroup(self.name + code, jobs.select(jobs.reorderable), {})
        groups = [
            self.reason(queue, order.take(order.queue == number))
            for number, queue in enumerate(QUEUES)
        ]
        return Decision(order, (), ReasonTable(jobs, (unranked, *groups)), kept)
