"""Optimus' order for jobs of a fixed size: the greatest gain in completion time a GPU is next.

Approximates Y. Peng et al., "Optimus: An Efficient Dynamic Resource Scheduler for Deep Learning
Clusters" (EuroSys'18), section 4.1: in rounds of ten minutes, resources go one by one to the job
whose completion time they shorten most, by its own model of speed and of what is left. A job that
runs on all of its GPUs or none gains most a GPU where GPUs × predicted remaining time are
least; that is the predicted run time less all time on GPUs, lost work included. Not modelled:
other numbers of GPUs than asked for, parameter servers, convergence.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from gsched.model.job import Capability
from gsched.policy.axes import Axes, Evidence, Method, Objective
from gsched.policy.base import OrderKind
from gsched.policy.formed import FormedPolicy, Seen
from gsched.policy.order_form import Discipline, Misfit, OrderForm, filled_by_median
from gsched.policy.preemption import GRACE, lease_knob
from gsched.policy.ranking import job_sizes

if TYPE_CHECKING:
    from gsched.model.jobtable import IntColumn, JobTable
    from gsched.model.ranks import ReasonGroup


class Optimus(FormedPolicy):
    """Least predicted remaining GPU-time first; leases; smaller jobs fill gaps."""

    name = "optimus"
    summary = "least predicted remaining GPU-time first, by leases (Optimus-like)"
    axes = Axes(Objective.TIMING, Method.LEARNING, Evidence.S, "Optimus, EuroSys'18")
    requires = frozenset({Capability.REORDER, Capability.PREEMPT})
    order_kind = OrderKind.STATE
    needs_prediction = True
    knobs = (lease_knob(600.0), GRACE)

    def order_form(self, jobs: JobTable) -> OrderForm:
        """Key = GPUs × (predicted duration − time run); below 0 for a job that runs over."""
        import numpy as np

        sizes = job_sizes(jobs)
        return OrderForm(
            constant=filled_by_median(sizes * jobs.predicted_duration_s),
            per_executed_s=-sizes,
            per_elapsed_s=np.broadcast_to(0.0, len(jobs)),
            discipline=Discipline(True, Misfit.SKIP, self.knob_values["lease_s"]),
        )

    def reasons(self, queue: str, rows: IntColumn, seen: Seen) -> Iterable[ReasonGroup]:
        """What is left, and where the prediction comes from."""
        from gsched.model.ranks import ReasonGroup

        jobs = seen.jobs
        params = {
            f"remaining_{queue}_time_s": seen.keys[rows],
            "duration_s": jobs.predicted_duration_s[rows],
            "source": jobs.prediction_source[rows],
            "similar_jobs": jobs.similar_jobs[rows],
        }
        yield ReasonGroup(f"optimus.remaining-{queue}-time", rows, params)
