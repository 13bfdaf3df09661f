"""Nodes that sleep: orders to them, what was seen of them, and whom a wake-up has delayed.

Times are epoch seconds.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

from gsched.model.decision import Reason
from gsched.model.journal import ChangeState

MAX_GAP_S = 900
"""After so many seconds without a look at the nodes nobody knows what lies between; counts are kept
more often. So far apart two counts may be for the earlier one to hold until the later one."""


class NodeVerb(enum.Enum):
    """What cluster energy saving asks of a node."""

    SLEEP = "sleep"
    WAKE = "wake"


@dataclass(frozen=True, slots=True)
class NodeOrder:
    """One order to one node. `order_id` is the key under which the log keeps it.

    It is void past `valid_until`: a process that stood still meanwhile drops it.
    """

    order_id: str
    node: str
    pool: str
    verb: NodeVerb
    reason: Reason
    decided_at: int
    valid_until: int


@dataclass(frozen=True, slots=True)
class NodeOrderEntry:
    """An order with its present state (as in the journal of jobs' changes)."""

    order: NodeOrder
    state: ChangeState
    settled_at: int | None = None
    detail: str = ""


class PowerPhase(enum.Enum):
    """What a node without its full use is doing; the time between is AWAKE and not kept."""

    FALLING = "falling"
    ASLEEP = "asleep"
    WAKING = "waking"


class PowerCause(enum.Enum):
    """Who has brought a node into a phase."""

    CES = "ces"  # gsched, by an order
    SLURM = "slurm"  # Slurm's own SuspendTime, or a job that it gave the node to
    OTHERS = "others"  # an administrator, or not known


@dataclass(frozen=True, slots=True)
class PowerSpan:
    """A time that a node has spent in one phase, as rounds have seen it.

    `end` None: it still does. `outcome` says how a WAKING span ended: ``awake``, ``failed``, or
    ``unknown`` where nobody looked. `job`: Slurm's id of the job for which it wakes, "" for none.
    """

    node: str
    pool: str
    phase: PowerPhase
    start: int
    end: int | None
    cause: PowerCause
    outcome: str = ""
    job: str = ""


@dataclass(frozen=True, slots=True)
class PoolCount:
    """How many nodes of a pool were in which state at a moment (and until the next count).

    `running` nodes hold jobs, those that wake for one among them; `excluded` ones are not CES' to
    change, whatever they do, and are in no other count. `wanted`: nodes that jobs waited for.
    """

    pool: str
    time: int
    running: int
    idle: int
    falling: int
    asleep: int
    waking: int
    excluded: int
    wanted: int

    @property
    def total(self) -> int:
        """All nodes of the pool that were not excluded."""
        return self.running + self.idle + self.falling + self.asleep + self.waking


@dataclass(frozen=True, slots=True)
class WakeDelay:
    """A job that had nodes but could not begin because some of them slept.

    `allocated_at` is when Slurm gave it the nodes, `started_at` when all were awake (None: it was
    gone before that). `submit_time` tells the attempt.
    """

    job: str
    submit_time: int
    pool: str
    nodes_waking: int
    allocated_at: int
    started_at: int | None

    @property
    def delay_s(self) -> int | None:
        """For how long it waited for its nodes to wake."""
        return None if self.started_at is None else max(self.started_at - self.allocated_at, 0)
