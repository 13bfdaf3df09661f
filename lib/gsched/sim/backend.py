"""A simulated cluster behind the same port as the live one.

Minimal and exact: whole GPUs on nodes, gang scheduling, no preemption, and, as Slurm's main
scheduler without backfill does it, the first job in the order that does not fit blocks the rest.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from gsched.engine.ports import Plan
from gsched.model.cluster import ClusterState, Delta, NodeView
from gsched.model.decision import Decision
from gsched.model.job import Allocation, Capability, JobKey, JobState, JobView
from gsched.model.jobtable import JobTable
from gsched.model.journal import Change, Outcome, Readback, Standing
from gsched.model.ranks import RankTable

CHANNEL = "sim-priority"
_POINTS = 1_000_000  # a level of 1.0 in priority points


@dataclass(frozen=True, slots=True)
class SimJob:
    """A job to be simulated: what a policy sees of it, and its true run time in seconds."""

    view: JobView
    duration_s: int


class SimBackend:
    """Implements ``gsched.engine.ports.Backend`` on virtual time (`now`, epoch seconds)."""

    capabilities = frozenset({Capability.REORDER})

    def __init__(self, cluster: str, nodes: Sequence[NodeView], jobs: Iterable[SimJob]) -> None:
        """Raises ValueError for a job that can never fit on `nodes`."""
        self.cluster = cluster
        self.now = 0
        self._nodes = {n.name: n for n in nodes}
        self._free = {n.name: n.num_gpus for n in nodes}
        self._jobs = {j.view.key: j for j in jobs}
        self._arrivals = sorted(self._jobs.values(), key=lambda j: (j.view.first_submit, _id(j)))
        self._arrived = 0
        self._pending: dict[JobKey, int] = {}  # → priority
        self._running: dict[JobKey, Allocation] = {}
        self._running_views: dict[JobKey, JobView] = {}
        self._ends: list[tuple[int, tuple[int, ...], JobKey]] = []
        self._seq = 0
        self._last: Mapping[JobKey, JobState] = {}
        self._shown: Mapping[JobKey, int] = {}  # the priorities that the last look showed
        self._shown_at = 0
        self._shown_nodes: tuple[NodeView, ...] = ()
        self._table = JobTable.from_views([])
        self.start_times: dict[JobKey, int] = {}
        for job in self._arrivals:
            if self._placement(job.view, {n.name: n.num_gpus for n in nodes}) is None:
                raise ValueError(f"job {job.view.key.slurm_id} can never fit on this cluster")

    # -- time -------------------------------------------------------------------------------

    def advance(self) -> bool:
        """Go to the next arrival or end. False when nothing is left to happen."""
        times = [self._ends[0][0]] if self._ends else []
        if self._arrived < len(self._arrivals):
            times.append(self._arrivals[self._arrived].view.first_submit)
        if not times:
            return False
        self.now = max(self.now, min(times))
        while self._ends and self._ends[0][0] <= self.now:
            _, _, key = heapq.heappop(self._ends)
            self._release(self._running.pop(key))
            del self._running_views[key]
        while self._arrived < len(self._arrivals):
            job = self._arrivals[self._arrived]
            if job.view.first_submit > self.now:
                break
            self._pending[job.view.key] = 0
            self._arrived += 1
        return True

    def start_jobs(self) -> list[JobKey]:
        """Start pending jobs in order until one does not fit; returns the started ones."""
        started = []
        for key in self.pending_order():
            job = self._jobs[key]
            allocation = self._placement(job.view, self._free)
            if allocation is None:
                break
            for node, gpus in zip(allocation.nodes, allocation.gpus, strict=True):
                self._free[node] -= gpus
            del self._pending[key]
            self._running[key] = allocation
            self._running_views[key] = replace(
                job.view, state=JobState.RUNNING, allocation=allocation
            )
            self.start_times[key] = self.now
            heapq.heappush(self._ends, (self.now + job.duration_s, _id(job), key))
            started.append(key)
        return started

    def pending_order(self) -> list[JobKey]:
        """Pending jobs as the scheduler would take them: priority, then submit time, then id."""
        return sorted(
            self._pending,
            key=lambda k: (
                -self._pending[k],
                self._jobs[k].view.first_submit,
                _id(self._jobs[k]),
            ),
        )

    # -- the port ---------------------------------------------------------------------------

    def look(self) -> None:
        """Note what is pending and running now."""
        self._shown = dict(self._pending)
        views = [*(self._jobs[key].view for key in self._pending), *self._running_views.values()]
        self._table = JobTable.from_views(views, self._table)
        self._shown_at = self.now
        self._shown_nodes = tuple(
            replace(n, gpus_used=n.num_gpus - self._free[name]) for name, n in self._nodes.items()
        )

    def snapshot(self, standing: Mapping[tuple[JobKey, str], Standing]) -> ClusterState:
        """The state that the last look showed."""
        del standing  # tells other hands' values from ours; there is no other hand here
        self._seq += 1
        before, self._last = self._last, {v.key: v.state for v in self._table.views}
        return ClusterState(
            cluster=self.cluster,
            as_of=self._shown_at,
            seq=self._seq,
            nodes=self._shown_nodes,
            partitions=(),
            reservations=(),
            jobs=self._table,
            changed=Delta.between(before, self._last),
        )

    def looked_up(self, changes: Sequence[Change]) -> list[Readback]:
        """The priorities as the last look showed them."""
        return _read(changes, self._shown)

    def plan(self, decision: Decision, state: ClusterState, round_id: str) -> Plan:
        """Priorities that differ from the decided levels."""
        ranks = RankTable.of(decision.order, state.jobs)
        wanted = np.rint(ranks.level * _POINTS).astype(np.int64).tolist()
        changes = []
        for row, after in zip(ranks.rows.tolist(), wanted, strict=True):
            key = state.jobs.keys[row]
            before = self._shown[key]
            if after != before:
                changes.append(
                    Change(
                        change_id=f"{round_id}/{key.slurm_id}",
                        key=key,
                        attempt=state.jobs.views[row].attempt,
                        channel=CHANNEL,
                        before=before,
                        after=after,
                        reason=decision.reasons[key],
                    )
                )
        return Plan(tuple(changes))

    def apply(self, changes: Sequence[Change]) -> list[Outcome]:
        """Set the priorities of jobs that still wait."""
        outcomes = []
        for change in changes:
            waits = change.key in self._pending
            if waits:
                self._pending[change.key] = change.after
            outcomes.append(Outcome(change.change_id, waits, "" if waits else "not pending"))
        return outcomes

    def read_back(self, changes: Sequence[Change]) -> list[Readback]:
        """The priorities as they stand now."""
        return _read(changes, self._pending)

    # -- placement --------------------------------------------------------------------------

    def _placement(self, view: JobView, free: Mapping[str, int]) -> Allocation | None:
        """GPUs for all nodes of a job at once, best fit: the fullest nodes that still suffice."""
        num_nodes = max(1, view.request.nodes.minimum)
        per_node = -(-view.request.gpus.minimum // num_nodes)
        fitting = sorted((gpus, name) for name, gpus in free.items() if gpus >= per_node)
        if len(fitting) < num_nodes:
            return None
        chosen = tuple(name for _, name in fitting[:num_nodes])
        return Allocation(chosen, (per_node,) * num_nodes, self.now)

    def _release(self, allocation: Allocation) -> None:
        for node, gpus in zip(allocation.nodes, allocation.gpus, strict=True):
            self._free[node] += gpus


def _read(changes: Sequence[Change], priorities: Mapping[JobKey, int]) -> list[Readback]:
    return [Readback(c.change_id, priorities.get(c.key), c.key in priorities) for c in changes]


def _id(job: SimJob) -> tuple[int, ...]:
    key = job.view.key
    parts = (key.job_id, key.array_task, key.het_offset)
    return tuple(-1 if part is None else part for part in parts)
