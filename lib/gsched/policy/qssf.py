"""Quasi-shortest-service-first: least predicted GPU-time first (Helios, SC'21).

Key = GPUs x predicted duration, in GPU-seconds; CPU-seconds in the queue of jobs without GPUs.
A job without a prediction gets no rank: it keeps the median place and starves nobody.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar

from gsched.model.cluster import ClusterState
from gsched.model.decision import Decision, JsonValue, Rank, Reason
from gsched.model.job import Capability, JobView, PredictionKind
from gsched.policy.base import KnobSpec, OrderKind, Policy

if TYPE_CHECKING:
    from gsched.model.jobtable import FloatColumn, JobTable


class Qssf(Policy):
    """Least predicted GPU-time first."""

    name = "qssf"
    summary = "least predicted GPU-time first (quasi-shortest-service-first, Helios SC'21)"
    requires = frozenset({Capability.REORDER})
    order_kind = OrderKind.STATIC
    needs_prediction = True
    knobs: ClassVar[tuple[KnobSpec, ...]] = (
        KnobSpec(
            name="span_octaves",
            default=8.0,
            minimum=1.0,
            maximum=32.0,
            unit="octaves",
            help="doublings of predicted GPU-time that move a job from the middle to an end",
        ),
    )

    def static_key(self, jobs: JobTable) -> FloatColumn:
        """Predicted GPU-seconds (CPU-seconds without GPUs), NaN without a prediction."""
        from gsched.policy.ranking import job_sizes

        return job_sizes(jobs) * jobs.predicted_duration_s

    def decide(self, state: ClusterState, memory: Mapping[str, JsonValue], now: int) -> Decision:
        """Ranks and reasons of the reorderable jobs; depends on `state` and `memory` only."""
        from gsched.policy.ranking import rank_by_magnitude

        jobs = state.jobs
        keys = self.static_key(jobs)
        order, kept = rank_by_magnitude(jobs, keys, memory, self.knob_values["span_octaves"])
        reasons = {
            key: _reason(jobs.view(key), order.get(key))
            for key in (jobs.keys[row] for row in jobs.select(jobs.reorderable))
        }
        return Decision(order=order, actions=(), reasons=reasons, memory=kept)


def _reason(job: JobView, rank: Rank | None) -> Reason:
    prediction = job.prediction(PredictionKind.DURATION)
    if rank is None or prediction is None:
        return Reason("qssf.no-prediction")
    by_gpu = rank.queue == "gpu"
    count = job.request.gpus.minimum if by_gpu else job.request.num_cpus
    return Reason(
        f"qssf.predicted-{rank.queue}-time",
        {
            f"num_{rank.queue}s": count,
            "duration_s": prediction.mean,
            f"{rank.queue}_time_s": rank.key,
            "source": prediction.source,
            "similar_jobs": prediction.similar_jobs,
        },
    )
