"""Which nodes wake or sleep, once it is known how many.

To sleep: from the emptiest switch first, so that whole racks go dark; among equals those that were
woken least often. Never one of a block that a large pending job needs, and never below the idle
nodes that a partition must keep. To wake: first what completes such a block, then on the switches
that are awake already, the least worn first.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from gsched.model.decision import JsonValue, Reason
from gsched.policy.ces_state import (
    BlockNeed,
    CesNode,
    CesSettings,
    NodeChange,
    NodePower,
)

SLEEP = "ces.put-to-sleep"
WAKE = "ces.woken"
RUNNING = "ces.runs-jobs"
EXCLUDED = "ces.excluded"
CHANGING = "ces.power-changes"
SHORT_IDLE = "ces.idle-too-short"
BLOCK = "ces.block-of-a-pending-job"
PARTITION = "ces.partition-keeps-idle-nodes"
SPARE = "ces.kept-as-spare"
PLANNED = "ces.planned-for-a-job"
RETRY = "ces.order-failed-lately"
RESERVED = "ces.reserved-soon"


def obstacle(node: CesNode, settings: CesSettings, now: int) -> Reason | None:
    """Why a node that is not asleep cannot be put to sleep now, whatever its pool needs."""
    if node.exclusion is not None:
        return Reason(EXCLUDED, {"exclusion": node.exclusion.value})
    if node.power is not NodePower.AWAKE:
        return Reason(CHANGING, {"power": node.power.value})
    if node.is_running:
        return Reason(RUNNING)
    if node.keep is not None:
        return node.keep
    if node.idle_since is None or now - node.idle_since < settings.min_idle_s:
        return Reason(SHORT_IDLE, {"idle_since": node.idle_since, "min_s": settings.min_idle_s})
    return None


def can_wake(node: CesNode) -> bool:
    """Whether a node is asleep and CES' to wake now."""
    return node.exclusion is None and node.power is NodePower.ASLEEP and node.keep is None


def protected(nodes: Iterable[CesNode], blocks: Sequence[BlockNeed]) -> Mapping[str, str]:
    """Idle nodes that pending jobs need close together → the job.

    The largest job first; each on the switch that it fills best, or where none is large enough on
    the fewest that hold it.
    """
    free = [node for node in nodes if _is_free(node)]
    taken: dict[str, str] = {}
    for block in sorted(blocks, key=lambda each: (-each.num_nodes, each.job)):
        left = [each for each in free if each.pool == block.pool and each.name not in taken]
        for node in _block_of(left, block.num_nodes):
            taken[node.name] = block.job
    return taken


def to_sleep(
    nodes: Sequence[CesNode],
    pool: str,
    number: int,
    spare: Spare,
    settings: CesSettings,
    now: int,
) -> tuple[list[NodeChange], dict[str, Reason]]:
    """At most `number` nodes of a pool, and why each other awake node of it stays awake."""
    own = [node for node in nodes if node.pool == pool]
    kept: dict[str, Reason] = {}
    changes: list[NodeChange] = []
    running = Counter(node.switch for node in own if node.is_running)
    idle = Counter(node.switch for node in own if _is_free(node))

    def place(node: CesNode) -> tuple[int, int, str, int, str]:
        return running[node.switch], idle[node.switch], node.switch, node.power_cycles, node.name

    for node in sorted((each for each in own if each.power is not NodePower.ASLEEP), key=place):
        why = obstacle(node, settings, now) or spare.objection(node)
        if why is None and len(changes) >= number:
            why = Reason(SPARE)
        if why is not None:
            kept[node.name] = why
            continue
        spare.take(node)
        told: dict[str, JsonValue] = {
            "switch": node.switch,
            "running_there": running[node.switch],
            "power_cycles": node.power_cycles,
        }
        changes.append(NodeChange(node.name, pool, Reason(SLEEP, told)))
    return changes, kept


def to_wake(
    nodes: Sequence[CesNode], pool: str, number: int, blocks: Sequence[BlockNeed]
) -> list[NodeChange]:
    """At most `number` nodes of a pool that are asleep and can be woken."""
    own = [node for node in nodes if node.pool == pool and node.exclusion is None]
    asleep = [node for node in own if can_wake(node)]
    usable = Counter(
        node.switch
        for node in own
        if _is_free(node) or (node.power is NodePower.WAKING and not node.is_running)
    )
    awake = Counter(node.switch for node in own if node.power is not NodePower.ASLEEP)
    chosen: dict[str, str] = {}
    for block in sorted(blocks, key=lambda each: (-each.num_nodes, each.job)):
        if block.pool == pool:
            left = [each for each in asleep if each.name not in chosen]
            switch, completing = _completing(left, usable, block.num_nodes)
            chosen.update(dict.fromkeys(completing, block.job))
            usable[switch] -= block.num_nodes - len(completing)  # no other block's any more

    def place(node: CesNode) -> tuple[bool, int, str, int, str]:
        is_spare = node.name not in chosen
        return is_spare, -awake[node.switch], node.switch, node.power_cycles, node.name

    return [
        NodeChange(
            node.name,
            pool,
            Reason(
                WAKE,
                {
                    "switch": node.switch,
                    "power_cycles": node.power_cycles,
                    "job": chosen.get(node.name, ""),
                },
            ),
        )
        for node in sorted(asleep, key=place)[:number]
    ]


class Spare:
    """What must stay: blocks of pending jobs, and idle nodes by partition."""

    def __init__(
        self, nodes: Sequence[CesNode], blocks: Sequence[BlockNeed], settings: CesSettings
    ) -> None:
        self._blocks = protected(nodes, blocks)
        self._least = settings.least_idle_in_partition
        self._idle = Counter(
            partition for node in nodes if _is_free(node) for partition in node.partitions
        )

    def objection(self, node: CesNode) -> Reason | None:
        """Why an idle node has to stay awake; None where it may sleep."""
        if node.name in self._blocks:
            return Reason(BLOCK, {"job": self._blocks[node.name]})
        for partition in node.partitions:
            if self._idle[partition] <= self._least.get(partition, 0):
                return Reason(PARTITION, {"partition": partition, "least": self._least[partition]})
        return None

    def take(self, node: CesNode) -> None:
        """One idle node less in its partitions."""
        self._idle.subtract(node.partitions)


def _is_free(node: CesNode) -> bool:
    """Whether a job could start on the whole node now."""
    return node.exclusion is None and node.power is NodePower.AWAKE and not node.is_running


def _block_of(free: Sequence[CesNode], number: int) -> list[CesNode]:
    by_switch: dict[str, list[CesNode]] = {}
    for node in sorted(free, key=lambda each: each.name):
        by_switch.setdefault(node.switch, []).append(node)
    fitting = [group for group in by_switch.values() if len(group) >= number]
    if fitting:
        return min(fitting, key=len)[:number]
    chosen: list[CesNode] = []
    for group in sorted(by_switch.values(), key=len, reverse=True):
        chosen += group[: number - len(chosen)]
    return chosen


def _completing(
    asleep: Sequence[CesNode], usable: Counter[str], number: int
) -> tuple[str, list[str]]:
    """The switch that holds the block when the fewest wake, and who has to: nobody where no switch
    could hold it, or one does already.
    """
    by_switch: dict[str, list[CesNode]] = {}
    for node in sorted(asleep, key=lambda each: (each.power_cycles, each.name)):
        by_switch.setdefault(node.switch, []).append(node)
    missing = {
        switch: max(number - usable[switch], 0)
        for switch in {*usable, *by_switch}
        if len(by_switch.get(switch, ())) + usable[switch] >= number
    }
    if not missing:
        return "", []
    switch = min(missing, key=lambda each: (missing[each], each))
    return switch, [node.name for node in by_switch.get(switch, [])[: missing[switch]]]
