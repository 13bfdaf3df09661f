"""Going through the jobs of a pool in order: tenants by ratio, those of equal ratio by key."""

from __future__ import annotations

from gsched.sim.core.compiled import compiled_inline, compiled_inner
from gsched.sim.core.queues import is_before, key_at, renew_keys
from gsched.sim.core.state import NONE, RUNNING, STARVING, Sim
from gsched.sim.core.tenants import rank_tenants


@compiled_inner
def begin_walk(sim: Sim, pool_row: int, time_s: float) -> None:
    """Bring the order of a pool up to now and stand before its first job.

    Where the order form preempts, running jobs are met too.
    """
    pool = sim.pools[pool_row]
    if sim.rules[0].moves:
        renew_keys(sim, pool_row, time_s)
    if sim.rules[0].tenants:
        rank_tenants(sim, pool_row, time_s)
    for group_row in range(pool.first_group, pool.last_group):
        group = sim.groups[group_row]
        group.cursor = 0
        group.run_from = 0
        group.run_to = 0
    if sim.rules[0].preempts:
        _sort_runners(sim, pool_row, time_s)


@compiled_inline
def next_job(sim: Sim, pool_row: int) -> int:
    """The first job that the walk has not stepped over, or NONE.

    A waiting job that is started leaves its queue, and the next one stands in its place.
    """
    pool = sim.pools[pool_row]
    if pool.last_group == pool.first_group + 1:
        return _next_of(sim, pool.first_group)
    best = NONE
    for group_row in range(pool.first_group, pool.last_group):
        row = _next_of(sim, group_row)
        if row != NONE and (best == NONE or _comes_before(sim, row, best)):
            best = row
    return best


@compiled_inline
def next_runner(sim: Sim, pool_row: int) -> int:
    """As `next_job`, of the running jobs alone."""
    pool = sim.pools[pool_row]
    best = NONE
    for group_row in range(pool.first_group, pool.last_group):
        group = sim.groups[group_row]
        if group.run_from < group.run_to:
            row = sim.runners[group.run_from]
            if best == NONE or _comes_before(sim, row, best):
                best = row
    return best


@compiled_inline
def step_over(sim: Sim, row: int) -> None:
    """Leave the job that `next_job` gave where it is, and go on."""
    group = sim.groups[sim.jobs[row].group]
    if group.run_from < group.run_to and sim.runners[group.run_from] == row:
        group.run_from += 1
    else:
        group.cursor += 1


@compiled_inner
def step_over_tenant(sim: Sim, row: int) -> None:
    """Meet no waiting job of this one's tenant any more; those that run are met still."""
    group = sim.groups[sim.jobs[row].group]
    group.cursor = group.length


@compiled_inline
def _next_of(sim: Sim, group_row: int) -> int:
    group = sim.groups[group_row]
    row = NONE
    if group.cursor < group.length:
        row = sim.queue[group.begin + group.head + group.cursor]
    if group.run_from < group.run_to:
        runner = sim.runners[group.run_from]
        if row == NONE or is_before(sim, runner, row):
            row = runner
    return row


@compiled_inner
def _comes_before(sim: Sim, one: int, other: int) -> bool:
    """Of jobs of different groups."""
    a = sim.jobs[one]
    b = sim.jobs[other]
    if a.level == STARVING or b.level == STARVING:  # whatever their tenants have used
        return is_before(sim, one, other)
    a_group = sim.groups[a.group]
    b_group = sim.groups[b.group]
    if a_group.ratio != b_group.ratio:
        return bool(a_group.ratio < b_group.ratio)
    if a.level != b.level:
        return bool(a.level < b.level)
    a_key = a.key - a_group.offset
    b_key = b.key - b_group.offset
    if a_key != b_key:
        return bool(a_key < b_key)
    return one < other


@compiled_inner
def _sort_runners(sim: Sim, pool_row: int, time_s: float) -> None:
    """Running jobs by group, in each by key: nearly as they were in the pass before.

    Behind them are those that hold GPUs but do not run any more.
    """
    pool = sim.pools[pool_row]
    first = pool.first_runner
    for i in range(first, first + pool.running):
        row = sim.runners[i]
        sim.jobs[row].key = key_at(sim, row, time_s)
        k = i
        while k > first and _runs_before(sim, row, sim.runners[k - 1]):
            sim.runners[k] = sim.runners[k - 1]
            k -= 1
        sim.runners[k] = row
    for i in range(first, first + pool.running):
        row = sim.runners[i]
        sim.jobs[row].runner = i
        if sim.jobs[row].phase != RUNNING:
            continue
        group = sim.groups[sim.jobs[row].group]
        if group.run_from == group.run_to:
            group.run_from = i
        group.run_to = i + 1


@compiled_inner
def _runs_before(sim: Sim, one: int, other: int) -> bool:
    a_runs = sim.jobs[one].phase == RUNNING
    b_runs = sim.jobs[other].phase == RUNNING
    if a_runs != b_runs:
        return bool(a_runs)
    a_group = sim.jobs[one].group
    b_group = sim.jobs[other].group
    if a_group != b_group:
        return bool(a_group < b_group)
    return is_before(sim, one, other)
