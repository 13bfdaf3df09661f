"""Tiresias with two-dimensional least attained service, in discrete queues.

J. Gu et al., "Tiresias: A GPU Cluster Manager for Distributed Deep Learning" (NSDI'19), section
3.2 (2D-LAS, discretised; the "L" of Tiresias-L): a job starts in the first queue and moves to the
second when GPUs × time has reached a threshold. Queues come one after the other, jobs of one
queue by first submit; running jobs give way. Needs to know nothing of run times. Not modelled: the
promotion of starving jobs, the profile-based placement.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from gsched.model.job import Capability
from gsched.policy.axes import Axes, Evidence, Method, Objective
from gsched.policy.base import KnobSpec, OrderKind
from gsched.policy.formed import FormedPolicy, Seen
from gsched.policy.order_form import Discipline, Misfit, OrderForm
from gsched.policy.preemption import GRACE, lease_knob

if TYPE_CHECKING:
    from gsched.model.jobtable import IntColumn, JobTable
    from gsched.model.ranks import ReasonGroup

THRESHOLD = KnobSpec(
    name="threshold_gpu_s",
    default=18_000.0,
    minimum=1.0,
    maximum=1e9,
    unit="GPU-s",
    help="GPU-time received with which a job goes to the second queue",
)


class Tiresias(FormedPolicy):
    """Jobs with little GPU-time behind them first, in two queues; smaller jobs fill gaps."""

    name = "tiresias"
    summary = "little attained GPU-time first, in two queues, preempting (Tiresias 2D-LAS)"
    axes = Axes(Objective.TIMING, Method.HEURISTIC, Evidence.M, "Tiresias, NSDI'19")
    requires = frozenset({Capability.REORDER, Capability.PREEMPT})
    order_kind = OrderKind.STATE
    knobs = (THRESHOLD, lease_knob(0.0), GRACE)

    def order_form(self, jobs: JobTable) -> OrderForm:
        """Two levels by GPU-time received, in each the first submit."""
        import numpy as np

        zeros = np.broadcast_to(0.0, len(jobs))
        return OrderForm(
            constant=jobs.first_submit.astype(float),
            per_executed_s=zeros,
            per_elapsed_s=zeros,
            level_bounds_gpu_s=(self.knob_values["threshold_gpu_s"],),
            discipline=Discipline(True, Misfit.SKIP, self.knob_values["lease_s"]),
        )

    def reasons(self, queue: str, rows: IntColumn, seen: Seen) -> Iterable[ReasonGroup]:
        """The queue, and what the job has received."""
        import numpy as np

        from gsched.model.ranks import ReasonGroup

        del queue
        params = {
            "queue": seen.form.levels_at(seen.jobs)[rows] + 1,
            "attained_gpu_s": np.nan_to_num(seen.jobs.attained_gpu_s[rows]),
            "first_submit": seen.jobs.first_submit[rows],
        }
        yield ReasonGroup("tiresias.queue", rows, params)
