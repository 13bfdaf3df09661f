"""The state of a running simulation: a few arrays of records that compiled functions take.

Records rather than one array a column: a compiled call passes a handful of arrays, and what is
known of one job lies together. From Python, ``sim.jobs["end_s"]`` is a column.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gsched.sim.core.heap import Heap
from gsched.sim.core.nodes import Nodes
from gsched.sim.jobs import ANY

# Where a job stands.
FUTURE = 0  # not submitted yet
WAITING = 1
RUNNING = 2
SAVING = 3  # preempted: holds its GPUs while it writes its checkpoint, then waits
CLOSING = 4  # has ended: holds its GPUs while the node is cleaned up
ENDED = 5
GIVEN_UP = 6  # failed too often

# Whether a node can run jobs.
UP = 0
DOWN = 1
ASLEEP = 2
WAKING = 3  # woken before a job needs it

UNPLACED = 1 << 30
"""The level of jobs that have no place in the order: behind all others."""

STARVING = -1
"""The level of jobs that have waited beyond the starvation bound: before all others."""

# Misfit, as numbers.
BLOCK = 0
SKIP = 1
BACKFILL = 2
BLOCK_TENANT = 3

JOB = np.dtype(
    [  # what every pass reads comes first: it lies in two lines of the cache
        ("key", "f8"),  # when it was last put in order
        ("level", "i8"),
        ("phase", "i8"),
        ("num_gpus", "i8"),
        ("group", "i8"),
        ("leased_until_s", "f8"),
        ("runner", "i8"),  # its place in Sim.runners
        ("constant", "f8"),  # of the order form, as are the next two
        ("per_executed_s", "f8"),
        ("per_elapsed_s", "f8"),
        ("submit_s", "f8"),
        ("held_from_s", "f8"),  # since when this attempt holds GPUs
        ("held_s", "f8"),  # over the attempts before
        ("duration_s", "f8"),
        ("time_limit_s", "f8"),
        ("num_nodes", "i8"),
        ("pool", "i8"),
        ("tenant", "i8"),  # of the form's tenant term; 0 without
        ("size", "i8"),  # its row of Sim.sizes
        ("gpu_type", "i8"),
        ("share_class", "i8"),
        ("partner", "i8"),  # the job on the same GPUs, or ANY
        ("work_left_s", "f8"),  # at speed 1, as of progress_from_s
        ("rate", "f8"),  # progress a second
        ("progress_from_s", "f8"),  # after launch, restart, wake-up
        ("ready_s", "f8"),  # from when on its nodes were awake
        ("owed_s", "f8"),  # of launch and restart, from when it was preempted amid them
        ("saved_s", "f8"),  # work that a failure cannot take back
        ("segment", "i8"),
        ("pieces", "i8"),  # on how many nodes this attempt is
        ("attempts", "i8"),
        ("preemptions", "i8"),
        ("failures", "i8"),
        ("entitled_gpu_s", "f8"),  # as of the last round; below 0: it had received nothing
        ("entitled_rate", "f8"),  # GPUs, since then
        ("worth", "f8"),  # of each GPU that it holds, or held last, or would at least get
        ("own_level", "i8"),  # of one that starves: what it has when it no longer waits
        ("start_s", "f8"),
        ("end_s", "f8"),
    ],
    align=True,
)

NODE = np.dtype(
    [
        ("state", "i8"),
        ("failures", "i8"),
        ("idle_from_s", "f8"),
        ("ready_s", "f8"),  # until then it wakes up
        ("wakes", "i8"),  # how often it did
        ("next_failure_s", "f8"),
    ],
    align=True,
)

POOL = np.dtype(
    [
        ("first_group", "i8"),
        ("last_group", "i8"),
        ("first_runner", "i8"),  # its stretch of Sim.runners
        ("running", "i8"),
        ("waiting", "i8"),
        ("gpus", "i8"),
        ("worth", "f8"),  # of all of them
        ("gpus_up", "i8"),  # of nodes that are not down
        ("gpus_asleep", "i8"),  # of nodes that sleep or wake up: jobs can have them, later
        ("first_size", "i8"),  # its stretch of Sim.sizes
        ("last_size", "i8"),
        ("is_dirty", "i8"),  # something happened since its last pass
        ("closes_s", "f8"),  # from then on nothing runs there,
        ("opens_s", "f8"),  # until then
    ],
    align=True,
)

GROUP = np.dtype(
    [  # the waiting jobs of one tenant in one pool, in order, somewhere in a stretch of Sim.queue
        ("pool", "i8"),
        ("tenant", "i8"),
        ("begin", "i8"),
        ("room", "i8"),
        ("head", "i8"),
        ("length", "i8"),
        ("running", "i8"),
        ("active", "i8"),  # that wait or run, as of the last round
        # of the pass that goes on:
        ("use", "f8"),  # of the tenant, with what the pass has given it
        ("ratio", "f8"),  # groups of equal ratio are merged by key
        ("offset", "f8"),  # taken off the keys
        ("cursor", "i8"),  # how many that wait it has seen
        ("run_from", "i8"),  # and the stretch of Sim.runners that it has not seen
        ("run_to", "i8"),
    ],
    align=True,
)

SIZE = np.dtype(
    [
        ("num_gpus", "i8"),
        ("waiting", "i8"),
        ("refused", "i8"),  # the last pass in which it fitted on nothing
        ("refused_beside", "i8"),  # nor beside the reservation
    ],
    align=True,
)
"""Jobs that ask for the same in a pool (GPUs, nodes, type): how many wait."""

TENANT = np.dtype(
    [
        ("share", "f8"),
        ("quota", "f8"),  # its part of each pool; below 0: an equal one
        ("received", "f8"),  # GPU-seconds as of `as_of_s`, decayed
        ("as_of_s", "f8"),
        ("gpus", "f8"),  # held now, by worth
        ("gpus_before", "f8"),  # held before the passes of this moment
    ],
    align=True,
)

SEGMENT = np.dtype(
    [("job", "i4"), ("node", "i4"), ("shared", "i4"), ("start_s", "f8"), ("end_s", "f8")],
    align=True,
)

SAMPLE = np.dtype(
    [
        ("time_s", "f8"),
        ("gpus_used", "i4"),
        ("gpus_free", "i4"),
        ("gpus_free_whole", "i4"),
        ("gpus_wanted", "i4"),
        ("jobs_waiting", "i4"),
        ("jobs_running", "i4"),
        ("nodes_asleep", "i4"),
        ("nodes_down", "i4"),
    ],
    align=True,
)

NOW = np.dtype(
    [  # the one record of Sim.now
        ("time_s", "f8"),
        ("next_sample_s", "f8"),
        ("next_job", "i8"),  # the first that is still FUTURE
        ("next_starving", "i8"),  # the first that may still come to wait beyond the bound
        ("open_jobs", "i8"),  # those that can still end
        ("heap_size", "i8"),
        ("waiting", "i8"),
        ("running", "i8"),
        ("gpus_used", "i8"),
        ("gpus_wanted", "i8"),
        ("asleep", "i8"),
        ("down", "i8"),
        ("wakes", "i8"),
        ("standstill", "i8"),  # events of nodes since a job ran or came
        ("segments", "i8"),
        ("samples", "i8"),
        ("passes", "i8"),
        ("entitled_as_of_s", "f8"),  # the last round that counted what jobs are entitled to
        ("used_gpu_s", "f8"),  # GPU-seconds held since the first submission
        ("asleep_node_s", "f8"),
        ("down_node_s", "f8"),
    ],
    align=True,
)

RULES = np.dtype(
    [  # the one record of Sim.rules
        ("placement", "i8"),  # placement.CONSOLIDATED …
        ("misfit", "i8"),
        ("preempts", "i8"),
        ("moves", "i8"),  # keys of waiting jobs move against each other
        ("levels", "i8"),  # how many bounds
        ("tenants", "i8"),  # how many; 0: no tenant term
        ("by_allocated", "i8"),
        ("lease_s", "f8"),
        ("round_s", "f8"),  # passes at whole multiples of it; 0: at each event
        ("starvation_bound_s", "f8"),  # 0: none
        ("backfill_depth", "i8"),  # jobs that a pass of backfill looks at
        ("elapsed_cap_s", "f8"),
        ("executed_cap_s", "f8"),
        ("by_share", "i8"),  # whether jobs come by what they received of their share
        ("weighted", "i8"),  # whether GPUs of different types are worth different amounts
        ("half_life_s", "f8"),
        ("band", "f8"),
        ("points", "f8"),
        ("launch_s", "f8"),
        ("cleanup_s", "f8"),
        ("checkpoint_s", "f8"),
        ("restart_s", "f8"),
        ("restart_wide_s", "f8"),
        ("restart_one_gpu_s", "f8"),
        ("sample_s", "f8"),
        ("seed", "i8"),
        ("failures", "i8"),  # whether nodes fail
        ("node_mtbf_s", "f8"),
        ("repair_s", "f8"),
        ("checkpoint_every_s", "f8"),
        ("max_requeues", "i8"),
        ("sharing", "i8"),  # whether jobs share GPUs
        ("min_speed", "f8"),
        ("sleep", "i8"),  # whether nodes sleep
        ("idle_timeout_s", "f8"),
        ("wake_s", "f8"),
        ("keep_awake", "i8"),
    ],
    align=True,
)


class Sim(NamedTuple):
    """All of it. One dtype an array, so that each compiled function is compiled once."""

    jobs: NDArray[np.void]  # JOB
    nodes: NDArray[np.void]  # NODE
    places: Nodes  # what is free where, and who holds which GPUs
    pools: NDArray[np.void]  # POOL
    groups: NDArray[np.void]  # GROUP
    sizes: NDArray[np.void]  # SIZE
    tenants: NDArray[np.void]  # TENANT, one at least
    bounds: NDArray[np.float64]  # of the levels, in GPU-seconds
    ratios: NDArray[np.float64]  # room for those of one pool's groups
    queue: NDArray[np.int64]  # the waiting jobs of all groups
    runners: NDArray[np.int64]  # the running jobs of all pools, the first `running` of a stretch
    chosen: NDArray[np.int64]  # as long as queue: who starts in a pass
    leaving: NDArray[np.int64]  # as long as runners: who is preempted in a pass
    heap: NDArray[np.int64]  # ids of what has an event, the soonest first
    heap_place: NDArray[np.int64]  # of each id in the heap, or ANY
    heap_time: NDArray[np.float64]  # by id
    segments: NDArray[np.void]  # SEGMENT
    samples: NDArray[np.void]  # SAMPLE
    speeds: NDArray[np.float64]  # of one class beside another, squared; 1 × 1 without sharing
    type_speed: NDArray[np.float64]
    type_worth: NDArray[np.float64]
    usable: NDArray[np.int64]  # by node: what a job may take, while one is looked for
    spare: NDArray[np.int64]  # by node: what a reservation leaves
    ends: Heap  # the running jobs of a pool by their limits, for a reservation
    now: NDArray[np.void]  # NOW, one record
    rules: NDArray[np.void]  # RULES, one record


NONE = ANY
"""No row."""
