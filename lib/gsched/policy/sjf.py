"""Shortest job first, knowing the true durations: what an order without preemption could reach.

It minimises the mean waiting time of jobs on one machine; of jobs of several GPUs it is a bound
that nobody has proved, and the usual one. An oracle: the simulator alone knows the durations.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gsched.model.job import Capability
from gsched.policy.axes import Axes, Evidence, Method, Objective
from gsched.policy.keyed import KeyedPolicy

if TYPE_CHECKING:
    from gsched.model.jobtable import FloatColumn, JobTable
    from gsched.model.ranks import RankTable, ReasonGroup


class Sjf(KeyedPolicy):
    """Least run time first, whatever the number of GPUs."""

    name = "sjf"
    summary = "shortest true duration first (oracle)"
    axes = Axes(Objective.TIMING, Method.HEURISTIC, Evidence.SIMULATION, "textbook")
    requires = frozenset({Capability.REORDER, Capability.ORACLE})

    def static_key(self, jobs: JobTable) -> FloatColumn:
        """True seconds of run time."""
        return jobs.predicted_duration_s

    def reason(self, queue: str, ranks: RankTable) -> ReasonGroup:
        """The duration."""
        from gsched.model.ranks import ReasonGroup

        del queue
        return ReasonGroup("sjf.duration", ranks.rows, {"duration_s": ranks.key})
