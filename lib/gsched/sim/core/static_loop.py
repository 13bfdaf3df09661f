"""The loop for orders that never change: the first job of the order that does not fit blocks.

Pools share nothing, so that each is followed for itself: a queue by key, the ends of what runs,
and its next arrival. Nothing but those three makes anything happen.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gsched.sim.cluster import SimCluster
from gsched.sim.core.compiled import Records, compiled_inner, compiled_lean
from gsched.sim.core.heap import ENTRY, Heap, pop, push
from gsched.sim.core.nodes import WHOLE, Nodes, give_back, make_nodes, take
from gsched.sim.core.placement import find, placement_code
from gsched.sim.jobs import ANY, Floats, Ints, SimJobs
from gsched.sim.rules import SimRules

NEVER = np.inf

POOL = np.dtype(
    [
        ("next_job", "i8"),  # into StaticLoop.rows
        ("last_job", "i8"),
        ("queue", "i8"),  # where its heap begins
        ("waiting", "i8"),
        ("ends", "i8"),  # where its heap begins
        ("running", "i8"),
        ("opens_s", "f8"),  # until then nothing starts; NEVER: it is open
    ]
)
PROGRESS = np.dtype([("reached_s", "f8"), ("ended", "i8")])


class StaticLoop(NamedTuple):
    """The state of the loop: columns of the jobs, what came of them, pools and their heaps."""

    submit_s: Floats
    duration_s: Floats
    key: Floats
    num_gpus: Ints
    num_nodes: Ints
    gpu_type: Ints
    rows: Ints  # job rows, pool after pool
    start_s: Floats
    free_s: Floats  # when its GPUs were free again
    node: Ints
    whole_at_start: Ints  # by how many the GPUs on wholly free nodes became fewer
    whole_at_end: Ints  # by how many they became more
    pool: Records  # POOL
    queue: Heap
    ends: Heap
    nodes: Nodes
    progress: Records  # PROGRESS, one element


def make_loop(jobs: SimJobs, cluster: SimCluster, keys: Floats) -> StaticLoop:
    """Before the first event. Each job must fit into its pool; those with a NaN key come last."""
    count = len(jobs)
    bounds = np.cumsum(np.bincount(jobs.pool + 1, minlength=len(cluster.pools) + 1))
    pool = np.zeros(len(cluster.pools), dtype=POOL)
    pool["next_job"] = pool["queue"] = bounds[:-1]
    pool["last_job"] = bounds[1:]
    gpus = np.concatenate(([0], np.cumsum(cluster.node_gpus, dtype=np.int64)))
    pool["ends"] = gpus[cluster.first_node[:-1]]
    pool["opens_s"] = NEVER
    return StaticLoop(
        submit_s=_column(jobs.submit_s, np.float64),
        duration_s=_column(jobs.duration_s, np.float64),
        key=np.where(np.isnan(keys), NEVER, keys),
        num_gpus=_column(jobs.num_gpus, np.int32),
        num_nodes=_column(jobs.num_nodes, np.int32),
        gpu_type=_column(jobs.gpu_type, np.int32),
        rows=np.argsort(jobs.pool, kind="stable").astype(np.int32),
        start_s=np.full(count, np.nan),
        free_s=np.full(count, np.nan),
        node=np.full(count, ANY, dtype=np.int32),
        whole_at_start=np.zeros(count, dtype=np.int32),
        whole_at_end=np.zeros(count, dtype=np.int32),
        pool=pool,
        queue=np.zeros(count, dtype=ENTRY),
        ends=np.zeros(gpus[-1], dtype=ENTRY),
        nodes=make_nodes(cluster, count),
        progress=np.zeros(1, dtype=PROGRESS),
    )


def _column(values: NDArray[Any], kind: type[np.generic]) -> NDArray[Any]:
    """The same, copied only where the loop would have to be compiled for it once more."""
    return np.require(values, kind, ["C", "W"])


def run_until(loop: StaticLoop, rules: SimRules, until_s: float) -> None:
    """Let everything happen up to `until_s`."""
    costs = rules.costs
    how = placement_code(rules.placement)
    seconds = (costs.launch_s, costs.cleanup_s, rules.size_first_tick_s, until_s)
    _run_until(loop, how, *(float(each) for each in seconds))  # whole numbers have another type


@compiled_lean
def _run_until(
    loop: StaticLoop, how: int, launch_s: float, cleanup_s: float, tick_s: float, until_s: float
) -> None:
    for number in range(len(loop.pool)):
        pool = loop.pool[number]
        while True:
            now = _next_event(loop, pool)
            if now == NEVER or now > until_s:
                break
            _end_jobs(loop, pool, now)
            if pool.opens_s <= now:
                pool.opens_s = NEVER
            by_size = tick_s > 0.0 and pool.waiting == 0
            _queue_arrivals(loop, pool, now, by_size)
            if pool.opens_s != NEVER:
                continue
            while pool.waiting and _start_first(loop, number, now, how, launch_s, cleanup_s):
                pool.waiting = pop(loop.queue, pool.queue, pool.waiting)
            if by_size and pool.waiting:
                _order_by_key(loop, pool)
                pool.opens_s = now + tick_s
    loop.progress[0].reached_s = until_s


@compiled_inner
def _next_event(loop: StaticLoop, pool: Records) -> float:
    """The next arrival, end or opening."""
    now: float = pool.opens_s
    if pool.next_job < pool.last_job:
        now = min(now, loop.submit_s[loop.rows[pool.next_job]])
    if pool.running:
        now = min(now, loop.ends[pool.ends].key)
    return now


@compiled_inner
def _end_jobs(loop: StaticLoop, pool: Records, now: float) -> None:
    """Free what is due."""
    while pool.running and loop.ends[pool.ends].key <= now:
        row = loop.ends[pool.ends].row
        loop.free_s[row] = loop.ends[pool.ends].key
        pool.running = pop(loop.ends, pool.ends, pool.running)
        whole = loop.nodes.totals[WHOLE]
        give_back(loop.nodes, np.int64(row))
        loop.whole_at_end[row] = loop.nodes.totals[WHOLE] - whole
        loop.progress[0].ended += 1


@compiled_inner
def _queue_arrivals(loop: StaticLoop, pool: Records, now: float, by_size: bool) -> None:
    """Queue whoever has come, by key or, for the time being, by number of GPUs."""
    while pool.next_job < pool.last_job:
        row = loop.rows[pool.next_job]
        if loop.submit_s[row] > now:
            break
        key = np.float64(loop.num_gpus[row]) if by_size else loop.key[row]
        pool.waiting = push(loop.queue, pool.queue, pool.waiting, key, np.int64(row))
        pool.next_job += 1


@compiled_inner
def _order_by_key(loop: StaticLoop, pool: Records) -> None:
    """Those who were queued by size are from now on in order of their keys."""
    for size in range(pool.waiting):
        row = np.int64(loop.queue[pool.queue + size].row)
        push(loop.queue, pool.queue, size, loop.key[row], row)


@compiled_inner
def _start_first(
    loop: StaticLoop, number: int, now: float, how: int, launch_s: float, cleanup_s: float
) -> bool:
    """Start the first of the queue of a pool, if it fits; it stays in the queue."""
    pool = loop.pool[number]
    row = np.int64(loop.queue[pool.queue].row)
    pieces = find(
        loop.nodes,
        number,
        np.int64(loop.gpu_type[row]),
        np.int64(loop.num_gpus[row]),
        np.int64(loop.num_nodes[row]),
        how,
    )
    if pieces == 0:
        return False
    whole = loop.nodes.totals[WHOLE]
    loop.node[row] = take(loop.nodes, row, pieces)
    loop.whole_at_start[row] = whole - loop.nodes.totals[WHOLE]
    loop.start_s[row] = now
    free_s = now + launch_s + loop.duration_s[row] + cleanup_s
    pool.running = push(loop.ends, pool.ends, pool.running, free_s, row)
    return True
