"""Fair tree of one level: the account that has received least for its share is next.

Approximates Slurm's fair tree (its default, unless PriorityFlags has NO_FAIR_TREE): accounts are
compared by usage over shares, with usage that halves every week (PriorityDecayHalfLife), and
whatever order they have is the order of all their jobs. Not modelled: accounts within accounts,
users within accounts, shares other than equal ones, other priority factors (see multifactor).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from gsched.model.job import Capability
from gsched.policy.axes import Axes, Evidence, Method, Objective
from gsched.policy.base import OrderKind
from gsched.policy.formed import FormedPolicy, Seen
from gsched.policy.order_form import OrderForm, TenantTerm
from gsched.policy.tenant_use import HALF_LIFE

if TYPE_CHECKING:
    from gsched.model.jobtable import IntColumn, JobTable
    from gsched.model.ranks import ReasonGroup


class FairTree(FormedPolicy):
    """Least decayed GPU-time first, by tenant; then first submit. The first blocks the rest."""

    name = "fair-tree"
    summary = "tenant with the least decayed GPU-time first, then submission (Slurm's fair tree)"
    axes = Axes(Objective.FAIRNESS, Method.HEURISTIC, Evidence.XL, "Slurm, fair tree")
    requires = frozenset({Capability.REORDER})
    order_kind = OrderKind.STATE
    knobs = (HALF_LIFE,)

    def order_form(self, jobs: JobTable) -> OrderForm:
        """Tenants by GPU-time received, their jobs by first submit."""
        import numpy as np

        shares = np.ones(len(jobs.tenants))
        term = TenantTerm(shares, half_life_s=self.knob_values["half_life_s"])
        return OrderForm.static(jobs.first_submit.astype(float), tenants=term)

    def reasons(self, queue: str, rows: IntColumn, seen: Seen) -> Iterable[ReasonGroup]:
        """What the tenant has received."""
        from gsched.model.ranks import ReasonGroup

        del queue
        params = {
            "tenant": seen.tenant_names(rows),
            "tenant_gpu_s": seen.use[seen.jobs.tenant[rows]],
            "first_submit": seen.jobs.first_submit[rows],
        }
        yield ReasonGroup("fair-tree.tenant-gpu-time", rows, params)
