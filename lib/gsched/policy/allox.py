"""AlloX's order: shortest jobs first, among the tenants that have received least.

Approximates T. N. Le et al., "AlloX: Compute Allocation in Hybrid Clusters" (EuroSys'20),
sections 3.2 and 3.3: minimum-cost matching of jobs to places in the queues of machines minimises
the mean completion time; on machines of one kind that is shortest job first. Only the
fraction of tenants that has the least progress takes part, which bounds unfairness. Progress is
GPU-time received here. Not modelled: the choice between CPUs and GPU types. An oracle.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from gsched.model.job import Capability
from gsched.policy.axes import Axes, Evidence, Method, Objective
from gsched.policy.base import KnobSpec, OrderKind
from gsched.policy.formed import FormedPolicy, Seen
from gsched.policy.order_form import OrderForm, TenantTerm, filled_by_median

if TYPE_CHECKING:
    from gsched.model.jobtable import IntColumn, JobTable
    from gsched.model.ranks import ReasonGroup

BAND = KnobSpec(
    name="band",
    default=0.3,
    minimum=0.0,
    maximum=1.0,
    unit="of the tenants",
    help="fraction of tenants, those who have received least, whose jobs come first; 1: of all",
)


class Allox(FormedPolicy):
    """Shortest true duration first within the band; tenants outside it by GPU-time received."""

    name = "allox"
    summary = "shortest job of the least served tenants first (AlloX-like, oracle)"
    axes = Axes(Objective.TIMING, Method.HEURISTIC, Evidence.S, "AlloX, EuroSys'20")
    requires = frozenset({Capability.REORDER, Capability.ORACLE})
    order_kind = OrderKind.STATE
    knobs = (BAND,)

    def order_form(self, jobs: JobTable) -> OrderForm:
        """Key = duration in seconds; the band of tenants before it."""
        import numpy as np

        term = TenantTerm(np.ones(len(jobs.tenants)), band=self.knob_values["band"])
        return OrderForm.static(filled_by_median(jobs.predicted_duration_s), tenants=term)

    def reasons(self, queue: str, rows: IntColumn, seen: Seen) -> Iterable[ReasonGroup]:
        """The duration, and what the tenant has received."""
        from gsched.model.ranks import ReasonGroup

        del queue
        params = {
            "duration_s": seen.keys[rows],
            "tenant": seen.tenant_names(rows),
            "tenant_gpu_s": seen.use[seen.jobs.tenant[rows]],
        }
        yield ReasonGroup("allox.duration", rows, params)
