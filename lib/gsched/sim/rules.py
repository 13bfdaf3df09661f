"""What a simulation assumes beyond jobs, nodes and policy; every report prints it."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field

from gsched.sim.jobs import Floats


class Placement(enum.Enum):
    """Which of the nodes that fit a job gets.

    CONSOLIDATED: as few nodes as its size allows; the fullest node that still fits, the first of
    equals; wholly free nodes for what fills nodes, and what is left over on the freest of the
    others. SPREAD: the emptiest nodes, but no more of them. TOPOLOGY: consolidated, and a job on
    several nodes takes those of one switch where it can; otherwise the switches with the most
    room, which are few. GPUs of one type wherever they fit on it, the fastest type first.
    """

    CONSOLIDATED = "consolidated"
    SPREAD = "spread"
    TOPOLOGY = "topology"


class Scheduler(enum.Enum):
    """Who starts jobs: PLAIN carries out the policy's own discipline, SLURM its order alone.

    SLURM stands for Slurm's main and backfill schedulers: no preemption, EASY backfill by time
    limits. EASY delays the first waiting job never, those behind it perhaps; Slurm's backfill is
    conservative (no job of higher priority that it looks at is delayed) and looks at intervals.
    """

    PLAIN = "plain"
    SLURM = "slurm"


@dataclass(frozen=True, slots=True)
class Costs:
    """Seconds that a job holds its GPUs without progress.

    `launch_s` before and `cleanup_s` after each attempt; `checkpoint_s` when it is preempted;
    `restart_s` when it starts again, `restart_wide_s` instead on more than one node and
    `restart_one_gpu_s` on a single GPU (None: as on one node).
    Who is preempted before such a time is over has its rest before them the next time as well.
    """

    launch_s: float = 0.0
    cleanup_s: float = 0.0
    checkpoint_s: float = 0.0
    restart_s: float = 0.0
    restart_wide_s: float = 0.0
    restart_one_gpu_s: float | None = None


@dataclass(frozen=True, slots=True)
class Failures:
    """Nodes that fail: exponential times with mean `node_mtbf_s`, back after `repair_s`.

    A job on a failed node is requeued and loses the work of this attempt since its last
    checkpoint, one every `checkpoint_every_s` of work (0: all of it). After `max_requeues` failures
    it is given up and never ends: one that is wider or longer than its nodes last would come
    again for ever. All policies meet the same failures: they depend on the seed alone.
    """

    node_mtbf_s: float
    repair_s: float
    checkpoint_every_s: float = 0.0
    max_requeues: int = 100


@dataclass(frozen=True, eq=False)
class Sharing:
    """Pairs of jobs on the same GPUs, with measured speeds.

    ``speeds[a, b]`` is the speed of a job of class a beside one of class b, relative to alone (NaN:
    does not fit). A job that finds no free GPUs joins a running one of the same size where both
    would run at `min_speed` at least; the pair with the greatest sum of speeds first.
    """

    classes: tuple[str, ...]
    speeds: Floats  # (classes, classes)
    min_speed: float = 0.5


@dataclass(frozen=True, slots=True)
class Sleep:
    """Nodes that sleep when idle for `idle_timeout_s` and take `wake_s` to come back.

    `keep_awake` idle nodes of each pool never sleep.
    """

    idle_timeout_s: float
    wake_s: float
    keep_awake: int = 0


@dataclass(frozen=True, slots=True)
class Power:
    """Watts of a node: asleep, awake and idle, and in addition for each GPU in use."""

    asleep_w: float = 0.0
    idle_w: float = 800.0
    gpu_w: float = 300.0


@dataclass(frozen=True, slots=True)
class SimRules:
    """Everything that is assumed. `sample_s` is the distance of samples of the cluster's state.

    With `size_first_tick_s` > 0, a job that comes to an empty queue is placed by its number of
    GPUs at first, and by its key so many seconds later: as where predictions come with the next
    tick of a scheduler's clock. With `round_s` > 0, a scheduler decides at whole multiples of it
    (from the jobs' origin) only, and not whenever something happens. With `starvation_bound_s` > 0,
    jobs that have waited for longer (in whole seconds) come before all that have not, the longest
    waiter first, and nothing is skipped over their heads: what the daemon's setting does live.
    With `backfill_depth` > 0, backfill looks at so many jobs behind the first that does not fit, as
    Slurm's bf_max_job_test has it.
    """

    placement: Placement = Placement.CONSOLIDATED
    scheduler: Scheduler = Scheduler.PLAIN
    seed: int = 0
    costs: Costs = field(default_factory=Costs)
    failures: Failures | None = None
    sharing: Sharing | None = None
    sleep: Sleep | None = None
    power: Power = field(default_factory=Power)
    sample_s: float = 600.0
    size_first_tick_s: float = 0.0
    round_s: float = 0.0
    starvation_bound_s: int = 0
    backfill_depth: int = 0
