"""What jobs have been entitled to of their tenants' quotas, counted from round to round.

As ``gsched.policy.entitlement`` counts it live: a round finds who is active, and by that the share
of each until the next round. Of jobs that have received nothing nothing is counted.
"""

from __future__ import annotations

import numpy as np

from gsched.policy.entitlement import RATE_STEPS, SUM_STEPS
from gsched.policy.order_form import PART_STEPS
from gsched.sim.core.compiled import compiled_inline, compiled_inner
from gsched.sim.core.state import RUNNING, WAITING, Sim


@compiled_inline
def part_received(received_gpu_s: float, entitled_gpu_s: float) -> float:
    """As in ``gsched.policy.order_form``, of one job that is entitled to something."""
    return float(np.floor(received_gpu_s / entitled_gpu_s * PART_STEPS + 0.5) / PART_STEPS)


@compiled_inner
def note_entitled(sim: Sim, time_s: float) -> None:
    """A round: book what each job was entitled to since the last, and find its share from now."""
    passed_s = time_s - sim.now[0].entitled_as_of_s
    sim.now[0].entitled_as_of_s = time_s
    for pool_row in range(len(sim.pools)):
        pool = sim.pools[pool_row]
        tenants = _count_active(sim, pool_row)
        for group_row in range(pool.first_group, pool.last_group):
            group = sim.groups[group_row]
            first = group.begin + group.head
            for i in range(first, first + group.length):
                _book(sim, sim.queue[i], passed_s, _share(sim, group_row, tenants), time_s)
        for i in range(pool.first_runner, pool.first_runner + pool.running):
            row = sim.runners[i]
            is_active = sim.jobs[row].phase == RUNNING
            share = _share(sim, sim.jobs[row].group, tenants) if is_active else 0.0
            _book(sim, row, passed_s, share, time_s)


@compiled_inline
def _count_active(sim: Sim, pool_row: int) -> int:
    """Note how many jobs of each tenant wait or run in a pool; of how many tenants there are."""
    pool = sim.pools[pool_row]
    for group_row in range(pool.first_group, pool.last_group):
        sim.groups[group_row].active = sim.groups[group_row].length
    for i in range(pool.first_runner, pool.first_runner + pool.running):
        row = sim.runners[i]
        if sim.jobs[row].phase == RUNNING:
            sim.groups[sim.jobs[row].group].active += 1
    tenants = 0
    for group_row in range(pool.first_group, pool.last_group):
        if sim.groups[group_row].active > 0:
            tenants += 1
    return tenants


@compiled_inline
def _share(sim: Sim, group_row: int, tenants: int) -> float:
    """GPUs that are each active job's of a tenant in a pool."""
    group = sim.groups[group_row]
    worth = sim.pools[group.pool].worth
    part = sim.tenants[group.tenant].quota
    quota = worth / tenants if part < 0.0 else worth * part
    return float(quota / group.active)


@compiled_inline
def _book(sim: Sim, row: int, passed_s: float, share: float, time_s: float) -> None:
    job = sim.jobs[row]
    rate = _rounded(min(job.num_gpus * job.worth, share), RATE_STEPS)
    if job.entitled_gpu_s >= 0.0:
        entitled = job.entitled_gpu_s + job.entitled_rate * passed_s
    elif job.held_s > 0.0 or (job.phase != WAITING and time_s > job.held_from_s):
        entitled = rate * (time_s - job.submit_s)
    else:
        return
    job.entitled_gpu_s = _rounded(entitled, SUM_STEPS)
    job.entitled_rate = rate


@compiled_inline
def _rounded(value: float, steps: float) -> float:
    return float(np.floor(value * steps + 0.5) / steps)
