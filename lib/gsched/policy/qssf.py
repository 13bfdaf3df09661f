"""Quasi-shortest-service-first: least predicted GPU-time first (Helios, SC'21).

Key = GPUs × predicted duration in GPU-seconds; CPU-seconds in the queue of jobs without GPUs.
A job without a prediction gets no rank: it keeps the median place, so that nobody starves.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from gsched.model.cluster import ClusterState
from gsched.model.decision import Decision, JsonValue, Rank, Reason
from gsched.model.job import Capability, JobView, PredictionKind
from gsched.policy.base import OrderKind, Policy
from gsched.policy.ranking import SPAN_OCTAVES, job_sizes, rank_by_magnitude

if TYPE_CHECKING:
    from gsched.model.jobtable import FloatColumn, JobTable


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
        del now
        jobs = state.jobs
        keys = self.static_key(jobs)
        order, kept = rank_by_magnitude(jobs, keys, memory, self.knob_values["span_octaves"])
        views = [jobs.views[row] for row in jobs.select(jobs.reorderable)]
        reasons = {view.key: _reason(view, order.get(view.key)) for view in views}
        return Decision(order=order, actions=(), reasons=reasons, memory=kept)


def _reason(job: JobView, rank: Rank | None) -> Reason:
    prediction = job.prediction(PredictionKind.DURATION)
    if rank is None or prediction is None:
        return Reason("qssf.no-prediction")
    unit = rank.queue
    count = job.request.gpus.minimum if unit == "gpu" else job.request.num_cpus
    return Reason(
        f"qssf.predicted-{unit}-time",
        {
            f"num_{unit}s": count,
            "duration_s": prediction.mean,
            f"{unit}_time_s": rank.key,
            "source": prediction.source,
            "similar_jobs": prediction.similar_jobs,
        },
    )
