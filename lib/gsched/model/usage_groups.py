"""Sums over groups of past jobs: how many, how they ended, and what they held.

Each sum has beside it how many of the jobs it rests on: of the others nobody has told the GPUs,
the CPUs, a start or an end. GPU-time and CPU-time are of all attempts of a job, its run time is of
the last one. The database makes the same sums by ``gsched_sql/queries/usage_by.sql``.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import astuple, dataclass
from datetime import UTC, datetime
from typing import Any, Literal, get_args

from gsched.model.job import JobState
from gsched.model.names import masked
from gsched.model.past import HistoryJob

Grouping = Literal[
    "user", "account", "name", "state", "phase", "partition", "qos", "day", "month", "gpus"
]
GROUPINGS: tuple[Grouping, ...] = get_args(Grouping)
"""What jobs can be grouped by; day and month are those of the end, in UTC."""

IN_ORDER = frozenset({"day", "month", "gpus"})
"""Groupings that are listed in their own order; the others by what they held."""

GroupKey = str | int | None
"""What the jobs of a group have in common; None: not known (day, month: not ended)."""

FAILED_STATES = frozenset(
    {
        JobState.FAILED,
        JobState.TIMEOUT,
        JobState.NODE_FAIL,
        JobState.PREEMPTED,
        JobState.BOOT_FAIL,
        JobState.DEADLINE,
        JobState.OUT_OF_MEMORY,
    }
)
"""Ends that nobody has asked for: neither COMPLETED nor CANCELLED, and not going on."""


@dataclass(frozen=True, slots=True)
class Sums:
    """Sums over some jobs; ``x_jobs`` is the number of jobs that ``x_s`` (seconds) is over."""

    jobs: int = 0
    attempts: int = 0
    gpu_time_jobs: int = 0
    gpu_time_s: int = 0
    cpu_time_jobs: int = 0
    cpu_time_s: int = 0
    duration_jobs: int = 0
    duration_s: int = 0
    queueing_jobs: int = 0
    queueing_s: int = 0

    def __add__(self, other: Sums) -> Sums:
        pairs = zip(astuple(self), astuple(other), strict=True)
        return Sums(*(mine + theirs for mine, theirs in pairs))


@dataclass(frozen=True, slots=True)
class UsageGroup:
    """One group: its jobs by their (last) state. `examples` are names of a group of names."""

    key: GroupKey
    by_state: Mapping[JobState, Sums]
    examples: tuple[str, ...] = ()

    @property
    def total(self) -> Sums:
        """All jobs of the group."""
        return sum(self.by_state.values(), Sums())

    def of(self, states: Collection[JobState]) -> Sums:
        """The jobs in these states."""
        return sum((s for state, s in self.by_state.items() if state in states), Sums())

    @property
    def failed(self) -> Sums:
        """The jobs in one of FAILED_STATES."""
        return self.of(FAILED_STATES)


@dataclass(frozen=True, slots=True)
class GroupedUsage:
    """The first of the groups that some jobs make, how many there are, and the sum of all.

    `pruned_jobs` are jobs, counted here, of which the history keeps only the sums of a day.
    `pruned_left_out` could not be counted: what was asked for (names, QOS, nodes, ids) is no
    longer known of them.
    """

    groups: tuple[UsageGroup, ...]
    num_groups: int
    total: UsageGroup
    pruned_jobs: int = 0
    pruned_left_out: int = 0


def grouped(jobs: Iterable[HistoryJob], by: Grouping, limit: int | None) -> GroupedUsage:
    """The groups that the jobs make, at most `limit` of them."""
    found: dict[GroupKey, dict[JobState, Sums]] = {}
    names: dict[GroupKey, dict[str, None]] = {}
    for job in jobs:
        key = group_key(job, by)
        add(found, key, job.state, _sums(job))
        if by == "name" and job.name is not None:
            names.setdefault(key, {})[job.name] = None
    examples = {key: _ends(list(some)) for key, some in names.items()}
    return arranged(found, by, limit, examples)


def add(
    found: dict[GroupKey, dict[JobState, Sums]], key: GroupKey, state: JobState, sums: Sums
) -> None:
    """Count `sums` in a group and state."""
    states = found.setdefault(key, {})
    states[state] = states.get(state, Sums()) + sums


def _ends(names: Sequence[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys((names[0], names[-1])))


def arranged(
    found: Mapping[GroupKey, Mapping[JobState, Sums]],
    by: Grouping,
    limit: int | None,
    examples: Mapping[GroupKey, tuple[str, ...]],
) -> GroupedUsage:
    """The first groups: days, months and GPU counts rising, others by GPU-time, then by jobs."""
    groups = [UsageGroup(k, states, examples.get(k, ())) for k, states in found.items()]
    if by in IN_ORDER:
        groups.sort(key=lambda g: (g.key is None, g.key or 0))
    else:
        groups.sort(key=_most_first)
    whole: dict[GroupKey, dict[JobState, Sums]] = {}
    for group in groups:
        for state, sums in group.by_state.items():
            add(whole, None, state, sums)
    total = UsageGroup(None, whole.get(None, {}))
    return GroupedUsage(tuple(groups[:limit]), len(groups), total)


def _most_first(group: UsageGroup) -> tuple[Any, ...]:
    total = group.total
    return (-total.gpu_time_s, -total.jobs, group.key is None, str(group.key))


def group_key(job: HistoryJob, by: Grouping) -> GroupKey:
    """What `job` is grouped by."""
    match by:
        case "user":
            return job.user
        case "account":
            return job.tenant
        case "name":
            return None if job.name is None else masked(job.name)
        case "state":
            return job.state.value
        case "phase":
            return job.phase
        case "partition":
            return job.partition
        case "qos":
            return job.qos
        case "day" | "month":
            return None if job.end_time is None else date_key(job.end_time, by)
        case "gpus":
            return job.num_gpus


def date_key(epoch: int, by: Grouping) -> str:
    """The UTC day (``2026-11-29``) or month (``2026-11``) of a time."""
    return datetime.fromtimestamp(epoch, UTC).strftime("%Y-%m-%d" if by == "day" else "%Y-%m")


def _sums(job: HistoryJob) -> Sums:
    told = (job.gpu_time_s, job.cpu_time_s, job.duration_s, job.queueing_s)
    pairs = ((0, 0) if seconds is None else (1, seconds) for seconds in told)
    return Sums(1, len(job.attempts), *(number for pair in pairs for number in pair))
