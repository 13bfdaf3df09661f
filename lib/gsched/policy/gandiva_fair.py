"""Gandiva-fair's kind of fairness: every tenant the same GPU-time, by time slices.

Approximates S. Chaudhary et al., "Balancing Efficiency and Fairness in Heterogeneous GPU Clusters
for Deep Learning" (EuroSys'20), sections 3 and 4: users hold tickets, and a gang-aware stride
scheduler gives the next slice to the user with the least pass, GPU-time over tickets. Here tenants
hold equal tickets, leases stand for slices (900 s rather than a minute, so that
preemption costs what it costs), and a tenant's own jobs come by the GPU-time that they have
received. Not modelled: trading between GPU generations, migration.

In stride scheduling who joins is given the pass of the others, so that idle time is no credit.
Decay stands for this rule: what was received counts half after `half_life_s`. Who joins comes
before those who were served all along for one half-life at most, then all get the same.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from gsched.model.job import Capability
from gsched.policy.axes import Axes, Evidence, Method, Objective
from gsched.policy.base import KnobSpec, OrderKind
from gsched.policy.formed import FormedPolicy, Seen
from gsched.policy.order_form import Discipline, Misfit, OrderForm, TenantTerm
from gsched.policy.preemption import GRACE, lease_knob

if TYPE_CHECKING:
    from gsched.model.jobtable import IntColumn, JobTable
    from gsched.model.ranks import ReasonGroup

HALF_LIFE = KnobSpec(
    name="half_life_s",
    default=3600.0,
    minimum=60.0,
    maximum=3650 * 86400.0,
    unit="s",
    help="time in which what a tenant has received counts half; who joins comes first for so long",
)


class GandivaFair(FormedPolicy):
    """Least GPU-time received first, by tenant and then by job; leases; smaller jobs fill gaps."""

    name = "gandiva-fair"
    summary = "tenant with the least GPU-time first, by leases (Gandiva-fair-like)"
    axes = Axes(Objective.FAIRNESS, Method.HEURISTIC, Evidence.XL, "Gandiva-fair, EuroSys'20")
    requires = frozenset({Capability.REORDER, Capability.PREEMPT})
    order_kind = OrderKind.STATE
    knobs = (lease_knob(900.0), GRACE, HALF_LIFE)

    def order_form(self, jobs: JobTable) -> OrderForm:
        """Tenants by GPU-time received, their jobs by theirs."""
        import numpy as np

        zeros = np.broadcast_to(0.0, len(jobs))
        return OrderForm(
            constant=zeros,
            per_executed_s=jobs.num_gpus.astype(float),
            per_elapsed_s=zeros,
            tenants=TenantTerm(
                np.ones(len(jobs.tenants)), half_life_s=self.knob_values["half_life_s"]
            ),
            discipline=Discipline(True, Misfit.SKIP, self.knob_values["lease_s"]),
        )

    def reasons(self, queue: str, rows: IntColumn, seen: Seen) -> Iterable[ReasonGroup]:
        """What the tenant has received, and the job itself."""
        from gsched.model.ranks import ReasonGroup

        del queue
        params = {
            "tenant": seen.tenant_names(rows),
            "tenant_gpu_s": seen.use[seen.jobs.tenant[rows]],
            "attained_gpu_s": seen.keys[rows],
        }
        yield ReasonGroup("gandiva-fair.tenant-gpu-time", rows, params)
