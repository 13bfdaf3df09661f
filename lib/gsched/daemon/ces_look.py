"""From what Slurm shows to the snapshot that energy saving decides on. Pure.

A node is left alone (`NodeExclusion`) for the site's sake, because it is broken, drained or
reserved, or because somebody else has changed its power: whoever did has a reason.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from gsched.config.node_settings import CesTable
from gsched.daemon.ces_names import unknown_names
from gsched.daemon.ces_orders import OrderBook, SaverTimes
from gsched.daemon.ces_sight import NodeSight, SlurmTime
from gsched.daemon.ces_spans import SpanBook
from gsched.daemon.ces_wanted import Wanted, wanted_nodes
from gsched.engine.node_ports import Outlook, PoolSight
from gsched.model.cluster import PartitionView, ReservationView
from gsched.model.decision import Reason
from gsched.model.hostlist import expand
from gsched.model.node_power import NodeVerb, PowerCause
from gsched.policy.ces_choice import PLANNED, RESERVED
from gsched.policy.ces_state import (
    CesNode,
    CesSettings,
    CesState,
    NodeExclusion,
    NodePower,
    PoolDemand,
)
from gsched.power.state import State, is_node_name
from gsched.slurm.power_saving import PowerSaving
from gsched.slurm.records import QueueRow

SPARE_SHARE = 0.05
"""Idle nodes of a pool that stay awake, where the site names no number."""

_WORKING = frozenset({"idle", "mixed", "allocated", "completing"})
_BROKEN = frozenset({"fail", "invalid_reg", "blocked", "perfctrs"})
_USED_BY_SLURM = frozenset({NodeExclusion.SITE, NodeExclusion.FAILED, NodeExclusion.OTHERS})
_REBOOTS = frozenset({"reboot_requested", "reboot_issued"})


@dataclass(frozen=True, slots=True)
class Ground:
    """All that a look needs besides the nodes themselves.

    `helper_nodes`: the nodes that gsched-helper may switch, None = any. `rows` are the jobs that
    live. `power_state` is what `gsched power` has kept. `switches`: the leaf switch of each node.
    `clock_set_at`: when the clock was last found to have been set. Times of `reservations` and
    `power_state` are Slurm's.
    """

    table: CesTable
    saving: PowerSaving
    rows: Sequence[QueueRow]
    partitions: Sequence[PartitionView] = ()
    reservations: Sequence[ReservationView] = ()
    helper_nodes: frozenset[str] | None = None
    power_state: State = field(default_factory=State)
    switches: Mapping[str, str] = field(default_factory=dict)
    slurm_time: SlurmTime = int
    clock_set_at: int | None = None


@dataclass(frozen=True, slots=True)
class Scene:
    """The snapshot, and what it was made of: wanted nodes, in how many seconds nodes wake, and
    those that have lately failed to. `problem` says why nothing may be ordered by it, "" where it
    may.
    """

    state: CesState
    wanted: Wanted
    leads_s: Mapping[str, int]
    failed: frozenset[str] = frozenset()
    problem: str = ""


def pool_sights(sights: Iterable[NodeSight]) -> dict[str, PoolSight]:
    """The pools of a look, by name."""
    nodes: dict[str, list[str]] = {}
    busy: Counter[str] = Counter()
    for sight in sights:
        nodes.setdefault(sight.pool, []).append(sight.name)
        busy[sight.pool] += sight.is_running
    return {pool: PoolSight(tuple(sorted(names)), busy[pool]) for pool, names in nodes.items()}


def ces_settings(
    table: CesTable, pools: Mapping[str, PoolSight], times: SaverTimes | None = None
) -> CesSettings:
    """The policy's settings from the site's."""
    spare = {
        pool: table.spare if table.spare >= 0 else max(1, math.ceil(SPARE_SHARE * len(seen.nodes)))
        for pool, seen in pools.items()
    }
    return CesSettings(
        spare=spare,
        past_window_s=table.past_window_s,
        future_window_s=table.future_window_s,
        xi_h=table.fall_h,
        xi_p=table.fall_p,
        peak_window_s=table.peak_window_s,
        period_s=table.period_s,
        hold_s=table.hold_s,
        min_idle_s=table.min_idle_s,
        max_sleep=table.max_sleep,
        max_wake=table.max_wake,
        stagger_s=table.stagger_s,
        wakes_ahead=table.wakes_ahead,
        max_failures=table.max_failures,
        max_forecast_age_s=(times or SaverTimes()).max_forecast_age_s,
        least_idle_in_partition=table.least_idle,
    )


def scene_of(
    now: int,
    sights: Sequence[NodeSight],
    ground: Ground,
    spans: SpanBook,
    orders: OrderBook,
    outlooks: Mapping[str, Outlook],
    woken_by_slurm: Mapping[str, int],
) -> Scene:
    """What a look at `now` comes to. `spans` and `orders` have taken it in already."""
    resume_s = length_s(ground.saving.resume_timeout_s, ground.slurm_time)
    leads_s = {pool: spans.wake_lead_s(pool, resume_s) for pool in {s.pool for s in sights}}
    since = now - ground.table.failure_memory_s
    failed_at = _failed_to_wake(ground, spans, since, now)
    failed_to_wake = frozenset(failed_at)
    judge = _Judge(now, ground, spans, orders, leads_s, failed_to_wake)
    nodes = [judge.node(sight) for sight in sights]
    usable = frozenset(node.name for node in nodes if _is_usable(node))
    is_up = {partition.name: partition.is_up for partition in ground.partitions}
    others = frozenset(
        node.name
        for node, sight in zip(nodes, sights, strict=True)
        if node.exclusion in _USED_BY_SLURM and _is_free(sight)
    )
    wanted = wanted_nodes(ground.rows, sights, usable, is_up, others)
    demands = {
        pool: PoolDemand(
            wanted=wanted.nodes.get(pool, 0),
            past=outlook.past,
            step_s=outlook.step_s,
            forecast=outlook.forecast,
            why=outlook.why,
            wake_lead_s=leads_s[pool],
            woken_by_slurm=woken_by_slurm.get(pool, 0),
        )
        for pool, outlook in outlooks.items()
        if pool in leads_s
    }
    stopped = ground.power_state.stopped
    counted_from = ground.slurm_time(int(ground.power_state.counted_from))
    state = CesState(
        now=now,
        nodes=nodes,
        demands=demands,
        blocks=wanted.blocks,
        wake_failures=sum(at >= counted_from for at in failed_at.values()),
        stopped=stopped.why if stopped is not None else "",
    )
    partitions = is_up.keys() | {name for sight in sights for name in sight.view.partitions}
    problem = unknown_names(ground.table, {sight.name for sight in sights}, partitions)
    return Scene(state, wanted, leads_s, failed_to_wake, problem)


def length_s(seconds: int, slurm_time: SlurmTime) -> int:
    """A time-out of Slurm's in seconds of the clock."""
    return slurm_time(seconds) - slurm_time(0)


def _failed_to_wake(ground: Ground, spans: SpanBook, since: int, now: int) -> dict[str, int]:
    """When each node last failed to wake, as Slurm has shown it or `gsched power` has kept it.

    Not those that have woken since, nor what an administrator has had forgotten.
    """
    state, found = ground.power_state, dict[str, int]()
    for node in spans.failed(since, now):
        at = spans.failed_at(node)
        if at is not None and at > ground.slurm_time(int(state.last_cleared(node))):
            found[node] = at
    for failure in state.failures:
        at = ground.slurm_time(int(failure.at))
        woken = spans.woken_at(failure.node)
        if woken is not None and woken[0] > at:
            continue
        if failure.verb != "suspend" and since <= at <= now:
            found[failure.node] = max(at, found.get(failure.node, at))
    return found


def _is_free(sight: NodeSight) -> bool:
    """Whether Slurm could start a job on the whole node now."""
    return sight.power is NodePower.AWAKE and not sight.is_running and sight.view.is_usable


def _is_usable(node: CesNode) -> bool:
    """Whether a job could begin on the whole node, now or once it is awake."""
    if node.exclusion is not None or node.is_running or node.power is NodePower.FALLING:
        return False
    return node.power is not NodePower.ASLEEP or node.keep is None


class _Judge:
    """Says of each node what energy saving may do to it."""

    def __init__(
        self,
        now: int,
        ground: Ground,
        spans: SpanBook,
        orders: OrderBook,
        leads_s: Mapping[str, int],
        failed_to_wake: frozenset[str],
    ) -> None:
        table = ground.table
        self._now = now
        self._ground = ground
        self._spans = spans
        self._orders = orders
        self._leads_s = leads_s
        self._failed = failed_to_wake | ground.power_state.failed_nodes
        self._site = ground.saving.excluded_nodes | {
            name for host_list in table.exclude_nodes for name in expand(host_list)
        }
        self._partitions = frozenset(table.partitions)
        self._ordered = {e.order.node: e.order.verb for e in orders.open.values()}
        self._reserved: dict[str, list[tuple[int, str]]] = {}
        for held in ground.reservations:
            if now < ground.slurm_time(held.end_time):
                start = ground.slurm_time(held.start_time)
                for name in held.nodes:
                    self._reserved.setdefault(name, []).append((start, held.name))

    def node(self, sight: NodeSight) -> CesNode:
        """The node as the policy sees it."""
        name, power = sight.name, sight.power
        reservation = self._reservation(sight)
        exclusion = self._exclusion(sight, reservation is not None)
        due = None
        if (
            exclusion is NodeExclusion.RESERVED
            and reservation is not None
            and power is NodePower.ASLEEP
            and self._spans.cause(name) is PowerCause.CES
        ):
            due = Reason(RESERVED, {"reservation": reservation[1], "start": reservation[0]})
        ordered = self._ordered.get(name)
        if ordered is NodeVerb.SLEEP and power is NodePower.AWAKE:
            power = NodePower.FALLING  # Slurm does not show it yet
        elif ordered is NodeVerb.WAKE and power is NodePower.ASLEEP:
            power = NodePower.WAKING
        return CesNode(
            name=name,
            pool=sight.pool,
            power=power,
            is_running=sight.is_running,
            idle_since=self._idle_since(sight),
            partitions=sight.view.partitions,
            switch=self._ground.switches.get(name, ""),
            power_cycles=self._spans.power_cycles[name],
            exclusion=exclusion,
            keep=self._keep(sight),
            due=due,
        )

    def _exclusion(self, sight: NodeSight, is_reserved: bool) -> NodeExclusion | None:
        flags, state = sight.flags, sight.view.state
        if self._is_sites(sight):
            return NodeExclusion.SITE
        if sight.failed_to_wake or sight.name in self._failed:
            return NodeExclusion.FAILED
        is_drained = "drain" in flags or state in {"drained", "draining"}
        if is_drained and sight.power is not NodePower.FALLING:  # power_down_asap drains for a time
            return NodeExclusion.DRAINED
        is_mute = "not_responding" in flags and sight.power is NodePower.AWAKE
        if sight.is_down or is_mute or flags & _BROKEN or not (state in _WORKING or is_drained):
            return NodeExclusion.DOWN
        if is_reserved or flags & {"maint", "reserved"}:
            return NodeExclusion.RESERVED
        return NodeExclusion.OTHERS if self._is_others(sight) else None

    def _is_sites(self, sight: NodeSight) -> bool:
        ground, partitions = self._ground, set(sight.view.partitions)
        saving, helper_nodes = ground.saving, ground.helper_nodes
        return (
            not is_node_name(sight.name)
            or (helper_nodes is not None and sight.name not in helper_nodes)
            or sight.name in self._site
            or bool(saving.problem)
            or not partitions
            or bool(self._partitions and not partitions <= self._partitions)
            or bool(partitions & saving.excluded_partitions)
            or bool(saving.excluded_states & {sight.view.state, *sight.flags})
        )

    def _is_others(self, sight: NodeSight) -> bool:
        """Whether another hand is changing, or has changed, the node's power."""
        if sight.flags & _REBOOTS:
            return True
        if sight.power in (NodePower.FALLING, NodePower.ASLEEP):
            return self._spans.cause(sight.name) is not PowerCause.CES
        if sight.power is NodePower.WAKING:
            is_others = self._spans.cause(sight.name) is PowerCause.OTHERS
            return is_others and not sight.is_running
        woken = self._spans.woken_at(sight.name)
        if woken is None or woken[1] is not PowerCause.OTHERS:
            return False
        return 0 <= self._now - woken[0] < self._ground.table.hold_s

    def _reservation(self, sight: NodeSight) -> tuple[int, str] | None:
        """The reservation of the node that is active, or begins before it could wake."""
        ahead_s = self._leads_s[sight.pool] + self._ground.table.period_s
        return self._next_reservation(sight, ahead_s)

    def _next_reservation(self, sight: NodeSight, ahead_s: int) -> tuple[int, str] | None:
        near = [r for r in self._reserved.get(sight.name, ()) if r[0] <= self._now + ahead_s]
        return min(near, default=None)

    def _keep(self, sight: NodeSight) -> Reason | None:
        """Why the node is left as it is, though it is of use."""
        if sight.power is NodePower.ASLEEP:
            return self._orders.keep(sight.name, NodeVerb.WAKE, self._now)
        if "planned" in sight.flags:  # the backfill scheduler means it for a waiting job
            return Reason(PLANNED)
        table = self._ground.table
        ahead_s = self._leads_s[sight.pool] + table.period_s + table.min_idle_s
        if (soon := self._next_reservation(sight, ahead_s)) is not None:  # would wake it again
            return Reason(RESERVED, {"reservation": soon[1], "start": soon[0]})
        return self._orders.keep(sight.name, NodeVerb.SLEEP, self._now)

    def _idle_since(self, sight: NodeSight) -> int | None:
        """Since when no job has run on it; None where Slurm does not tell."""
        if sight.last_busy_time is None:
            return None
        woken = self._spans.woken_at(sight.name)
        times = (
            sight.boot_time,  # the node's own clock
            woken[0] if woken is not None else None,
            self._ground.clock_set_at,
        )
        known = (at for at in times if at is not None and at <= self._now)
        return max((sight.last_busy_time, *known))
