"""Quasi-shortest-service-first: least predicted GPU-time first (Helios, SC'21).

Key = GPUs × predicted duration in GPU-seconds; CPU-seconds in the queue of jobs without GPUs.
A job without a prediction gets no rank: it keeps the median place, so that nobody starves. While
nothing at all can be predicted (there is no model), the last order stands.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from gsched.model.cluster import ClusterState
from gsched.model.decision import LAST_ORDER_STANDS, Decision, JsonValue
from gsched.model.job import Capability
from gsched.policy.base import OrderKind, Policy
from gsched.policy.ranking import SPAN_OCTAVES, job_sizes, rank_by_magnitude, reasons_by_queue

if TYPE_CHECKING:
    from gsched.model.jobtable import FloatColumn, JobTable
    from gsched.model.ranks import RankTable


class Qssf(Policy):
    """Least predicted GPU-time first."""

    name = "qssf"
    summary = "least predicted GPU-time first (quasi-shortest-service-first, Helios SC'21)"
    requires = frozenset({Capability.REORDER})
    order_kind = OrderKind.STATIC
    needs_prediction = True
    knobs = (SPAN_OCTAVES,)

    def static_key(self, jobs: JobTable) -> FloatColumn:
        """Predicted GPU-seconds (CPU-seconds without GPUs), NaN without a prediction."""
        return job_sizes(jobs) * jobs.predicted_duration_s

    def decide(self, state: ClusterState, memory: Mapping[str, JsonValue], now: int) -> Decision:
        """Rank and reason of every reorderable job; does not depend on `now`."""
        from gsched.model.ranks import ReasonGroup, ReasonTable

        del now
        jobs = state.jobs
        keys = self.static_key(jobs)
        order, kept = rank_by_magnitude(jobs, keys, memory, self.knob_values["span_octaves"])

        def params(queue: str, ranks: RankTable) -> dict[str, Any]:
            rows = ranks.rows
            return {
                f"num_{queue}s": jobs.num_gpus[rows] if queue == "gpu" else jobs.num_cpus[rows],
                "duration_s": jobs.predicted_duration_s[rows],
                f"{queue}_time_s": ranks.key,
                "source": jobs.prediction_source[rows],
                "similar_jobs": jobs.similar_jobs[rows],
            }

        code = "qssf.no-prediction" if len(order) else f"qssf{LAST_ORDER_STANDS}"
        unranked = ReasonGroup(code, jobs.select(jobs.reorderable), {})
        groups = reasons_by_queue(order, "qssf.predicted-{queue}-time", params)
        return Decision(order, (), ReasonTable(jobs, (unranked, *groups)), kept)
