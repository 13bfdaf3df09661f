"""What is kept of each look: how many nodes were in which state, and jobs that a wake-up delayed.

Pure: what is to be kept is handed out. ``ces_spans`` tells what single nodes did.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from gsched.daemon.ces_sight import NodeSight, SlurmTime
from gsched.model.job import JobState
from gsched.model.node_power import PoolCount, WakeDelay
from gsched.policy.ces_state import CesNode, NodePower
from gsched.slurm.records import QueueRow

_HOLDING = frozenset({JobState.RUNNING, JobState.SUSPENDED, JobState.COMPLETING})


def counts_of(
    now: int, nodes: Sequence[CesNode], wanted: Mapping[str, int]
) -> dict[str, PoolCount]:
    """How many nodes of each pool are in which state."""
    found: dict[str, dict[str, int]] = {}
    for node in nodes:
        states = found.setdefault(node.pool, {})
        state = _state(node)
        states[state] = states.get(state, 0) + 1
    return {
        pool: PoolCount(
            pool=pool,
            time=now,
            running=states.get("running", 0),
            idle=states.get("idle", 0),
            falling=states.get("falling", 0),
            asleep=states.get("asleep", 0),
            waking=states.get("waking", 0),
            excluded=states.get("excluded", 0),
            wanted=wanted.get(pool, 0),
        )
        for pool, states in found.items()
    }


def _state(node: CesNode) -> str:
    if node.exclusion is not None:
        return "excluded"
    if node.is_running:
        return "running"
    return "idle" if node.power is NodePower.AWAKE else node.power.value


class CountBook:
    """Which counts are worth keeping: those that differ, and one now and then."""

    def __init__(self, every_s: int) -> None:
        """An unchanged count is kept again after `every_s` seconds, so that a gap is a gap."""
        self._every_s = every_s
        self._kept: dict[str, PoolCount] = {}

    def fresh(self, counts: Mapping[str, PoolCount]) -> list[PoolCount]:
        """Those of these that are to be kept."""
        found = []
        for pool, count in counts.items():
            before = self._kept.get(pool)
            if (
                before is None
                or not 0 <= count.time - before.time < self._every_s
                or replace(before, time=count.time) != count
            ):
                found.append(count)
        self._kept = {pool: self._kept.get(pool, count) for pool, count in counts.items()}
        self._kept |= {count.pool: count for count in found}
        return found


class DelayBook:
    """Jobs that were given nodes which had to wake first."""

    def __init__(self, under_way: Iterable[WakeDelay]) -> None:
        """`under_way`: delays of the last days whose jobs have not begun."""
        self._open = {d.job: d for d in under_way if d.started_at is None}
        self._holding: frozenset[tuple[str, int]] | None = None

    def see(
        self,
        now: int,
        last_look: int | None,
        rows: Iterable[QueueRow],
        sights: Mapping[str, NodeSight],
        slept: frozenset[str],
        slurm_time: SlurmTime,
    ) -> list[WakeDelay]:
        """What a look at the jobs that live (`rows`) tells anew.

        `slept` are nodes that were falling, asleep or waking at the look before. Where a job had
        its nodes before anybody saw it wait for them, the time is taken since the look before, or
        since it could have begun: rather too long than too short.
        """
        holding = {row.slurm_id: row for row in rows if row.state in _HOLDING}
        changed = []
        for job, delay in list(self._open.items()):
            row = holding.get(job)
            if row is None or row.submit_time != delay.submit_time:
                del self._open[job]  # gone before it began, or requeued
            elif not _waits_for_nodes(row, sights):
                del self._open[job]
                changed.append(replace(delay, started_at=_began(row, slurm_time, now, delay)))
        for row in holding.values():
            is_new = self._holding is not None and _attempt(row) not in self._holding
            configures = row.state_text == "CONFIGURING"
            if row.slurm_id in self._open or not (is_new or configures):
                continue
            found = _delay(row, now, last_look, sights, slept, slurm_time)
            if found is None:
                continue
            changed.append(found)
            if found.started_at is None:
                self._open[row.slurm_id] = found
        self._holding = frozenset(map(_attempt, holding.values()))
        return changed


def _attempt(row: QueueRow) -> tuple[str, int]:
    return row.slurm_id, row.submit_time


def _waits_for_nodes(row: QueueRow, sights: Mapping[str, NodeSight]) -> bool:
    return row.state_text == "CONFIGURING" or any(
        sights[name].power is NodePower.WAKING for name in row.hosts or () if name in sights
    )


def _delay(
    row: QueueRow,
    now: int,
    last_look: int | None,
    sights: Mapping[str, NodeSight],
    slept: frozenset[str],
    slurm_time: SlurmTime,
) -> WakeDelay | None:
    """The delay of a job that has got its nodes since the look before, or waits for them to wake;
    None where all were awake.
    """
    hosts = sorted(name for name in row.hosts or () if name in sights)
    woken = [name for name in hosts if name in slept or sights[name].power is NodePower.WAKING]
    if not woken:
        return None
    waits = _waits_for_nodes(row, sights)
    start = now if row.start_time is None else min(slurm_time(row.start_time), now)
    allocated_at = start
    if not waits:  # Slurm sets the start anew when the last node is awake
        eligible = start if row.eligible_time is None else slurm_time(row.eligible_time)
        allocated_at = min(max(eligible, start if last_look is None else last_look), start)
    return WakeDelay(
        job=row.slurm_id,
        submit_time=row.submit_time,  # as the history has it
        pool=sights[woken[0]].pool,
        nodes_waking=len(woken),
        allocated_at=allocated_at,
        started_at=None if waits else start,
    )


def _began(row: QueueRow, slurm_time: SlurmTime, now: int, delay: WakeDelay) -> int:
    start = now if row.start_time is None else min(slurm_time(row.start_time), now)
    return max(start, delay.allocated_at)


def jobs_on(rows: Iterable[QueueRow], nodes: Collection[str]) -> dict[str, str]:
    """Which job holds each of these nodes, if one does."""
    if not nodes:
        return {}
    return {
        host: row.slurm_id
        for row in rows
        if row.node_list and row.state is not JobState.PENDING
        for host in row.hosts or ()
        if host in nodes
    }
