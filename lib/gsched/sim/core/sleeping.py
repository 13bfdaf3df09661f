"""Nodes that fall asleep when idle for long, or told to, and wake up for a job, or told to."""

from __future__ import annotations

import numpy as np

from gsched.sim.core.compiled import compiled_inline, compiled_inner, compiled_lean
from gsched.sim.core.events import drop_event, set_event
from gsched.sim.core.nodes import restore, withdraw
from gsched.sim.core.state import ASLEEP, UP, WAKING, Sim

_NEVER = np.inf


@compiled_inner
def plan_node(sim: Sim, node: int) -> None:
    """Wake up when a node that is not down will fail, may fall asleep or is awake again."""
    record = sim.nodes[node]
    soonest = record.next_failure_s
    if record.state == WAKING:
        soonest = min(soonest, record.ready_s)
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
    if is_switched_off(record.state):
        leave_sleep(sim, node)
        if record.state == ASLEEP:
            _count_wake(sim, node, time_s)
        record.state = UP
        restore(sim.places, node)
        plan_node(sim, node)
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
        _switch_off(sim, node)
    sim.nodes[node].idle_from_s = _NEVER  # if it stays awake, then until it has run a job
    plan_node(sim, node)


@compiled_lean
def sleep_from_now_on(sim: Sim, idle_timeout_s: float, time_s: float) -> None:
    """Nodes fall asleep by a timeout from now on, those that have been idle for longer at once."""
    sim.rules[0].idle_timeout_s = idle_timeout_s
    for node in range(len(sim.nodes)):
        due_s = sim.nodes[node].idle_from_s + idle_timeout_s
        if sim.nodes[node].state == UP and due_s < _NEVER:
            set_event(sim, len(sim.jobs) + node, max(due_s, time_s))


@compiled_lean
def put_to_sleep(sim: Sim, node: int) -> bool:
    """Switch an idle node off now; False where it is not idle."""
    if sim.nodes[node].state != UP or sim.places.node[node].used > 0:
        return False
    _switch_off(sim, node)
    sim.nodes[node].idle_from_s = _NEVER
    plan_node(sim, node)
    return True


@compiled_lean
def wake_up(sim: Sim, node: int, time_s: float) -> bool:
    """Let a node that sleeps wake up before a job needs it; False where it does not sleep.

    Until it is awake a job can have it as it can have one that sleeps, and waits for less long.
    """
    record = sim.nodes[node]
    if record.state != ASLEEP:
        return False
    record.state = WAKING
    sim.now[0].asleep -= 1
    _count_wake(sim, node, time_s)
    plan_node(sim, node)
    return True


@compiled_inner
def awake_again(sim: Sim, node: int, time_s: float) -> None:
    """A node that was told to wake up is awake, and idle."""
    leave_sleep(sim, node)
    sim.nodes[node].state = UP
    restore(sim.places, node)
    sim.pools[sim.places.node[node].pool].is_dirty = 1
    node_idle(sim, node, time_s)


@compiled_inline
def is_switched_off(state: int) -> bool:
    """Whether no job runs on a node before it has woken up."""
    return state in (ASLEEP, WAKING)


@compiled_inner
def leave_sleep(sim: Sim, node: int) -> None:
    """A node that may be asleep or waking up is neither any more, without being awake."""
    state = sim.nodes[node].state
    if state == ASLEEP:
        sim.now[0].asleep -= 1
    if is_switched_off(state):
        sim.pools[sim.places.node[node].pool].gpus_asleep -= sim.places.node[node].gpus


@compiled_inline
def _count_wake(sim: Sim, node: int, time_s: float) -> None:
    sim.nodes[node].ready_s = time_s + sim.rules[0].wake_s
    sim.nodes[node].wakes += 1
    sim.now[0].wakes += 1


@compiled_inner
def _switch_off(sim: Sim, node: int) -> None:
    withdraw(sim.places, node)
    sim.nodes[node].state = ASLEEP
    sim.now[0].asleep += 1
    sim.pools[sim.places.node[node].pool].gpus_asleep += sim.places.node[node].gpus
