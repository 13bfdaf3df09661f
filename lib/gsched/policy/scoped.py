"""One policy made of several: each ranks the jobs of its partitions, as if there were no others."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from gsched.model.cluster import ClusterState
from gsched.model.decision import Decision, JsonValue
from gsched.policy.base import OrderKind, Policy

if TYPE_CHECKING:
    from gsched.model.jobtable import FloatColumn, IntColumn, JobTable
    from gsched.model.ranks import RankTable, ReasonGroup, ReasonTable
    from gsched.policy.order_form import OrderForm

MEMORY_VERSION = 1

SEVERAL = "scope.several-policies"
"""Code of the reason of a job whose partitions have more than one policy."""

_NOBODY = -1
_MOST_DEPENDENT = (OrderKind.STATE, OrderKind.TIME, OrderKind.STATIC)


@dataclass(frozen=True, slots=True)
class _Answer:
    """What one policy said of the rows that are its."""

    policy: Policy
    rows: IntColumn
    jobs: JobTable
    decision: Decision


class Scoped(Policy):
    """A default policy, and others for the jobs of some partitions.

    A job that may run in partitions of several policies gets no rank: it keeps the median place.
    Levels are those of its policy; positions count all jobs of a queue, by level.
    """

    def __init__(self, default: Policy, by_partition: Mapping[str, Policy]) -> None:
        """Policies of the same name are taken for one: the first of them."""
        super().__init__()
        named: dict[str, Policy] = {}
        for policy in (default, *by_partition.values()):
            named.setdefault(policy.name, policy)
        self.policies = tuple(named.values())
        numbers = {name: number for number, name in enumerate(named)}
        self._number = {part: numbers[policy.name] for part, policy in by_partition.items()}
        self.name = "+".join(named)
        scope = ", ".join(f"{policy.name} in {part}" for part, policy in by_partition.items())
        self.summary = f"{default.name}; {scope}"
        self.requires = frozenset().union(*(policy.requires for policy in self.policies))
        kinds = {policy.order_kind for policy in self.policies}
        self.order_kind = next(kind for kind in _MOST_DEPENDENT if kind in kinds)
        self.needs_prediction = any(policy.needs_prediction for policy in self.policies)
        self.reads_progress = any(policy.reads_progress for policy in self.policies)

    def static_key(self, jobs: JobTable) -> FloatColumn:
        """Of each job the key of its policy, NaN for a job of several."""
        import numpy as np

        keys = np.full(len(jobs), np.nan)
        whose = self._whose(jobs)
        for number, policy in enumerate(self.policies):
            rows = jobs.select(whose == number)
            keys[rows] = policy.static_key(jobs.take(rows))
        return keys

    def order_form(self, jobs: JobTable) -> OrderForm | None:
        """None: the keys of several policies have nothing in common."""
        del jobs
        return None

    def decide(self, state: ClusterState, memory: Mapping[str, JsonValue], now: int) -> Decision:
        """The decisions of all policies in one."""
        from gsched.model.ranks import ReasonTable

        jobs = state.jobs
        whose = self._whose(jobs)
        memories = _memories(memory)
        answers = []
        for number, policy in enumerate(self.policies):
            rows = jobs.select(whose == number)
            ended = tuple(v for v in state.ended if self._numbers(v.partitions) == {number})
            own = replace(_restricted(state, jobs.take(rows)), ended=ended)
            decision = policy.decide(own, memories.get(policy.name, {}), now)
            answers.append(_Answer(policy, rows, own.jobs, decision))
        groups = [group for answer in answers for group in _groups(answer)]
        groups.append(self._several(jobs, jobs.select(jobs.reorderable & (whose == _NOBODY))))
        wakeups = [a.decision.next_wakeup for a in answers if a.decision.next_wakeup is not None]
        kept: dict[str, JsonValue] = {a.policy.name: {**a.decision.memory} for a in answers}
        return Decision(
            order=_merged(jobs, answers),
            actions=tuple(action for a in answers for action in a.decision.actions),
            reasons=ReasonTable(jobs, tuple(groups)),
            memory={"version": MEMORY_VERSION, "policies": kept},
            next_wakeup=min(wakeups, default=None),
        )

    def _whose(self, jobs: JobTable) -> IntColumn:
        """By row: which of the policies ranks it; _NOBODY where several would."""
        import numpy as np

        known: dict[tuple[str, ...], int] = {}
        for view in jobs.views:
            if view.partitions not in known:
                numbers = self._numbers(view.partitions)
                known[view.partitions] = numbers.pop() if len(numbers) == 1 else _NOBODY
        return np.array([known[view.partitions] for view in jobs.views], dtype=np.int64)

    def _numbers(self, partitions: tuple[str, ...]) -> set[int]:
        return {self._number.get(part, 0) for part in partitions} or {0}

    def _several(self, jobs: JobTable, rows: IntColumn) -> ReasonGroup:
        import numpy as np

        from gsched.model.ranks import ReasonGroup

        names = [
            ", ".join(
                self.policies[n].name for n in sorted(self._numbers(jobs.views[r].partitions))
            )
            for r in rows.tolist()
        ]
        return ReasonGroup(SEVERAL, rows, {"policies": np.array(names, dtype=np.object_)})


def _restricted(state: ClusterState, jobs: JobTable) -> ClusterState:
    """What a policy sees that ranks these jobs alone; of those that left it sees all."""
    delta = state.changed
    return replace(
        state,
        jobs=jobs,
        changed=replace(
            delta,
            arrived=frozenset(key for key in delta.arrived if key in jobs),
            changed=frozenset(key for key in delta.changed if key in jobs),
        ),
        requests=tuple(key for key in state.requests if key in jobs),
    )


def _memories(memory: Mapping[str, JsonValue]) -> dict[str, dict[str, JsonValue]]:
    """By policy; none from another version or from damaged memory."""
    stored = memory.get("policies")
    if memory.get("version") != MEMORY_VERSION or not isinstance(stored, dict):
        return {}
    return {name: kept for name, kept in stored.items() if isinstance(kept, dict)}


def _merged(jobs: JobTable, answers: list[_Answer]) -> RankTable:
    """All ranks in one table, the positions by level."""
    import numpy as np

    from gsched.model.ranks import RankTable

    tables = [RankTable.of(answer.decision.order, answer.jobs) for answer in answers]
    columns = {
        name: np.concatenate([getattr(table, name) for table in tables])
        for name in ("queue", "position", "out_of", "key", "level")
    }
    rows = np.concatenate([a.rows[table.rows] for a, table in zip(answers, tables, strict=True)])
    ordered = np.lexsort((jobs.tie[rows], columns["position"], -columns["level"]))
    return RankTable(jobs, rows, **columns).take(ordered).renumbered()


def _groups(answer: _Answer) -> list[ReasonGroup]:
    from gsched.model.ranks import ReasonTable

    table: ReasonTable = ReasonTable.of(answer.decision.reasons, answer.jobs)
    return [replace(group, rows=answer.rows[group.rows]) for group in table.groups]
