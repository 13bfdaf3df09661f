"""What a look at the simulated cluster shows: jobs and nodes, made anew only where they moved."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from gsched.model.cluster import NodeView, PartitionView
from gsched.model.job import Allocation, JobState, JobView, Lease, LeaseState
from gsched.model.jobtable import IntColumn, JobTable
from gsched.sim.cluster import SimCluster
from gsched.sim.core.state import ASLEEP, CLOSING, DOWN, NONE, RUNNING, SAVING, WAITING, Sim

_STATES = {
    WAITING: JobState.PENDING,
    RUNNING: JobState.RUNNING,
    SAVING: JobState.COMPLETING,
    CLOSING: JobState.COMPLETING,
}


class Sight:
    """The last look: `table` over the jobs that wait or hold GPUs (`rows`), `nodes`, `partitions`,
    and who has `ended`.

    `records` are the jobs as they wait for their first start, `origin` the epoch time of second 0.
    With `leases` a job that runs does so by a lease, be it one of no length.
    """

    def __init__(
        self, cluster: SimCluster, records: Sequence[JobView], origin: int, leases: bool
    ) -> None:
        self._records, self._origin, self._leases = records, origin, leases
        self._arrived = 0
        self._views: dict[int, JobView] = {}
        self.rows: IntColumn = np.zeros(0, dtype=np.int64)
        self._held_s: dict[int, float] = {}
        self._segments = 0
        self._places: dict[int, Allocation] = {}  # of who has started since the last look
        self.table = JobTable.from_views([])
        self.ended: tuple[JobView, ...] = ()
        self.nodes = _bare_nodes(cluster)
        self._node_states: list[tuple[int, int]] = [(0, 0)] * len(self.nodes)
        self.partitions = _partitions(cluster)

    def look(self, sim: Sim) -> None:
        """See what is there now."""
        jobs = sim.jobs
        arrived = int(sim.now[0]["next_job"])
        rows = np.concatenate((self.rows, np.arange(self._arrived, arrived)))
        self.ended = self._gone(sim, rows)
        self._places.clear()
        self.rows = rows[np.isin(jobs["phase"][rows], list(_STATES))]
        self._arrived = arrived
        self._views = {row: self._seen(sim, row) for row in self.rows.tolist()}
        self.table = JobTable.from_views(self._views.values(), self.table)
        self._held_s = {row: _held_s(sim, row) for row in self.rows.tolist()}
        self._look_at_nodes(sim)

    def note_started(self, sim: Sim) -> None:
        """See where those have started that may have left before the next look."""
        now = int(sim.now[0]["segments"])
        for row in sim.segments["job"][self._segments : now].tolist():
            start_time = self._epoch(sim.jobs[row]["held_from_s"])
            self._places[row] = self._allocation(sim, row, start_time)
        self._segments = now

    # -- jobs -------------------------------------------------------------------------------

    def _gone(self, sim: Sim, rows: IntColumn) -> tuple[JobView, ...]:
        """Those that have held GPUs since the last look and hold none now."""
        without = rows[~np.isin(sim.jobs["phase"][rows], (RUNNING, SAVING, CLOSING))]
        gone = []
        for row in without.tolist():
            held_s = _held_s(sim, row) - self._held_s.get(row, 0.0)
            if held_s > 0:
                start = self._epoch(sim.now[0]["time_s"] - held_s)
                allocation = replace(self._place_of(row), start_time=start)
                gone.append(replace(self._records[row], allocation=allocation))
        return tuple(gone)

    def _place_of(self, row: int) -> Allocation:
        """Where a job was that holds nothing any more."""
        last = self._views.get(row)
        if row not in self._places and last is not None and last.allocation is not None:
            return last.allocation
        return self._places[row]

    def _seen(self, sim: Sim, row: int) -> JobView:
        """The record of a job as it is; the one that was shown last where that still holds."""
        job = sim.jobs[row]
        state = _STATES[int(job["phase"])]
        last = self._views.get(row)
        if last is None:
            last = self._records[row]
        if state is JobState.PENDING:
            return self._waiting(sim, row, last)
        lease = self._lease(sim, row)
        attained_gpu_s = _held_s(sim, row) * int(job["num_gpus"])
        start_time = self._epoch(job["held_from_s"])
        allocation = last.allocation
        if allocation is None or allocation.start_time != start_time:
            allocation = self._allocation(sim, row, start_time)
        return replace(
            last, state=state, allocation=allocation, lease=lease, attained_gpu_s=attained_gpu_s
        )

    def _waiting(self, sim: Sim, row: int, last: JobView) -> JobView:
        job = sim.jobs[row]
        requeues = int(job["preemptions"] + job["failures"])
        if last.state is JobState.PENDING and last.restarts == requeues:
            return last
        return replace(
            last,
            state=JobState.PENDING,
            attempt=self._epoch(sim.now[0]["time_s"]),
            restarts=requeues,
            attained_gpu_s=_held_s(sim, row) * int(job["num_gpus"]),
            allocation=None,
            lease=None,
        )

    def _lease(self, sim: Sim, row: int) -> Lease | None:
        if not self._leases:
            return None
        job = sim.jobs[row]
        start, end = self._epoch(job["held_from_s"]), self._epoch(job["leased_until_s"])
        name = f"{self._records[row].key.slurm_id}/{int(job['attempts'])}/{end}"
        return Lease(name, LeaseState.GRANTED, start, end - start)

    def _allocation(self, sim: Sim, row: int, start_time: int) -> Allocation:
        nodes, gpus = [], []
        number = int(sim.places.first_piece[row])
        if number == NONE:  # it shares those of another
            number = int(sim.places.first_piece[sim.jobs[row]["partner"]])
        while number != NONE:
            piece = sim.places.piece[number]
            nodes.append(self.nodes[piece["node"]].name)
            gpus.append(int(piece["gpus"]))
            number = int(piece["next"])
        return Allocation(tuple(nodes), tuple(gpus), start_time)

    def _epoch(self, time_s: float) -> int:
        return self._origin + int(np.floor(time_s))

    # -- nodes ------------------------------------------------------------------------------

    def _look_at_nodes(self, sim: Sim) -> None:
        states = list(
            zip(sim.places.node["used"].tolist(), sim.nodes["state"].tolist(), strict=True)
        )
        moved = [n for n, state in enumerate(states) if state != self._node_states[n]]
        if moved:
            nodes = list(self.nodes)
            for number in moved:
                nodes[number] = _node_as_it_is(nodes[number], *states[number])
            self.nodes = tuple(nodes)
            self._node_states = states


def _held_s(sim: Sim, row: int) -> float:
    """For how long it has held GPUs, over all its attempts."""
    job = sim.jobs[row]
    held_s = float(job["held_s"])
    if job["phase"] in (RUNNING, SAVING):
        held_s += float(sim.now[0]["time_s"] - job["held_from_s"])
    return held_s


def _bare_nodes(cluster: SimCluster) -> tuple[NodeView, ...]:
    pools = np.repeat(np.arange(len(cluster.pools)), np.diff(cluster.first_node))
    return tuple(
        NodeView(
            name=cluster.node_names[number],
            state="idle",
            flags=(),
            num_cpus=0,
            mem_bytes=0,
            gpus=((cluster.gpu_types[cluster.node_type[number]], int(cluster.node_gpus[number])),),
            partitions=(cluster.pools[pool],),
            topology=f"switch{cluster.node_switch[number]}",
        )
        for number, pool in enumerate(pools.tolist())
    )


def _node_as_it_is(node: NodeView, used: int, state: int) -> NodeView:
    if state == DOWN:
        return replace(node, state="down", flags=("down",), gpus_used=used)
    word = "idle" if used == 0 else "allocated" if used == node.num_gpus else "mixed"
    flags = ("powered_down",) if state == ASLEEP else ()
    return replace(node, state=word, flags=flags, gpus_used=used)


def _partitions(cluster: SimCluster) -> tuple[PartitionView, ...]:
    first = cluster.first_node.tolist()
    return tuple(
        PartitionView(name, number == 0, True, tuple(cluster.node_names[begin:end]))
        for number, (name, begin, end) in enumerate(
            zip(cluster.pools, first[:-1], first[1:], strict=True)
        )
    )
