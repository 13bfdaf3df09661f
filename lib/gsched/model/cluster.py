"""A snapshot of one cluster: nodes, partitions, reservations and its jobs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gsched.model.job import JobKey, JobState, JobView

if TYPE_CHECKING:
    from gsched.model.jobtable import JobTable


@dataclass(frozen=True, slots=True)
class NodeView:
    """One node. `state` is Slurm's base state in lower case, `flags` its suffixes and flags."""

    name: str
    state: str
    flags: tuple[str, ...]
    num_cpus: int
    mem_bytes: int
    gpus: tuple[tuple[str, int], ...]  # (type or "", count)
    partitions: tuple[str, ...]
    features: tuple[str, ...] = ()
    topology: str = ""
    gpus_used: int = 0
    available_features: tuple[str, ...] = ()  # with those that a reboot would give
    cpus_used: int = 0
    mem_used_bytes: int = 0

    @property
    def num_gpus(self) -> int:
        """All GPUs of the node, whatever their type."""
        return sum(count for _, count in self.gpus)

    @property
    def is_usable(self) -> bool:
        """Whether Slurm could start a job here now or after waking the node."""
        return self.state in {"idle", "mixed", "allocated", "completing"} and not (
            {"drain", "down", "fail", "maint", "not_responding", "invalid_reg"} & set(self.flags)
        )


@dataclass(frozen=True, slots=True)
class PartitionView:
    """One partition and its limits (None = no limit).

    `state` is Slurm's own, in lower case: ``up``, ``down``, ``drain``, ``inactive``. Of `qos` come
    limits that stand before those of a job's own QOS. Jobs of `allow_accounts` alone (empty: of
    all), and none of `deny_accounts`, may use it; likewise for the users' groups and the QOS. Where
    partitions share nodes, jobs in the one of a higher `tier` start first, whatever their priority.
    """

    name: str
    is_default: bool
    is_up: bool
    nodes: tuple[str, ...]
    max_time_s: int | None = None
    max_nodes: int | None = None
    default_time_s: int | None = None
    state: str = "up"
    qos: str = ""
    allow_accounts: tuple[str, ...] = ()
    deny_accounts: tuple[str, ...] = ()
    allow_groups: tuple[str, ...] = ()
    allow_qos: tuple[str, ...] = ()
    deny_qos: tuple[str, ...] = ()
    tier: int = 1


@dataclass(frozen=True, slots=True)
class ReservationView:
    """Nodes set aside for some users or accounts."""

    name: str
    nodes: tuple[str, ...]
    start_time: int
    end_time: int
    users: tuple[str, ...] = ()
    accounts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Delta:
    """What changed since the snapshot before: jobs that came, went, or changed state."""

    arrived: frozenset[JobKey] = frozenset()
    departed: frozenset[JobKey] = frozenset()
    changed: frozenset[JobKey] = frozenset()

    @classmethod
    def between(cls, before: Mapping[JobKey, JobState], now: Mapping[JobKey, JobState]) -> Delta:
        """What lies between two looks at the jobs' states."""
        both = before.keys() & now.keys()
        return cls(
            arrived=frozenset(now.keys() - before.keys()),
            departed=frozenset(before.keys() - now.keys()),
            changed=frozenset(key for key in both if before[key] is not now[key]),
        )


@dataclass(frozen=True, slots=True)
class ClusterState:
    """What a policy decides on. `seq` grows by one with each snapshot of a backend.

    `ended` are jobs that have held GPUs since the snapshot before and hold none now, as far as the
    backend knows them; those that were requeued are among them.
    """

    cluster: str
    as_of: int
    seq: int
    nodes: tuple[NodeView, ...]
    partitions: tuple[PartitionView, ...]
    reservations: tuple[ReservationView, ...]
    jobs: JobTable
    changed: Delta = Delta()
    requests: tuple[JobKey, ...] = ()  # jobs whose users wait for an answer (deadline, placement)
    ended: tuple[JobView, ...] = ()
