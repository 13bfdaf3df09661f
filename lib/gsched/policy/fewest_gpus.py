"""Fewest GPUs first: the control beside QSSF.

It shows how much of a gain comes from the GPU count alone, without any prediction.
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


class FewestGpus(KeyedPolicy):
    """Fewest requested GPUs first; CPUs in the queue of jobs without GPUs."""

    name = "fewest-gpus"
    summary = "fewest requested GPUs first, no prediction (a control for qssf)"
    axes = Axes(Objective.TIMING, Method.HEURISTIC, Evidence.SIMULATION, "a control of ours")
    requires = frozenset({Capability.REORDER})

    def static_key(self, jobs: JobTable) -> FloatColumn:
        """Requested GPUs, or CPUs of a job without GPUs."""
        return job_sizes(jobs)

    def reason(self, queue: str, ranks: RankTable) -> ReasonGroup:
        """The number."""
        from gsched.model.ranks import ReasonGroup

        sizes = ranks.key.astype("int64")
        return ReasonGroup("fewest-gpus.size", ranks.rows, {f"num_{queue}s": sizes})
