"""Fewest GPUs first: the control beside QSSF.

It shows how much of a gain comes from the GPU count alone, without any prediction.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from gsched.model.cluster import ClusterState
from gsched.model.decision import Decision, JsonValue
from gsched.model.job import Capability
from gsched.policy.base import OrderKind, Policy
from gsched.policy.ranking import SPAN_OCTAVES, job_sizes, rank_by_magnitude, reasons_by_queue

if TYPE_CHECKING:
    from gsched.model.jobtable import FloatColumn, IntColumn, JobTable
    from gsched.model.ranks import RankTable


class FewestGpus(Policy):
    """Fewest requested GPUs first; CPUs in the queue of jobs without GPUs."""

    name = "fewest-gpus"
    summary = "fewest requested GPUs first, no prediction (a control for qssf)"
    requires = frozenset({Capability.REORDER})
    order_kind = OrderKind.STATIC
    knobs = (SPAN_OCTAVES,)

    def static_key(self, jobs: JobTable) -> FloatColumn:
        """Requested GPUs, or CPUs of a job without GPUs."""
        return job_sizes(jobs)

    def decide(self, state: ClusterState, memory: Mapping[str, JsonValue], now: int) -> Decision:
        """Rank and reason of every reorderable job; does not depend on `now`."""
        from gsched.model.ranks import ReasonTable

        del now
        jobs = state.jobs
        keys = self.static_key(jobs)
        order, kept = rank_by_magnitude(jobs, keys, memory, self.knob_values["span_octaves"])
        groups = reasons_by_queue(order, "fewest-gpus.size", _sizes)
        return Decision(order, (), ReasonTable(jobs, tuple(groups)), kept)


def _sizes(queue: str, ranks: RankTable) -> dict[str, IntColumn]:
    return {f"num_{queue}s": ranks.key.astype("int64")}
