"""Least attained service, undiscretised, by leases: Tiresias-L as the comparisons of fairness use.

Approximates the Tiresias-L that ASTRAEA compares with: J. Gu et al., "Tiresias" (NSDI'19), section
3.2, priority by GPUs × time without queues. Leases keep jobs of nearly the same service from
preempting each other all the time, which discretising does in Tiresias itself (see tiresias).
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


class TiresiasL(FormedPolicy):
    """Least GPU-time received first; leases; smaller jobs fill gaps."""

    name = "tiresias-l"
    summary = "least attained GPU-time first, by leases (Tiresias-L)"
    axes = Axes(Objective.TIMING, Method.HEURISTIC, Evidence.M, "Tiresias, NSDI'19; ASTRAEA")
    requires = frozenset({Capability.REORDER, Capability.PREEMPT})
    order_kind = OrderKind.STATE
    knobs = (lease_knob(900.0), GRACE)

    def order_form(self, jobs: JobTable) -> OrderForm:
        """Key = GPUs × seconds run."""
        import numpy as np

        zeros = np.broadcast_to(0.0, len(jobs))
        return OrderForm(
            constant=zeros,
            per_executed_s=jobs.num_gpus.astype(float),
            per_elapsed_s=zeros,
            discipline=Discipline(True, Misfit.SKIP, self.knob_values["lease_s"]),
        )

    def reasons(self, queue: str, rows: IntColumn, seen: Seen) -> Iterable[ReasonGroup]:
        """What the job has received."""
        from gsched.model.ranks import ReasonGroup

        del queue
        yield ReasonGroup("tiresias-l.service", rows, {"attained_gpu_s": seen.keys[rows]})
