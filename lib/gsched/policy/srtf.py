"""Shortest remaining time first, knowing the true durations: what preemption could reach.

The running jobs stand in the order too. It minimises the mean completion time of one-GPU jobs that
are preempted for nothing; with gangs, costs of preemption and placement it is a yardstick, no
bound. What remains is the run time less all time on GPUs, which is all that a scheduler sees: work
that was lost, starting up and a slower GPU count as progress. An oracle: the simulator alone knows
the durations.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from gsched.model.job import Capability
from gsched.policy.axes import Axes, Evidence, Method, Objective
from gsched.policy.base import OrderKind
from gsched.policy.formed import FormedPolicy, Seen
from gsched.policy.order_form import Discipline, Misfit, OrderForm
from gsched.policy.preemption import GRACE, lease_knob

if TYPE_CHECKING:
    from gsched.model.jobtable import IntColumn, JobTable
    from gsched.model.ranks import ReasonGroup


class Srtf(FormedPolicy):
    """Least time to its end first, whatever the number of GPUs; smaller jobs fill what is left."""

    name = "srtf"
    summary = "shortest remaining time (true run time less time on GPUs) first, preempting (oracle)"
    axes = Axes(Objective.TIMING, Method.HEURISTIC, Evidence.SIMULATION, "textbook")
    requires = frozenset({Capability.REORDER, Capability.PREEMPT, Capability.ORACLE})
    order_kind = OrderKind.STATE
    knobs = (lease_knob(0.0), GRACE)

    def order_form(self, jobs: JobTable) -> OrderForm:
        """Key = duration − time run, in seconds."""
        import numpy as np

        from gsched.policy.order_form import filled_by_median

        ones = np.broadcast_to(1.0, len(jobs))
        return OrderForm(
            constant=filled_by_median(jobs.predicted_duration_s),
            per_executed_s=-ones,
            per_elapsed_s=np.broadcast_to(0.0, len(jobs)),
            discipline=Discipline(True, Misfit.SKIP, self.knob_values["lease_s"]),
        )

    def reasons(self, queue: str, rows: IntColumn, seen: Seen) -> Iterable[ReasonGroup]:
        """What is left of its run time."""
        from gsched.model.ranks import ReasonGroup

        del queue
        params = {
            "remaining_s": seen.keys[rows],
            "duration_s": seen.jobs.predicted_duration_s[rows],
        }
        yield ReasonGroup("srtf.remaining-time", rows, params)
