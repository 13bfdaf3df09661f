"""Long-term GPU-time fairness by leases, between tenants and between the jobs of one (ASTRAEA).

After Z. Ye et al., "ASTRAEA: A Fair Deep Learning Scheduler for Multi-Tenant GPU Clusters" (IEEE
TPDS 2022). Jobs whose lease is over and those that wait are candidates together, at each round.

Phase 1: the next lease is for the tenant with the least r = GPU-time received over the time due by
its quota (their eq. 16). A quota that nobody asks for is lent, and comes back through a low r. Who
has no job that fits is passed over and blocks nobody; who is picked is charged for one lease at
once. Phase 2: of this tenant's jobs the one with the least r_job = GPU-time received over its part
of the quota, which its active jobs share evenly and of which none has more than it asks for. Small
boosts are taken off r_job: for jobs that are predicted to end within their first lease, for those
that have come through many leases, and for urgent ones.

As all quotas are due over the same time, r orders tenants as GPU-time over quota does. GPU-time
received counts half after `half_life_s`, which bounds for how long a quota that was lent, or was
not asked for, is owed. A shorter one is fairer in each single hour, and less so to who has lent for
long and then comes with many jobs at once. What a tenant is owed, as reasons tell it, is its
quota's part of all that was received, less what it received itself. A new quota holds for the whole
time before, too.

Without quotas all tenants have equal ones. GPUs of types that a site gives another worth count by
it, in quotas as well as in what is received and entitled to. Not modelled: a quota of a user within
a tenant.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from gsched.model.decision import JsonValue
from gsched.model.job import Capability
from gsched.policy.axes import Axes, Evidence, Method, Objective
from gsched.policy.base import KnobSpec, OrderKind
from gsched.policy.entitlement import Remembered, entitled_gpu_s, with_received
from gsched.policy.formed import FormedPolicy, Seen
from gsched.policy.order_form import (
    Discipline,
    JobShares,
    Misfit,
    OrderForm,
    TenantTerm,
    filled_by_median,
)
from gsched.policy.pools import Pools
from gsched.policy.preemption import GRACE, lease_knob
from gsched.policy.tenant_use import HALF_LIFE, tenant_use
from gsched.policy.worth import Worth

if TYPE_CHECKING:
    from gsched.model.cluster import ClusterState
    from gsched.model.jobtable import FloatColumn, IntColumn, JobTable
    from gsched.model.ranks import ReasonGroup

MANY_LEASES = 24
"""So many leases' time on GPUs has the whole boost for many leases, less a part of it."""

URGENT_S = 86400
"""A job whose deadline is not further from its submission is urgent."""

LEAST_QUOTA = 1e-9
"""Of a tenant to which nothing is due: once it has received anything, it comes last."""


def _boost(name: str, default: float, whom: str) -> KnobSpec:
    return KnobSpec(
        name=f"boost_{name}",
        default=default,
        minimum=0.0,
        maximum=1.0,
        unit="of a job's share",
        help=f"taken off what {whom} has received of its share; 0: none",
    )


BOOSTS = (
    _boost("short", 0.1, "a job predicted to end within one lease"),
    _boost("many", 0.05, f"a job that has run for {MANY_LEASES} leases"),
    _boost("urgent", 0.1, "a job submitted with a deadline within a day"),
)


class Ltgf(FormedPolicy):
    """The tenant least served for its quota, its job least served for its share; leases."""

    name = "ltgf"
    summary = "tenant least served for its quota first, by leases (long-term fairness, ASTRAEA)"
    axes = Axes(Objective.FAIRNESS, Method.HEURISTIC, Evidence.SIMULATION, "ASTRAEA, TPDS'22")
    requires = frozenset({Capability.REORDER, Capability.PREEMPT})
    order_kind = OrderKind.STATE
    knobs = (lease_knob(900.0), GRACE, HALF_LIFE, *BOOSTS)
    takes = frozenset({"quotas", "gpu_weights"})

    def __init__(
        self,
        quotas: Mapping[str, float] | None = None,
        gpu_weights: Mapping[str, float] | None = None,
        **knobs: float,
    ) -> None:
        """Take `quotas` by tenant, on any scale: to each its part of their sum.

        Who is not named has none: after its first lease it gets what others leave. `gpu_weights` is
        the worth of a GPU by type, 1 where not named. Raises ValueError as `Policy` does, and for a
        quota or a weight that is no number or below 0, or where nobody has a quota.
        """
        super().__init__(**knobs)
        self._parts = _parts(quotas) if quotas else None
        self._weights = _weights(gpu_weights or {})

    def order_form(self, jobs: JobTable) -> OrderForm:
        """Tenants by GPU-time over quota, their jobs by GPU-time over share less the boosts."""
        import numpy as np

        lease_s = self.knob_values["lease_s"]
        many_s = MANY_LEASES * lease_s
        zeros = np.broadcast_to(0.0, len(jobs))
        is_short = filled_by_median(jobs.predicted_duration_s) <= lease_s
        is_urgent = jobs.deadline - jobs.first_submit <= URGENT_S
        boosts = self.knob_values["boost_short"] * is_short.astype(np.float64)
        boosts += self.knob_values["boost_urgent"] * is_urgent
        a_second = self.knob_values["boost_many"] / many_s if many_s else 0.0
        quotas = self._quotas(jobs)
        shares = np.ones(len(jobs.tenants)) if quotas is None else np.maximum(quotas, LEAST_QUOTA)
        return OrderForm(
            constant=-boosts,
            per_executed_s=zeros - a_second,
            per_elapsed_s=zeros,
            tenants=TenantTerm(shares, half_life_s=self.knob_values["half_life_s"]),
            discipline=Discipline(True, Misfit.SKIP, lease_s),
            executed_cap_s=many_s,
            shares=JobShares(quotas, self._weights),
        )

    def with_memory(
        self, form: OrderForm, state: ClusterState, memory: Mapping[str, JsonValue]
    ) -> tuple[OrderForm, FloatColumn, dict[str, JsonValue]]:
        """What tenants have received, and what their jobs were entitled to meanwhile."""
        worth = Worth.of(state, Pools.of(state), self._weights)
        use, kept = tenant_use(form.tenants, state, memory, worth.of_a_gpu)
        quotas = self._quotas(state.jobs)
        known = Remembered.of(memory, state.jobs)
        entitled, a_gpu, jobs_kept = entitled_gpu_s(state, quotas, known, worth)
        shares = JobShares(quotas, self._weights, entitled, a_gpu)
        return replace(form, shares=shares), use, {**kept, **jobs_kept}

    def with_received(self, state: ClusterState, memory: Mapping[str, JsonValue]) -> JobTable:
        """Over all attempts of a job; memory knows where the cluster tells of the last alone."""
        return with_received(state, Remembered.of(memory, state.jobs))

    def reasons(self, queue: str, rows: IntColumn, seen: Seen) -> Iterable[ReasonGroup]:
        """What the tenant is owed, or has had of others'; what the job has had of its share."""
        import numpy as np

        from gsched.model.ranks import ReasonGroup

        del queue
        jobs, shares = seen.jobs, seen.form.shares
        quotas = self._quotas(jobs)
        parts = np.full(len(seen.use), 1.0 / max(len(seen.use), 1)) if quotas is None else quotas
        owed = parts * seen.total_use - seen.use
        entitled, a_gpu = np.zeros(len(jobs)), np.ones(len(jobs))
        if shares is not None and shares.entitled_gpu_s is not None and shares.worth is not None:
            entitled, a_gpu = shares.entitled_gpu_s, shares.worth
        params = {
            "tenant": seen.tenant_names(rows),
            "owed_gpu_s": owed[jobs.tenant[rows]],
            "tenant_gpu_s": seen.use[jobs.tenant[rows]],
            "quota": parts[jobs.tenant[rows]],
            "attained_gpu_s": (np.nan_to_num(jobs.attained_gpu_s) * a_gpu)[rows],
            "entitled_gpu_s": entitled[rows],
        }
        yield ReasonGroup("ltgf.quota", rows, params)

    def _quotas(self, jobs: JobTable) -> FloatColumn | None:
        """By tenant code, its part of the GPUs; None: all have the same."""
        import numpy as np

        if self._parts is None:
            return None
        return np.array([self._parts.get(name, 0.0) for name in jobs.tenants], dtype=np.float64)


def _weights(weights: Mapping[str, float]) -> dict[str, float]:
    """Those that are not 1; none where all GPUs are worth the same."""
    for gpu_type, worth in weights.items():
        if not (math.isfinite(worth) and worth >= 0):
            whose = f"the weight of GPUs of type {gpu_type}"
            raise ValueError(f"{whose} is {worth}: it has to be a number from 0 on")
    return {gpu_type: float(worth) for gpu_type, worth in weights.items() if worth != 1}


def _parts(quotas: Mapping[str, float]) -> dict[str, float]:
    """Of their sum."""
    for name, quota in quotas.items():
        if not (math.isfinite(quota) and quota >= 0):
            raise ValueError(f"the quota of {name} is {quota}: it has to be a number from 0 on")
    total = math.fsum(quotas.values())
    if not total > 0:
        raise ValueError("no tenant has a quota above 0")
    return {name: quota / total for name, quota in quotas.items()}
