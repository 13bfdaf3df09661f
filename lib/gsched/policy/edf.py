"""Earliest deadline first: jobs with deadlines by their deadlines, best effort behind them.

Nothing is admitted or refused, and run times play no part: a job that can no longer meet its
deadline still goes first. The comparison of Chronus (SoCC'21) and ElasticFlow (ASPLOS'23).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from gsched.model.job import MAX_DEADLINE, Capability
from gsched.policy.axes import Axes, Evidence, Method, Objective
from gsched.policy.base import KnobSpec, OrderKind
from gsched.policy.formed import FormedPolicy, Seen
from gsched.policy.order_form import Discipline, Misfit, OrderForm
from gsched.policy.preemption import GRACE, lease_knob

if TYPE_CHECKING:
    from gsched.model.jobtable import IntColumn, JobTable
    from gsched.model.ranks import ReasonGroup

PREEMPT = KnobSpec(
    name="preempt",
    default=1.0,
    minimum=0.0,
    maximum=1.0,
    unit="0 or 1",
    help="1: running jobs with later deadlines give way; 0: they run on, and no lease is needed",
)


class Edf(FormedPolicy):
    """Earliest deadline first; those without one by first submit, after all that have one."""

    name = "edf"
    summary = "earliest deadline first, preempting; best effort last"
    axes = Axes(
        Objective.DEADLINE, Method.HEURISTIC, Evidence.SIMULATION, "textbook; Chronus, ElasticFlow"
    )
    requires = frozenset({Capability.REORDER, Capability.PREEMPT})
    order_kind = OrderKind.STATE
    knobs = (PREEMPT, lease_knob(0.0), GRACE)

    def __init__(self, **knobs: float) -> None:
        """Raises ValueError as every policy does."""
        super().__init__(**knobs)
        self._preempts = self.knob_values["preempt"] >= 0.5
        if not self._preempts:
            self.requires = frozenset({Capability.REORDER})

    def order_form(self, jobs: JobTable) -> OrderForm:
        """Key = deadline, epoch seconds; none is later than MAX_DEADLINE."""
        import numpy as np

        deadlines = np.where(np.isnan(jobs.deadline), MAX_DEADLINE + 1.0, jobs.deadline)
        if self._preempts:
            discipline = Discipline(True, Misfit.SKIP, self.knob_values["lease_s"])
        else:
            discipline = Discipline()
        return OrderForm.static(deadlines, discipline)

    def reasons(self, queue: str, rows: IntColumn, seen: Seen) -> Iterable[ReasonGroup]:
        """The deadline, or that there is none."""
        import numpy as np

        from gsched.model.ranks import ReasonGroup

        del queue
        deadlines = seen.jobs.deadline[rows]
        has_one = ~np.isnan(deadlines)
        told = deadlines[has_one].astype(np.int64)
        yield ReasonGroup("edf.deadline", rows[has_one], {"deadline": told})
        submits = seen.jobs.first_submit[rows[~has_one]]
        yield ReasonGroup("edf.no-deadline", rows[~has_one], {"first_submit": submits})
