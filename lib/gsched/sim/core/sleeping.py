"""Nodes that fall asleep when they have been idle, and wake up for a job."""

from __future__ import annotations

import numpy as np

from gsched.sim.core.compiled import compiled_inner
from gsched.sim.core.events import drop_event, set_event
from gsched.sim.core.nodes import restore, withdraw
from gsched.sim.core.state import ASLEEP, UP, Sim

_NEVER = np.inf


@compiled_inner
def plan_node(sim: Sim, node: int) -> None:
    """Wake up when a node that is not down will fail or may fall asleep, whatever comes first."""
    record = sim.nodes[node]
    soonest = record.next_failure_s
    if sim.rules[0].sleep and record.state == UP:
        soonest = min(soonest, record.idle_from_s + sim.rules[0].idle_timeout_s)
    if soonest < _NEVER:
        set_event(sim, len(sim.jobs) + node, soonest)
    else:
        drop_event(sim, len(sim.jobs) + node)


@compiled_inner
def node_taken(sim: Sim, node: int, time_s: float) -> None:
    """A job is about to take GPUs of a node: it is not idle any more, and wakes if it slept."""
    record = sim.nodes[node]
    if record.state == ASLEEP:
        leave_sleep(sim, node)
        record.state = UP
        record.ready_s = time_s + sim.rules[0].wake_s
        restore(sim.places, node)
        sim.now[0].wakes += 1
    if record.idle_from_s < _NEVER:
        record.idle_from_s = _NEVER
        plan_node(sim, node)


@compiled_inner
def node_idle(sim: Sim, node: int, time_s: float) -> None:
    """From now on no job holds GPUs of a node."""
    sim.nodes[node].idle_from_s = time_s
    if sim.nodes[node].state == UP:
        plan_node(sim, node)


@compiled_inner
def doze(sim: Sim, node: int) -> None:
    """A node has been idle for long: it falls asleep unless it is to be kept awake."""
    pool = sim.places.pool[sim.places.node[node].pool]
    after = sim.places.pool[sim.places.node[node].pool + 1]
    idle = 0
    for other in range(pool.first_node, after.first_node):
        idle += sim.nodes[other].state == UP and sim.places.node[other].used == 0
    if idle > sim.rules[0].keep_awake:
        withdraw(sim.places, node)
        sim.nodes[node].state = ASLEEP
        sim.now[0].asleep += 1
        sim.pools[sim.places.node[node].pool].gpus_asleep += sim.places.node[node].gpus
    sim.nodes[node].idle_from_s = _NEVER  # if it stays awake, then until it has run a job
    plan_node(sim, node)


@compiled_inner
def leave_sleep(sim: Sim, node: int) -> None:
    """A node that may be asleep is not any more, without being awake."""
    if sim.nodes[node].state == ASLEEP:
        sim.now[0].asleep -= 1
        sim.pools[sim.places.node[node].pool].gpus_asleep -= sim.places.node[node].gpus
