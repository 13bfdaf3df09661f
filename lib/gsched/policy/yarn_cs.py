"""Capacity scheduler as of YARN (YARN-CS): the tenant with the least GPUs for its share is next.

Approximates Apache Hadoop YARN's CapacityScheduler, which the published comparisons call YARN-CS
(Philly ran on it): a queue a tenant, of equal capacity; the queue that uses the least of its
capacity is served first, in order of submission, and may use what others leave idle. A job that
does not fit keeps those behind it in its own queue waiting, no other queue. Nothing is preempted,
as is YARN's default, so that lent capacity comes back when jobs end. Not modelled: hierarchies,
limits a user, reservations of single nodes.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from gsched.model.job import Capability
from gsched.policy.axes import Axes, Evidence, Method, Objective
from gsched.policy.base import OrderKind
from gsched.policy.formed import FormedPolicy, Seen
from gsched.policy.order_form import Discipline, Misfit, OrderForm, TenantTerm, TenantUse

if TYPE_CHECKING:
    from gsched.model.jobtable import IntColumn, JobTable
    from gsched.model.ranks import ReasonGroup


class YarnCs(FormedPolicy):
    """Least GPUs held over share first, by tenant; then first submit.

    The first job of a tenant that does not fit blocks the others of this tenant.
    """

    name = "yarn-cs"
    summary = "tenant with the fewest GPUs in use first, then submission (YARN capacity scheduler)"
    axes = Axes(Objective.FAIRNESS, Method.HEURISTIC, Evidence.XL, "Hadoop YARN CapacityScheduler")
    requires = frozenset({Capability.REORDER})
    order_kind = OrderKind.STATE

    def order_form(self, jobs: JobTable) -> OrderForm:
        """Tenants by GPUs allocated, their jobs by first submit."""
        import numpy as np

        return OrderForm.static(
            jobs.first_submit.astype(float),
            Discipline(misfit=Misfit.BLOCK_TENANT),
            TenantTerm(np.ones(len(jobs.tenants)), TenantUse.ALLOCATED),
        )

    def reasons(self, queue: str, rows: IntColumn, seen: Seen) -> Iterable[ReasonGroup]:
        """What the tenant holds now."""
        from gsched.model.ranks import ReasonGroup

        del queue
        params = {
            "tenant": seen.tenant_names(rows),
            "tenant_gpus": seen.use[seen.jobs.tenant[rows]],
            "first_submit": seen.jobs.first_submit[rows],
        }
        yield ReasonGroup("yarn-cs.tenant-gpus", rows, params)
