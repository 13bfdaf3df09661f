"""What happens to nodes: they fail, come back, and fall asleep."""

from __future__ import annotations

import numpy as np

from gsched.sim.core.compiled import compiled_inline, compiled_inner, compiled_lean
from gsched.sim.core.events import set_event
from gsched.sim.core.failures import seconds_to_failure
from gsched.sim.core.nodes import restore, withdraw
from gsched.sim.core.running import fail
from gsched.sim.core.sharing import holder_of
from gsched.sim.core.sleeping import awake_again, doze, leave_sleep, plan_node
from gsched.sim.core.state import DOWN, NONE, RUNNING, UP, WAKING, Sim

_STANDSTILL = 1000
"""So many events a node, and no job runs or comes: those that wait will never start."""


@compiled_lean
def begin_nodes(sim: Sim, time_s: float) -> None:
    """All nodes are awake and idle from `time_s` on; say when the first ones fail or sleep."""
    for node in range(len(sim.nodes)):
        sim.nodes[node].idle_from_s = time_s
        sim.nodes[node].ready_s = time_s
        sim.nodes[node].next_failure_s = time_s + _up_for_s(sim, node)
        plan_node(sim, node)


@compiled_inner
def node_event(sim: Sim, node: int, time_s: float) -> None:
    """Do what is due for a node."""
    if sim.now[0].running > 0 or sim.now[0].next_job < len(sim.jobs):
        sim.now[0].standstill = 0
    else:
        sim.now[0].standstill += 1
    if sim.nodes[node].state == DOWN:
        _come_back(sim, node, time_s)
    elif sim.nodes[node].next_failure_s <= time_s:
        _go_down(sim, node, time_s)
    elif sim.nodes[node].state == WAKING:
        awake_again(sim, node, time_s)
    else:
        doze(sim, node)


@compiled_inline
def stands_still(sim: Sim) -> bool:
    """Whether only nodes come and go, and no job will ever start again."""
    is_still: bool = sim.now[0].standstill > _STANDSTILL * len(sim.nodes)
    return is_still


@compiled_inner
def _up_for_s(sim: Sim, node: int) -> float:
    rules = sim.rules[0]
    if not rules.failures:
        return np.inf
    return seconds_to_failure(rules.seed, node, sim.nodes[node].failures, rules.node_mtbf_s)


@compiled_inner
def _go_down(sim: Sim, node: int, time_s: float) -> None:
    """A node fails, awake or not: its jobs are requeued.

    Jobs that are saving their work or being cleaned up stay as they are: their work is done.
    """
    record = sim.nodes[node]
    leave_sleep(sim, node)
    record.state = DOWN
    record.failures += 1
    withdraw(sim.places, node)
    pool = sim.pools[sim.places.node[node].pool]
    pool.gpus_up -= sim.places.node[node].gpus
    sim.now[0].down += 1
    hit = pool.first_runner
    for i in range(pool.first_runner, pool.first_runner + pool.running):
        row = sim.runners[i]
        if sim.jobs[row].phase == RUNNING and _holds(sim, holder_of(sim, row), node):
            sim.leaving[hit] = row
            hit += 1
    for i in range(pool.first_runner, hit):
        fail(sim, np.int64(sim.leaving[i]), time_s)
    record.idle_from_s = np.inf
    back_s = time_s + sim.rules[0].repair_s
    record.next_failure_s = back_s + _up_for_s(sim, node)
    set_event(sim, len(sim.jobs) + node, back_s)


@compiled_inner
def _come_back(sim: Sim, node: int, time_s: float) -> None:
    """A node has been repaired; it is awake."""
    record = sim.nodes[node]
    record.state = UP
    record.ready_s = time_s
    restore(sim.places, node)
    pool = sim.pools[sim.places.node[node].pool]
    pool.gpus_up += sim.places.node[node].gpus
    pool.is_dirty = 1
    sim.now[0].down -= 1
    if sim.places.node[node].used == 0:
        record.idle_from_s = time_s
    plan_node(sim, node)


@compiled_inner
def _holds(sim: Sim, row: int, node: int) -> bool:
    """Whether a job holds GPUs of a node."""
    at = sim.places.first_piece[row]
    while at != NONE:
        if sim.places.piece[at].node == node:
            return True
        at = sim.places.piece[at].next
    return False
