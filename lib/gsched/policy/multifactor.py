"""Slurm's own order: the multifactor priority plugin, for comparison in the simulator.

Points for age (up to a maximum), for the fair share of the account and for size, as
priority/multifactor adds them up. Where Slurm 22.05 differs:

- The fair share is the "classic" 2^(−usage over shares), usage halving every week, with which
  factors can be added up in a closed form. Slurm has it with PriorityFlags=NO_FAIR_TREE; its
  default is fair tree, which ranks accounts and gives points by rank (see fair_tree).
- `gpu_points` are for one GPU. PriorityWeightTRES is for all GPUs of the partition, a job has its
  part of them: a weight W on gres/gpu and a partition of N GPUs are W / N `gpu_points`.
- Backfill is EASY: a job passes those before it where it does not delay the first of them, by the
  time limits. sched/backfill is conservative: it may delay no job of higher priority, among those
  that it looks at (bf_max_job_test, bf_window), and looks at intervals.

Not modelled: QOS and partition factors, nice values, accounts within accounts, shares other than
equal ones. Meant for the simulator: a live Slurm has its own, with all of these.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from gsched.model.job import Capability
from gsched.policy.axes import Axes, Evidence, Method, Objective
from gsched.policy.base import KnobSpec, OrderKind
from gsched.policy.formed import FormedPolicy, Seen
from gsched.policy.order_form import Discipline, Misfit, OrderForm, TenantTerm
from gsched.policy.tenant_use import HALF_LIFE

if TYPE_CHECKING:
    from gsched.model.jobtable import IntColumn, JobTable
    from gsched.model.ranks import ReasonGroup

_MOST_POINTS = 1e9


def _points(name: str, default: float, text: str) -> KnobSpec:
    return KnobSpec(name, default, 0.0, _MOST_POINTS, "points", text)


AGE = _points("age_points", 1000.0, "for a job that has waited max_age_s (PriorityWeightAge)")
MAX_AGE = KnobSpec(
    "max_age_s", 7 * 86400.0, 1.0, 365 * 86400.0, "s", "age with all points (PriorityMaxAge)"
)
FAIR_SHARE = _points(
    "fair_share_points",
    10_000.0,
    "for an account without usage (PriorityWeightFairshare); 0: no fair share",
)
SIZE = _points(
    "gpu_points",
    0.0,
    "for each GPU that a job asks for (PriorityWeightTRES over the GPUs of the partition)",
)


class Multifactor(FormedPolicy):
    """Most points first; what does not delay the first job may pass it."""

    name = "multifactor"
    summary = "Slurm's multifactor priority: age, classic fair share, size; with EASY backfill"
    axes = Axes(Objective.FAIRNESS, Method.HEURISTIC, Evidence.XL, "Slurm, priority/multifactor")
    requires = frozenset({Capability.REORDER})
    order_kind = OrderKind.STATE
    knobs = (AGE, MAX_AGE, FAIR_SHARE, SIZE, HALF_LIFE)

    def order_form(self, jobs: JobTable) -> OrderForm:
        """Key = −points."""
        import numpy as np

        knobs = self.knob_values
        count = len(jobs)
        return OrderForm(
            constant=-knobs["gpu_points"] * jobs.num_gpus.astype(float),
            per_executed_s=np.broadcast_to(0.0, count),
            per_elapsed_s=np.broadcast_to(-knobs["age_points"] / knobs["max_age_s"], count),
            elapsed_cap_s=knobs["max_age_s"],
            tenants=self._fair_share(jobs) if knobs["fair_share_points"] else None,
            discipline=Discipline(misfit=Misfit.BACKFILL),
        )

    def _fair_share(self, jobs: JobTable) -> TenantTerm:
        import numpy as np

        return TenantTerm(
            np.ones(len(jobs.tenants)),
            half_life_s=self.knob_values["half_life_s"],
            points=self.knob_values["fair_share_points"],
        )

    def reasons(self, queue: str, rows: IntColumn, seen: Seen) -> Iterable[ReasonGroup]:
        """The points, all together and for the fair share."""
        from gsched.model.ranks import ReasonGroup

        del queue
        fair_share = self._fair_share(seen.jobs).points_at(seen.use)
        params = {
            "points": -seen.keys[rows],
            "tenant": seen.tenant_names(rows),
            "fair_share_points": fair_share[seen.jobs.tenant[rows]],
        }
        yield ReasonGroup("multifactor.points", rows, params)
