"""What cluster energy saving looks at and answers: nodes, pools, settings, memory, decisions.

A *pool* is a set of nodes that can stand in for each other: one node type, as a rule. Every node
belongs to one pool and to any number of partitions. Times are epoch seconds.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

from gsched.model.decision import JsonValue, Reason
from gsched.model.demand_forecast import DemandForecast


class NodePower(enum.Enum):
    """FALLING and WAKING nodes are on their way; neither can be used yet, or any more."""

    AWAKE = "awake"
    FALLING = "falling"
    ASLEEP = "asleep"
    WAKING = "waking"


class NodeExclusion(enum.Enum):
    """Why a node is not CES' to put to sleep or wake."""

    RESERVED = "reserved"  # for a reservation that is active or begins within the wake lead time
    DRAINED = "drained"
    DOWN = "down"
    FAILED = "failed-recently"  # did not wake, or failed, a short while ago
    SITE = "excluded-by-site"
    OTHERS = "power-changed-by-others"  # another hand, or Slurm itself, is changing its state


@dataclass(frozen=True, slots=True)
class CesNode:
    """One node. `switch` is where it hangs (rack or leaf switch, "" = not known).

    `is_running`: a job holds some of it. `idle_since` is when it last became idle, or woke up.
    `power_cycles` counts how often it was woken: what wears it. `keep` says why it is left as it is
    for now though it counts in its pool. `due` says why it has to wake now, excluded or not.
    """

    name: str
    pool: str
    power: NodePower
    is_running: bool = False
    idle_since: int | None = None
    partitions: tuple[str, ...] = ()
    switch: str = ""
    power_cycles: int = 0
    exclusion: NodeExclusion | None = None
    keep: Reason | None = None
    due: Reason | None = None


@dataclass(frozen=True, slots=True)
class PoolDemand:
    """What is wanted of a pool.

    `wanted` are the nodes that jobs wait for which could start if these were awake. `past` are the
    running nodes at the ends of the last steps (their peaks, the latest last). `why` says where
    `forecast` comes from, or why there is none. `wake_lead_s` is how long a node takes to wake.
    `woken_by_slurm` nodes were asleep at the last look, and Slurm has given them to jobs since.
    Excluded nodes that run jobs are in `past` and `forecast`.
    """

    wanted: int
    past: tuple[float, ...]
    step_s: int
    forecast: DemandForecast | None
    why: Reason
    wake_lead_s: int = 300
    woken_by_slurm: int = 0


@dataclass(frozen=True, slots=True)
class BlockNeed:
    """A pending job that needs `num_nodes` of a pool close together."""

    job: str
    pool: str
    num_nodes: int


@dataclass(frozen=True, slots=True)
class CesState:
    """The snapshot. `wake_failures` are nodes that lately did not wake when they were told to.

    `stopped` says why whoever switches nodes puts none to sleep any more, "" = they do.
    """

    now: int
    nodes: Sequence[CesNode]
    demands: Mapping[str, PoolDemand]
    blocks: Sequence[BlockNeed] = ()
    wake_failures: int = 0
    stopped: str = ""


@dataclass(frozen=True, slots=True)
class CesSettings:
    """How CES saves.

    `sigma` idle nodes stay awake (σ of the paper), `wake_sigma` are woken beyond a shortage; of the
    pools in `spare`, the number there is both. Nodes
    are put to sleep at most every `period_s`, only when the mean demand of the last `past_window_s`
    exceeds that of now by `xi_h` nodes and that of now the mean forecast of the next
    `future_window_s` by `xi_p` (negative: it may be so much below), when the mean forecast of twice
    that window exceeds that of the window by no more than `max_rise`, and not within `hold_s` of a
    wake-up. `peak_window_s` > 0: what the forecast's upper bound says may be needed by then stays
    awake as well. A node sleeps after `min_idle_s` of idleness. Less than `min_change` nodes are
    not worth a change (hysteresis). One round puts at most `max_sleep` nodes to sleep and wakes at
    most `max_wake` (0 = any number); the rest follows `stagger_s` later. With `wakes_ahead` what
    the upper bound says may be needed before a node could wake is woken before anybody waits. With
    `max_failures` nodes that did not wake all sleeping stops (0: never). A forecast older than
    `max_forecast_age_s` is none. Without `needs_forecast` the
    forecast's conditions fall away: what is left is reactive sleep.

    The paper has `xi_h` and `xi_p` 0, and its code `max_rise` 0. The defaults of this class were
    chosen on Philly's October and November 2017 (``tests/results/ces_series.json``). Those of [ces]
    differ: they wake ahead, with a `peak_window_s` and a spare by the size of the pool, and were
    measured beside them.
    """

    sigma: int = 20
    wake_sigma: int = 20
    past_window_s: int = 3600
    future_window_s: int = 3 * 3600
    xi_h: float = -1.0
    xi_p: float = -1.0
    max_rise: float = math.inf
    peak_window_s: int = 0
    period_s: int = 600
    hold_s: int = 7200
    min_idle_s: int = 7200
    min_change: int = 1
    max_sleep: int = 10
    max_wake: int = 0
    stagger_s: int = 60
    wakes_ahead: bool = False
    needs_forecast: bool = True
    max_forecast_age_s: int = 1800
    max_failures: int = 3
    least_idle: Mapping[str, int] = field(default_factory=dict)
    """Idle nodes of a pool that never sleep, by its name."""
    least_idle_in_partition: Mapping[str, int] = field(default_factory=dict)
    spare: Mapping[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        counts = [each for each in fields(self) if each.type == "int"]
        negative = [each.name for each in counts if getattr(self, each.name) < 0]
        if negative:
            raise ValueError(f"negative: {', '.join(negative)}")
        if not self.period_s or not self.future_window_s:
            raise ValueError("period_s and future_window_s are at least a second")

    def sigma_of(self, pool: str) -> int:
        """Idle nodes of a pool that stay awake."""
        return self.spare.get(pool, self.sigma)

    def wake_sigma_of(self, pool: str) -> int:
        """Nodes of a pool that are woken beyond a shortage."""
        return self.spare.get(pool, self.wake_sigma)


@dataclass(frozen=True, slots=True)
class CesMemory:
    """What has to be known the next time, by pool: the last wake-up and check, and nodes still to
    be woken of a wake-up that was staggered.
    """

    last_wake: Mapping[str, int] = field(default_factory=dict)
    last_check: Mapping[str, int] = field(default_factory=dict)
    owed: Mapping[str, int] = field(default_factory=dict)

    def as_of(self, now: int, pools: Collection[str]) -> CesMemory:
        """The same without other pools, and with no time after `now`: clocks are set back."""
        kept = {each.name: getattr(self, each.name) for each in fields(self)}
        only = {
            name: {pool: value for pool, value in column.items() if pool in pools}
            for name, column in kept.items()
        }
        times = {
            name: {pool: min(at, now) for pool, at in only[name].items()}
            for name in ("last_wake", "last_check")
        }
        return CesMemory(**{**only, **times})

    def owing(self, unwoken: Mapping[str, int]) -> CesMemory:
        """The same where so many nodes of pools that were to be woken have not been."""
        if not unwoken:
            return self
        more = {pool: self.owed.get(pool, 0) + number for pool, number in unwoken.items()}
        return replace(self, owed={**self.owed, **more})

    def to_json(self) -> dict[str, JsonValue]:
        """As JSON values."""
        return {each.name: dict(getattr(self, each.name)) for each in fields(self)}

    @classmethod
    def from_json(cls, kept: Mapping[str, Any]) -> CesMemory:
        """What `to_json` gave. Raises ValueError for anything else."""
        read: dict[str, dict[str, int]] = {}
        for each in fields(cls):
            column = kept.get(each.name, {})
            if not isinstance(column, Mapping) or not all(
                isinstance(name, str) and type(value) is int for name, value in column.items()
            ):
                raise ValueError(f"{each.name} of the kept memory is no table of whole numbers")
            read[each.name] = dict(column)
        return cls(**read)


@dataclass(frozen=True, slots=True)
class Room:
    """How many nodes may still be changed in this round; None: any number."""

    wake: int | None = None
    sleep: int | None = None


@dataclass(frozen=True, slots=True)
class PoolLook:
    """A pool by numbers: all that is needed to say how many. Excluded nodes do not count.

    `running` nodes hold jobs, those that wake for one among them, `idle` ones could take one now,
    `sleepable` of them have been idle for long enough. `waking` ones will be idle then, `asleep`
    ones could be woken. `busy_excluded`: excluded nodes that hold jobs.
    """

    pool: str
    running: int
    idle: int
    sleepable: int
    waking: int
    asleep: int
    demand: PoolDemand
    busy_excluded: int = 0


@dataclass(frozen=True, slots=True)
class PoolVerdict:
    """How many nodes of a pool to wake or put to sleep (never both), and why."""

    pool: str
    wake: int
    sleep: int
    reason: Reason


@dataclass(frozen=True, slots=True)
class NodeChange:
    """One node to wake or to put to sleep, and why this one."""

    node: str
    pool: str
    reason: Reason


@dataclass(frozen=True, slots=True)
class CesDecision:
    """The answer to one snapshot.

    `kept` tells of every node that stays awake why it does. `next_check` is when CES wants to be
    asked again, if nothing happens before.
    """

    wake: tuple[NodeChange, ...]
    sleep: tuple[NodeChange, ...]
    verdicts: tuple[PoolVerdict, ...]
    kept: Mapping[str, Reason]
    memory: CesMemory
    next_check: int
