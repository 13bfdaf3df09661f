"""GPUs for a job where nodes sleep, wake up, differ in type or are shared."""

from __future__ import annotations

import numpy as np

from gsched.sim.core.compiled import compiled_inline, compiled_inner
from gsched.sim.core.node_choice import fit_nodes
from gsched.sim.core.nodes import give_back, take
from gsched.sim.core.placement import find
from gsched.sim.core.sharing import holder_of
from gsched.sim.core.sleeping import node_idle, node_taken
from gsched.sim.core.state import ASLEEP, NONE, WAKING, Sim

_ANY_NUMBER = 1 << 40


@compiled_inline
def reachable_gpus(sim: Sim, pool_row: int) -> int:
    """No job of more GPUs can start in a pool now: those that are free, and those that sleep."""
    if sim.rules[0].sharing:
        return _ANY_NUMBER
    gpus: int = sim.places.pool[pool_row].free + sim.pools[pool_row].gpus_asleep
    return gpus


@compiled_inner
def find_for(sim: Sim, row: int) -> int:
    """How many pieces a job gets now, on nodes that are awake if it can be; 0: it does not fit."""
    job = sim.jobs[row]
    pool = np.int64(job.pool)
    pieces = find(
        sim.places,
        pool,
        np.int64(job.gpu_type),
        np.int64(job.num_gpus),
        np.int64(job.num_nodes),
        sim.rules[0].placement,
    )
    if pieces == 0 and sim.pools[pool].gpus_asleep > 0:
        pieces = _find_asleep(sim, row)
    return pieces


@compiled_inner
def _find_asleep(sim: Sim, row: int) -> int:
    """As `find`, with as few nodes that are not awake as it needs: those that wake up already, then
    those that sleep, the first ones of the fastest type.
    """
    job = sim.jobs[row]
    pool = np.int64(job.pool)
    places = sim.places
    if job.num_gpus > reachable_gpus(sim, pool):
        return 0
    for group in range(places.pool[pool].first_group, places.pool[pool + 1].first_group):
        kind = places.group[group].gpu_type
        if places.accepts[job.gpu_type + 1, kind]:
            pieces = _find_waking(sim, row, kind)
            if pieces:
                return pieces
    return _find_waking(sim, row, np.int64(job.gpu_type))


@compiled_inner
def _find_waking(sim: Sim, row: int, gpu_type: int) -> int:
    """Pieces on nodes that a type accepts, with one node that is not awake more at a time."""
    job = sim.jobs[row]
    pool = np.int64(job.pool)
    places = sim.places
    first, last = places.pool[pool].first_node, places.pool[pool + 1].first_node
    for node in range(first, last):
        sim.usable[node] = places.free[node]
    for state in (WAKING, ASLEEP):
        for node in range(first, last):
            is_right = places.accepts[gpu_type + 1, places.node[node].gpu_type]
            if sim.nodes[node].state != state or not is_right:
                continue
            sim.usable[node] = places.node[node].gpus
            pieces = fit_nodes(
                places,
                sim.usable,
                pool,
                gpu_type,
                np.int64(job.num_gpus),
                np.int64(job.num_nodes),
                sim.rules[0].placement,
            )
            if pieces:
                return pieces
    return 0


@compiled_inner
def take_for(sim: Sim, row: int, pieces: int, time_s: float) -> int:
    """Give a job what was found for it, and wake its nodes; the first of them."""
    for number in range(pieces):
        node_taken(sim, sim.places.found[number].node, time_s)
    return take(sim.places, row, pieces)


@compiled_inner
def give_back_of(sim: Sim, row: int, time_s: float) -> None:
    """Free whatever a job holds; nodes that are wholly free then are idle from now on."""
    at = sim.places.first_piece[row]
    while at != NONE:
        piece = sim.places.piece[at]
        if sim.places.node[piece.node].used == piece.gpus:
            node_idle(sim, np.int64(piece.node), time_s)
        at = piece.next
    give_back(sim.places, row)


@compiled_inline
def ready_of(sim: Sim, row: int, time_s: float) -> float:
    """When the nodes of a job that holds GPUs since `time_s` are all awake."""
    ready_s = time_s
    at = sim.places.first_piece[holder_of(sim, row)]
    while at != NONE:
        ready_s = max(ready_s, sim.nodes[sim.places.piece[at].node].ready_s)
        at = sim.places.piece[at].next
    return ready_s


@compiled_inline
def speed_of(sim: Sim, row: int) -> float:
    """How fast a job that holds GPUs gets on: as its slowest GPU and its partner let it."""
    job = sim.jobs[row]
    speed = np.inf
    at = sim.places.first_piece[holder_of(sim, row)]
    while at != NONE:
        kind = sim.places.node[sim.places.piece[at].node].gpu_type
        speed = min(speed, sim.type_speed[kind])
        at = sim.places.piece[at].next
    if job.partner != NONE:
        speed *= sim.speeds[job.share_class, sim.jobs[job.partner].share_class]
    return speed


@compiled_inline
def worth_of(sim: Sim, row: int) -> float:
    """What each GPU that a job holds is worth, on average."""
    worth = 0.0
    gpus = 0
    at = sim.places.first_piece[holder_of(sim, row)]
    while at != NONE:
        piece = sim.places.piece[at]
        worth += piece.gpus * sim.type_worth[sim.places.node[piece.node].gpu_type]
        gpus += piece.gpus
        at = piece.next
    return float(worth / gpus)
