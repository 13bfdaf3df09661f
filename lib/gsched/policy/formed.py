"""Policies that are nothing but an order form: the form decides live as it does in the simulator.

Jobs that wait are ranked in the form's order. Where the form preempts, those that hold GPUs and
have no lease stand in that order too (``preemption``).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from gsched.model.cluster import ClusterState
from gsched.model.decision import LAST_ORDER_STANDS, QUEUES, Decision, JsonValue
from gsched.model.job import Capability
from gsched.policy.attained import with_attained
from gsched.policy.base import Policy, Received
from gsched.policy.pools import Pools
from gsched.policy.preemption import GRACE, lease_actions, may_give_way, next_wakeup
from gsched.policy.ranking import position_level, rank_queues
from gsched.policy.tenant_use import seeded, tenant_use, total_use
from gsched.policy.turns import Pass, Turns

if TYPE_CHECKING:
    from gsched.model.jobtable import BoolColumn, FloatColumn, IntColumn, JobTable, TextColumn
    from gsched.model.ranks import RankTable, ReasonGroup
    from gsched.policy.order_form import OrderForm


@dataclass(frozen=True, eq=False)
class Seen:
    """What a form gave for one snapshot.

    `keys` by row of `jobs`; `use` is what each tenant has of GPUs or GPU-seconds, by its code, and
    `total_use` that of all tenants, those without jobs at hand among them.
    """

    jobs: JobTable
    form: OrderForm
    now: int
    keys: FloatColumn
    use: FloatColumn
    total_use: float

    def tenant_names(self, rows: IntColumn) -> TextColumn:
        """The tenant of each, as a column of reasons."""
        import numpy as np

        names: TextColumn = np.array(self.jobs.tenants, dtype=np.object_)
        return names[self.jobs.tenant[rows]]


class FormedPolicy(Policy):
    """Base of policies whose decision follows from their order form and from nothing else.

    Jobs of which it would have to know a run time and does not keep the median place; in the form
    they have the median of the keys at hand. Levels come from positions: keys of many kinds have no
    natural middle.
    """

    @abstractmethod
    def order_form(self, jobs: JobTable) -> OrderForm:
        """The order of `jobs`."""

    @abstractmethod
    def reasons(self, queue: str, rows: IntColumn, seen: Seen) -> Iterable[ReasonGroup]:
        """Why the ranked jobs in `rows`, all of one queue, stand where they stand."""

    def decide(self, state: ClusterState, memory: Mapping[str, JsonValue], now: int) -> Decision:
        """Ranks of the waiting jobs, and who gives way to whom where the form preempts."""
        import numpy as np

        from gsched.model.ranks import ReasonTable

        jobs = state.jobs  # ranks and reasons are about this very table
        state = replace(state, jobs=self.with_received(state, memory))
        form = self.order_form(state.jobs)
        form, use, kept = self.with_memory(form, state, memory)
        keys = form.keys_at(now, state.jobs, use)
        seen = Seen(state.jobs, form, now, keys, use, total_use(use, kept))
        turns = _turns(state, form, now, use)
        ordered = np.array(turns.ordered, dtype=np.int64)
        ranked = jobs.reorderable & self._can_place(jobs)
        order = _ranks(jobs, ordered[ranked[ordered]], seen.keys)
        unplaced = jobs.select(jobs.reorderable & ~ranked)
        groups = [self._no_prediction(unplaced, is_nothing_known=not len(order))]
        for number, queue in enumerate(QUEUES):
            groups += self.reasons(queue, order.rows[order.queue == number], seen)
        reasons = ReasonTable(jobs, tuple(groups))
        if not form.discipline.preempts:
            return Decision(order, (), reasons, kept)
        grace_s = int(self.knob_values[GRACE.name])
        actions = lease_actions(self.name, state, form, turns, grace_s, now)
        return Decision(order, actions, reasons, kept, next_wakeup(state, form, actions, now))

    def with_received(self, state: ClusterState, memory: Mapping[str, JsonValue]) -> JobTable:
        """``state.jobs`` with what each has received, as far as snapshot or memory tell."""
        del memory
        return with_attained(state)

    def with_memory(
        self, form: OrderForm, state: ClusterState, memory: Mapping[str, JsonValue]
    ) -> tuple[OrderForm, FloatColumn, dict[str, JsonValue]]:
        """The form with what memory alone can tell, the use of each tenant, and the new memory."""
        use, kept = tenant_use(form.tenants, state, memory)
        return form, use, kept

    def seeded(
        self, memory: Mapping[str, JsonValue], as_of: int, received: Received
    ) -> Mapping[str, JsonValue]:
        """With what tenants have received, where it counts that and forgets it by and by."""
        half_life_s = self.knob_values.get("half_life_s")
        if half_life_s is None:
            return memory
        return seeded(memory, as_of, received(half_life_s, "gpu_weights" in self.takes))

    def _can_place(self, jobs: JobTable) -> BoolColumn:
        import numpy as np

        if not (self.needs_prediction or Capability.ORACLE in self.requires):
            return np.full(len(jobs), True)
        return ~np.isnan(jobs.predicted_duration_s)

    def _no_prediction(self, rows: IntColumn, is_nothing_known: bool) -> ReasonGroup:
        from gsched.model.ranks import ReasonGroup

        code = LAST_ORDER_STANDS if is_nothing_known else ".no-prediction"
        return ReasonGroup(self.name + code, rows, {})


def _turns(state: ClusterState, form: OrderForm, now: int, use: FloatColumn) -> Turns:
    """The waiting jobs in order, and who gives way."""
    import numpy as np

    jobs = state.jobs
    if not (form.discipline.preempts or form.comes_by_tenant):
        return Turns(form.order_at(now, jobs, jobs.select(jobs.pending), use).tolist())
    pools = Pools.of(state)
    gives_way = np.full(len(jobs), False)
    if form.discipline.preempts:
        for row in jobs.select(jobs.running & (jobs.num_gpus > 0)).tolist():
            gives_way[row] = may_give_way(jobs.views[row], pools, now)
    rows = form.order_at(now, jobs, jobs.select(jobs.pending | gives_way), use)
    ready = jobs.reorderable & (jobs.num_gpus > 0) & ~np.isnan(jobs.waiting_since)
    return Pass(form, jobs, rows.tolist(), ready.tolist(), use).turns(pools)


def _ranks(jobs: JobTable, ordered: IntColumn, keys: FloatColumn) -> RankTable:
    """Ranks of these rows, which are in order."""
    import numpy as np

    has_gpus = jobs.num_gpus[ordered] > 0
    queues = {"gpu": ordered[has_gpus], "cpu": ordered[~has_gpus]}

    def levels(_queue: str, in_order: FloatColumn) -> FloatColumn:
        return position_level(np.arange(1, len(in_order) + 1), len(in_order))

    return rank_queues(jobs, np.nan_to_num(keys), queues, levels)
