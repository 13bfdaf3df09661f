"""Cluster energy saving: which idle nodes sleep, and who is woken (Helios, SC'21, section 4.3).

One object for the simulator and a live cluster: it takes a snapshot and a memory and gives back a
decision and a memory, with a reason for every number and every node. ``ces_rule`` says how many,
``ces_choice`` which. Where only numbers are known, as in a series of node counts, `size` is asked
alone.
"""

from __future__ import annotations

from collections.abc import Sequence

from gsched.model.decision import Reason
from gsched.policy.ces_choice import Spare, can_wake, obstacle, to_sleep, to_wake
from gsched.policy.ces_rule import room_of, size
from gsched.policy.ces_state import (
    CesDecision,
    CesMemory,
    CesNode,
    CesSettings,
    CesState,
    NodeChange,
    NodePower,
    PoolDemand,
    PoolLook,
    PoolVerdict,
    Room,
)

NO_DEMAND = "ces.demand-unknown"

_UNKNOWN = PoolDemand(0, (), 600, None, Reason(NO_DEMAND))


class Ces:
    """Cluster energy saving with given settings. Pure: nothing is kept between two questions."""

    def __init__(self, settings: CesSettings | None = None) -> None:
        self.settings = settings or CesSettings()

    def size(
        self, look: PoolLook, memory: CesMemory, now: int, wake_failures: int = 0
    ) -> tuple[PoolVerdict, CesMemory]:
        """How many nodes of one pool to wake or put to sleep at `now` (epoch seconds)."""
        return size(look, self.settings, memory, now, room_of(self.settings), wake_failures)

    def decide(self, state: CesState, memory: CesMemory) -> CesDecision:
        """Which nodes of all pools to wake and to put to sleep.

        The caps on changes a round hold for all pools together; nodes that are due come first, then
        pools with a shortage. A pool of which no demand is told is left as it is.
        """
        pools: dict[str, list[CesNode]] = {}
        for node in state.nodes:
            pools.setdefault(node.pool, []).append(node)
        memory = memory.as_of(state.now, pools)
        looks = {
            name: self._look(name, pools[name], state.demands.get(name, _UNKNOWN), state.now)
            for name in sorted(pools)
        }
        order = sorted(looks, key=lambda name: (-_shortage(looks[name]), name))
        spare = Spare(state.nodes, state.blocks, self.settings)
        wake = _due(state.nodes, room_of(self.settings))
        sleep: list[NodeChange] = []
        kept: dict[str, Reason] = {}
        verdicts: list[PoolVerdict] = []
        for name in order:
            verdict = PoolVerdict(name, 0, 0, Reason(NO_DEMAND))
            if name in state.demands:
                room = _left(room_of(self.settings), len(wake), len(sleep))
                verdict, memory = size(
                    looks[name],
                    self.settings,
                    memory,
                    state.now,
                    room,
                    state.wake_failures,
                    state.stopped,
                )
            verdicts.append(verdict)
            wake += to_wake(pools[name], name, verdict.wake, state.blocks)
            chosen, others = to_sleep(
                pools[name], name, verdict.sleep, spare, self.settings, state.now
            )
            sleep += chosen
            kept.update(others)
        return CesDecision(
            tuple(wake), tuple(sleep), tuple(verdicts), kept, memory, self._next(memory, state.now)
        )

    def look(self, state: CesState, pool: str) -> PoolLook:
        """A pool of the snapshot by numbers."""
        nodes = [node for node in state.nodes if node.pool == pool]
        return self._look(pool, nodes, state.demands.get(pool, _UNKNOWN), state.now)

    def _look(self, pool: str, nodes: Sequence[CesNode], demand: PoolDemand, now: int) -> PoolLook:
        running = [node for node in nodes if node.is_running]
        free = [node for node in nodes if not node.is_running and node.exclusion is None]
        idle = [node for node in free if node.power is NodePower.AWAKE]
        busy_excluded = sum(node.exclusion is not None for node in running)
        return PoolLook(
            pool=pool,
            running=len(running) - busy_excluded,
            idle=len(idle),
            sleepable=sum(obstacle(node, self.settings, now) is None for node in idle),
            waking=sum(node.power is NodePower.WAKING for node in free),
            asleep=sum(map(can_wake, free)),
            demand=demand,
            busy_excluded=busy_excluded,
        )

    def _next(self, memory: CesMemory, now: int) -> int:
        """The next periodic check of a pool, or the next nodes of a staggered wake-up."""
        checks = [moment + self.settings.period_s for moment in memory.last_check.values()]
        wakes = [memory.last_wake.get(p, now) + self.settings.stagger_s for p in memory.owed]
        later = [moment for moment in (*checks, *wakes) if moment > now]
        return min(later, default=now + self.settings.period_s)


def _shortage(look: PoolLook) -> int:
    return look.demand.wanted - look.idle - look.waking


def _left(room: Room, woken: int, slept: int) -> Room:
    return Room(
        None if room.wake is None else max(room.wake - woken, 0),
        None if room.sleep is None else max(room.sleep - slept, 0),
    )


def _due(nodes: Sequence[CesNode], room: Room) -> list[NodeChange]:
    """Nodes that have to wake whatever their pools need."""
    found = [
        NodeChange(node.name, node.pool, node.due)
        for node in nodes
        if node.due is not None and node.power is NodePower.ASLEEP and node.keep is None
    ]
    return found[: room.wake]
