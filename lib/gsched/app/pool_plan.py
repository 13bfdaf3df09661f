"""How many GPUs are free when, beside promises and what running jobs hold."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from gsched.app.queued_job import QueuedJob
from gsched.model.cluster import NodeView, ReservationView
from gsched.model.job import JobState

_HOLDS = frozenset({JobState.RUNNING, JobState.SUSPENDED, JobState.COMPLETING})


@dataclass(frozen=True, slots=True)
class PoolPlan:
    """The GPUs of partitions that share nodes, as far as their nodes can be used.

    `free`: from each time (epoch) on, so many GPUs are held by no promise, no reservation, and no
    job that keeps its own: one without a lease until its time limit, another until its lease ends.
    """

    name: str
    num_gpus: int
    free: tuple[tuple[int, int], ...]

    def least_free(self, begin: int, end: int) -> int | None:
        """The fewest free GPUs from `begin` to before `end`; None before anything is told."""
        least = None
        for index, (time, gpus) in enumerate(self.free):
            after = self.free[index + 1][0] if index + 1 < len(self.free) else None
            if time < end and (after is None or after > begin):
                least = gpus if least is None else min(least, gpus)
        return least


class _Hold(NamedTuple):
    """GPUs from `start` to before `end` (None: for ever)."""

    start: int
    end: int | None
    gpus: int


def pool_plans(
    nodes: Sequence[NodeView],
    reservations: Iterable[ReservationView],
    jobs: Iterable[QueuedJob],
    at: int,
) -> tuple[PoolPlan, ...]:
    """The pools with GPUs at the time `at`, by name; `jobs` are all of the cluster."""
    usable = [node for node in nodes if node.is_usable and node.partitions and node.num_gpus]
    pool_of = _pools(usable)
    holds: dict[str, list[_Hold]] = defaultdict(list)
    sizes = {node.name: (pool_of[node.partitions[0]], node.num_gpus) for node in usable}
    for reserved in reservations:
        for name in reserved.nodes:
            if name in sizes:
                pool, gpus = sizes[name]
                holds[pool].append(_Hold(reserved.start_time, reserved.end_time, gpus))
    for job in jobs:
        own = pool_of.get(job.row.partitions[0]) if job.row.partitions else None
        if own is not None:
            holds[own] += _held_by(job, at)
    totals: dict[str, int] = defaultdict(int)
    for pool, gpus in sizes.values():
        totals[pool] += gpus
    return tuple(
        PoolPlan(pool, total, _free(total, holds[pool], at))
        for pool, total in sorted(totals.items())
    )


def _pools(nodes: Iterable[NodeView]) -> dict[str, str]:
    """By partition the name of its pool: partitions that share nodes, commas between."""
    groups: list[set[str]] = []
    for node in nodes:
        joined = set(node.partitions)
        apart = []
        for group in groups:
            if group & joined:
                joined |= group
            else:
                apart.append(group)
        groups = [*apart, joined]
    return {name: ",".join(sorted(group)) for group in groups for name in group}


def _held_by(job: QueuedJob, at: int) -> Iterator[_Hold]:
    """What a promise is to hold; of another job what it has, for as long as it may keep it."""
    if job.target is not None:
        for start, end, gpus in job.target["plan"]:
            yield _Hold(int(start), int(end), int(gpus))
    elif job.row.state in _HOLDS and job.num_gpus:
        lease_end = _lease_end(job.answer.get("lease") or {})
        limit_end = job.row.end_time if job.time_limit_s is not None else None
        ends = [end for end in (lease_end, limit_end) if end is not None]
        yield _Hold(at, max(at + 1, min(ends)) if ends else None, job.num_gpus)


def _lease_end(lease: Mapping[str, object]) -> int | None:
    end = lease.get("end_time")
    return int(end) if isinstance(end, int | float) else None


def _free(total: int, holds: Iterable[_Hold], at: int) -> tuple[tuple[int, int], ...]:
    """What is left of `total` from `at` on, at each time at which it changes."""
    changes: dict[int, int] = defaultdict(int)
    changes[at] = 0
    for start, end, gpus in holds:
        if end is None or end > at:
            changes[max(at, start)] -= gpus
            if end is not None:
                changes[end] += gpus
    found: list[tuple[int, int]] = []
    left = total
    for time in sorted(changes):
        left += changes[time]
        gpus = max(0, left)
        if not found or found[-1][1] != gpus:
            found.append((time, gpus))
    return tuple(found)
