"""Finish-time fairness: the job that is worst off against running alone is next (Themis).

Approximates K. Mahajan et al., "Themis: Fair and Efficient GPU Cluster Scheduling" (NSDI'20):
ρ = time from submission to the end as it now looks, over the time that the job would need alone.
GPUs whose lease has ended go to the greatest ρ first: the auction of section 5 with all GPUs
offered to the worst job only (f → 1), as jobs ask for a fixed number of GPUs here and have nothing
to bid. The ideal is the run time alone rather than on a share of the cluster, which is
the same for all jobs; what remains is the run time less all time on GPUs, lost work included.
An oracle: Themis lets jobs tell their own run time.
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

if TYPE_CHECKING:
    from gsched.model.jobtable import IntColumn, JobTable
    from gsched.model.ranks import ReasonGroup


class Themis(FormedPolicy):
    """Greatest finish-time ratio ρ first; leases; smaller jobs fill gaps."""

    name = "themis"
    summary = "worst finish-time fairness first, by leases (Themis-like, oracle)"
    axes = Axes(Objective.FAIRNESS, Method.HEURISTIC, Evidence.L, "Themis, NSDI'20")
    requires = frozenset({Capability.REORDER, Capability.PREEMPT, Capability.ORACLE})
    order_kind = OrderKind.STATE
    knobs = (lease_knob(1200.0), GRACE)

    def order_form(self, jobs: JobTable) -> OrderForm:
        """Key = −ρ = −(elapsed + duration − time run) / duration."""
        import numpy as np

        alone_s = np.maximum(filled_by_median(jobs.predicted_duration_s), 1.0)
        return OrderForm(
            constant=np.where(np.isnan(alone_s), np.nan, -1.0),
            per_executed_s=1.0 / alone_s,
            per_elapsed_s=-1.0 / alone_s,
            discipline=Discipline(True, Misfit.SKIP, self.knob_values["lease_s"]),
        )

    def reasons(self, queue: str, rows: IntColumn, seen: Seen) -> Iterable[ReasonGroup]:
        """ρ, and the run time alone."""
        from gsched.model.ranks import ReasonGroup

        del queue
        params = {
            "finish_time_ratio": -seen.keys[rows],
            "duration_s": seen.jobs.predicted_duration_s[rows],
        }
        yield ReasonGroup("themis.finish-time-ratio", rows, params)
