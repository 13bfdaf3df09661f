"""What tenants use, and how that moves their jobs."""

from __future__ import annotations

import numpy as np

from gsched.sim.core.compiled import compiled_inline, compiled_inner
from gsched.sim.core.state import Sim

_LN2 = 0.6931471805599453


@compiled_inline
def charge(sim: Sim, tenant_row: int, time_s: float) -> None:
    """Bring what a tenant has received up to `time_s`; before its GPUs change, and to read it."""
    tenant = sim.tenants[tenant_row]
    passed_s = time_s - tenant.as_of_s
    if passed_s <= 0.0:
        return
    half_life_s = sim.rules[0].half_life_s
    if half_life_s == float("inf"):
        tenant.received += tenant.gpus * passed_s
    else:
        kept = 0.5 ** (passed_s / half_life_s)
        lasting_s = half_life_s / _LN2 * (1.0 - kept)  # of each GPU held all the time
        tenant.received = tenant.received * kept + tenant.gpus * lasting_s
    tenant.as_of_s = time_s


@compiled_inner
def note_use(sim: Sim) -> None:
    """What tenants hold now counts in all passes of this moment, whichever pool is first."""
    for tenant_row in range(len(sim.tenants)):
        sim.tenants[tenant_row].gpus_before = sim.tenants[tenant_row].gpus


@compiled_inner
def rank_tenants(sim: Sim, pool_row: int, time_s: float) -> None:
    """Give each group of a pool its ratio, or what is taken off its keys, for a pass now."""
    pool = sim.pools[pool_row]
    if sim.rules[0].points > 0.0:
        _give_points(sim, pool_row, time_s)
        return
    active = 0
    for group_row in range(pool.first_group, pool.last_group):
        group = sim.groups[group_row]
        group.use = _use(sim, group.tenant, time_s)
        group.ratio = group.use / sim.tenants[group.tenant].share
        if group.length > 0 or group.running > 0:
            _sort_in(sim, active, group.ratio)
            active += 1
    in_band = int(np.ceil(sim.rules[0].band * active))
    if in_band > 0:
        cut = sim.ratios[in_band - 1]
        for group_row in range(pool.first_group, pool.last_group):
            group = sim.groups[group_row]
            group.ratio = max(group.ratio, cut)


@compiled_inner
def _sort_in(sim: Sim, count: int, ratio: float) -> None:
    """Put one more ratio among the first `count`, which rise."""
    k = count
    while k > 0 and sim.ratios[k - 1] > ratio:
        sim.ratios[k] = sim.ratios[k - 1]
        k -= 1
    sim.ratios[k] = ratio


@compiled_inline
def grant(sim: Sim, row: int) -> None:
    """Count what a pass gives to a job as used by its tenant already, for the rest of the pass."""
    rules = sim.rules[0]
    if rules.tenants == 0 or rules.points > 0.0:
        return
    job = sim.jobs[row]
    group = sim.groups[job.group]
    group.use += job.num_gpus * job.worth * (1.0 if rules.by_allocated else rules.lease_s)
    group.ratio = max(group.ratio, group.use / sim.tenants[group.tenant].share)


@compiled_inner
def _use(sim: Sim, tenant_row: int, time_s: float) -> float:
    if sim.rules[0].by_allocated:
        return float(sim.tenants[tenant_row].gpus_before)
    charge(sim, tenant_row, time_s)
    return float(sim.tenants[tenant_row].received)


@compiled_inner
def _give_points(sim: Sim, pool_row: int, time_s: float) -> None:
    """As Slurm's classic fair-share factor: by a tenant's part of all use."""
    pool = sim.pools[pool_row]
    total = 0.0
    for tenant_row in range(len(sim.tenants)):
        total += _use(sim, tenant_row, time_s)
    for group_row in range(pool.first_group, pool.last_group):
        group = sim.groups[group_row]
        part = _use(sim, group.tenant, time_s) / total if total > 0.0 else 0.0
        group.offset = sim.rules[0].points * 0.5 ** (part / sim.tenants[group.tenant].share)
