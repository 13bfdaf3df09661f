"""Quasi-shortest-service-first: least predicted GPU-time first (Helios, SC'21).

Q. Hu et al., "Characterization and Prediction of Deep Learning Workloads in Large-Scale GPU
Datacenters", section 4.2. Key = GPUs × predicted duration in GPU-seconds; CPU-seconds in the queue
of jobs without GPUs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gsched.model.job import Capability
from gsched.policy.axes import Axes, Evidence, Method, Objective
from gsched.policy.keyed import KeyedPolicy
from gsched.policy.ranking import job_sizes

if TYPE_CHECKING:
    from gsched.model.jobtable import FloatColumn, JobTable
    from gsched.model.ranks import RankTable, ReasonGroup


class Qssf(KeyedPolicy):
    """Least predicted GPU-time first."""

    name = "qssf"
    summary = "least predicted GPU-time first (quasi-shortest-service-first, Helios SC'21)"
    axes = Axes(Objective.TIMING, Method.LEARNING, Evidence.SIMULATION, "Helios, SC'21")
    requires = frozenset({Capability.REORDER})
    needs_prediction = True

    def static_key(self, jobs: JobTable) -> FloatColumn:
        """Predicted GPU-seconds (CPU-seconds without GPUs), NaN without a prediction."""
        return job_sizes(jobs) * jobs.predicted_duration_s

    def reason(self, queue: str, ranks: RankTable) -> ReasonGroup:
        """The product, and where the prediction comes from."""
        from gsched.model.ranks import ReasonGroup

        jobs, rows = ranks.jobs, ranks.rows
        params = {
            f"num_{queue}s": jobs.num_gpus[rows] if queue == "gpu" else jobs.num_cpus[rows],
            "duration_s": jobs.predicted_duration_s[rows],
            f"{queue}_time_s": ranks.key,
            "source": jobs.prediction_source[rows],
            "similar_jobs": jobs.similar_jobs[rows],
        }
        return ReasonGroup(f"qssf.predicted-{queue}-time", rows, params)
