"""First in, first out: plain order of submission, the baseline of every comparison."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from gsched.model.job import Capability
from gsched.policy.axes import Axes, Evidence, Method, Objective
from gsched.policy.base import OrderKind
from gsched.policy.formed import FormedPolicy, Seen
from gsched.policy.order_form import OrderForm

if TYPE_CHECKING:
    from gsched.model.jobtable import FloatColumn, IntColumn, JobTable
    from gsched.model.ranks import ReasonGroup


class Fifo(FormedPolicy):
    """Earliest first submit first; a requeue does not send a job to the end.

    Times have no natural middle, so the level comes from the position and moves on as jobs leave.
    """

    name = "fifo"
    summary = "earliest first submission first"
    axes = Axes(Objective.TIMING, Method.HEURISTIC, Evidence.XL, "textbook")
    requires = frozenset({Capability.REORDER})
    order_kind = OrderKind.STATE

    def static_key(self, jobs: JobTable) -> FloatColumn:
        """First submit time, epoch seconds."""
        return jobs.first_submit.astype(float)

    def order_form(self, jobs: JobTable) -> OrderForm:
        """Keys that never change: the first submit times."""
        return OrderForm.static(self.static_key(jobs))

    def reasons(self, queue: str, rows: IntColumn, seen: Seen) -> Iterable[ReasonGroup]:
        """The time."""
        from gsched.model.ranks import ReasonGroup

        del queue
        submits = seen.jobs.first_submit[rows]
        yield ReasonGroup("fifo.first-submit", rows, {"first_submit": submits})
