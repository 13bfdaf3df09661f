"""Jobs that start before one that waits for more GPUs, without delaying it.

EASY backfill (Lifka 1995): the first job that does not fit gets a reservation, on nodes; another
may start before it if it ends by then, by its time limit, or if it takes nothing of what will be
needed. The jobs between the two may be delayed: Slurm's backfill scheduler is conservative and
plans for all that it looks at.
"""

from __future__ import annotations

import numpy as np

from gsched.sim.core.allocation import reachable_gpus, ready_of
from gsched.sim.core.compiled import compiled_inline, compiled_inner
from gsched.sim.core.heap import push
from gsched.sim.core.node_choice import fit_nodes
from gsched.sim.core.queues import least_waiting_size
from gsched.sim.core.reservation import limit_of, reserve, take_spare
from gsched.sim.core.running import start_if_fits, start_on
from gsched.sim.core.sleeping import is_switched_off
from gsched.sim.core.state import NONE, RUNNING, Sim
from gsched.sim.core.tenants import grant
from gsched.sim.core.walk import next_job, step_over


@compiled_inner
def backfill_behind(sim: Sim, pool_row: int, head: int, time_s: float) -> None:
    """Start what may start before `head`, the first job of the walk that does not fit."""
    shadow_s = _reserve_for(sim, pool_row, head, time_s)
    if not ends_before_closing(sim, pool_row, head, shadow_s):
        shadow_s = sim.pools[pool_row].opens_s
    step_over(sim, head)
    beside = _free_beside(sim, pool_row)
    this_pass = sim.now[0].passes
    for _ in range(sim.rules[0].backfill_depth):
        room = reachable_gpus(sim, pool_row)
        if least_waiting_size(sim, pool_row) > room:
            return
        row = next_job(sim, pool_row)
        if row == NONE:
            return
        job = sim.jobs[row]
        starts = False
        if job.num_gpus <= room and ends_before_closing(sim, pool_row, row, time_s):
            if _ends_by(sim, row, time_s, shadow_s):
                starts = start_if_not_refused(sim, row, time_s)
            elif job.num_gpus <= beside and sim.sizes[job.size].refused_beside != this_pass:
                starts = _start_beside(sim, row, time_s)
        if starts:
            grant(sim, row)
            beside = _free_beside(sim, pool_row)
        else:
            step_over(sim, row)


@compiled_inline
def ends_before_closing(sim: Sim, pool_row: int, row: int, time_s: float) -> bool:
    """Whether a job that starts then ends, by its limit, before its pool closes, if it does."""
    pool = sim.pools[pool_row]
    if time_s >= pool.opens_s or pool.closes_s == np.inf:
        return True
    return bool(time_s + limit_of(sim.jobs[row].time_limit_s) <= pool.closes_s)


@compiled_inline
def start_if_not_refused(sim: Sim, row: int, time_s: float) -> bool:
    """As `start_if_fits`, in a pass: what one job was refused nobody gets later in the pass, where
    jobs only start.
    """
    size = sim.sizes[sim.jobs[row].size]
    if size.refused == sim.now[0].passes:
        return False
    if start_if_fits(sim, row, time_s):
        return True
    if not sim.rules[0].sharing:  # else it depends on more than what it asks for
        size.refused = sim.now[0].passes
    return False


@compiled_inline
def _ends_by(sim: Sim, row: int, time_s: float, shadow_s: float) -> bool:
    """Whether a job that starts now ends in time, by its limit."""
    end_s = time_s + limit_of(sim.jobs[row].time_limit_s)
    if sim.now[0].asleep > 0:
        end_s += sim.rules[0].wake_s
    return end_s <= shadow_s


@compiled_inner
def _start_beside(sim: Sim, row: int, time_s: float) -> bool:
    """Start a job on GPUs that the reservation leaves, if it fits there."""
    job = sim.jobs[row]
    pieces = fit_nodes(
        sim.places,
        sim.usable,
        np.int64(job.pool),
        np.int64(job.gpu_type),
        np.int64(job.num_gpus),
        np.int64(job.num_nodes),
        sim.rules[0].placement,
    )
    if pieces == 0:
        sim.sizes[job.size].refused_beside = sim.now[0].passes
        return False
    take_spare(sim.places, sim.spare, pieces)
    start_on(sim, row, time_s, pieces)
    return True


@compiled_inner
def _free_beside(sim: Sim, pool_row: int) -> int:
    """Note in `sim.usable` what is free and not reserved; how many GPUs in all."""
    pool = sim.places.pool[pool_row]
    total = 0
    for node in range(pool.first_node, sim.places.pool[pool_row + 1].first_node):
        sim.usable[node] = min(sim.places.free[node], sim.spare[node])
        total += sim.usable[node]
    return total


@compiled_inner
def _reserve_for(sim: Sim, pool_row: int, head: int, time_s: float) -> float:
    """When `head` can start; `sim.spare` says what it leaves then."""
    places = sim.places
    for node in range(places.pool[pool_row].first_node, places.pool[pool_row + 1].first_node):
        is_off = is_switched_off(sim.nodes[node].state)
        sim.spare[node] = places.node[node].gpus if is_off else places.free[node]
    pool = sim.pools[pool_row]
    first = pool.first_runner
    end = first
    for i in range(first, first + pool.running):
        row = np.int64(sim.runners[i])
        if places.first_piece[row] == NONE:  # a guest: counted with its host
            continue
        end = first + push(sim.ends, first, end - first, _latest_end_s(sim, row), row)
    job = sim.jobs[head]
    return reserve(
        places,
        sim.spare,
        sim.ends,
        first,
        end - first,
        time_s,
        np.int64(pool_row),
        np.int64(job.gpu_type),
        np.int64(job.num_gpus),
        np.int64(job.num_nodes),
        sim.rules[0].placement,
    )


@compiled_inner
def _latest_end_s(sim: Sim, row: int) -> float:
    """When the GPUs that a job holds are free again, by the limits of who is on them."""
    job = sim.jobs[row]
    if job.phase != RUNNING:  # the checkpoint or the clean-up is under way
        return float(sim.heap_time[row])
    end_s = ready_of(sim, row, job.held_from_s) + limit_of(job.time_limit_s)
    if job.partner != NONE:
        guest = sim.jobs[job.partner]
        end_s = max(end_s, guest.held_from_s + limit_of(guest.time_limit_s))
    return end_s
