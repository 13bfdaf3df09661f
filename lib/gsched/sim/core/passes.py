"""A pass: who of a pool's jobs starts now, and who gives way."""

from __future__ import annotations

from gsched.sim.core.allocation import reachable_gpus
from gsched.sim.core.backfill import (
    backfill_behind,
    ends_before_closing,
    start_if_not_refused,
)
from gsched.sim.core.compiled import compiled_inline, compiled_inner, compiled_lean
from gsched.sim.core.entitlement import note_entitled
from gsched.sim.core.events import set_event
from gsched.sim.core.queues import least_waiting_size
from gsched.sim.core.running import preempt, start_if_fits
from gsched.sim.core.state import (
    BACKFILL,
    BLOCK,
    BLOCK_TENANT,
    NONE,
    RUNNING,
    SKIP,
    STARVING,
    WAITING,
    Sim,
)
from gsched.sim.core.tenants import grant, note_use
from gsched.sim.core.walk import begin_walk, next_job, next_runner, step_over, step_over_tenant

_NO_SIZE = 1 << 40


@compiled_lean
def schedule(sim: Sim, time_s: float) -> None:
    """A pass over every pool where something has happened, or at the next round's time.

    What happens in one pool changes what tenants use, and so the order in all.
    """
    round_s = sim.rules[0].round_s
    if sim.rules[0].by_allocated:
        note_use(sim)
    if sim.rules[0].by_share and (round_s == 0.0 or time_s % round_s == 0.0):
        note_entitled(sim, time_s)
    for pool_row in range(len(sim.pools)):
        pool = sim.pools[pool_row]
        if not (pool.is_dirty or (sim.rules[0].tenants and pool.waiting > 0)):
            continue
        if round_s > 0.0 and time_s % round_s != 0.0:
            set_event(sim, pool_event(sim, pool_row), (time_s // round_s + 1.0) * round_s)
            continue
        pool.is_dirty = 0
        if pool.waiting > 0:
            sim.now[0].passes += 1
            if sim.rules[0].preempts:
                _rearrange(sim, pool_row, time_s)
            else:
                _fill(sim, pool_row, time_s)


@compiled_inner
def pool_event(sim: Sim, pool_row: int) -> int:
    """The id of a pool's event: a lease ends there, or a round is due."""
    return len(sim.jobs) + len(sim.nodes) + pool_row


@compiled_inner
def _fill(sim: Sim, pool_row: int, time_s: float) -> None:
    """Start waiting jobs in order on what is free; nobody gives way.

    Nothing is skipped or started out of turn over the head of a job that starves.
    """
    misfit = sim.rules[0].misfit
    if least_waiting_size(sim, pool_row) > reachable_gpus(sim, pool_row):
        return
    begin_walk(sim, pool_row, time_s)
    too_large = _NO_SIZE  # from this size on nothing fits
    while True:
        room = min(reachable_gpus(sim, pool_row) + 1, too_large)
        if least_waiting_size(sim, pool_row) >= room:
            return
        row = next_job(sim, pool_row)
        if row == NONE:
            return
        if not ends_before_closing(sim, pool_row, row, time_s):
            step_over(sim, row)
            continue
        job = sim.jobs[row]
        if job.num_gpus < room and start_if_not_refused(sim, row, time_s):
            grant(sim, row)
            continue
        if misfit == BACKFILL:
            backfill_behind(sim, pool_row, row, time_s)
        if job.level == STARVING:
            return
        if misfit == BLOCK_TENANT:
            step_over_tenant(sim, row)
            continue
        if misfit != SKIP:
            return
        if job.num_nodes == 0 and job.gpu_type == NONE and not sim.rules[0].sharing:
            too_large = min(too_large, job.num_gpus)
        step_over(sim, row)


@compiled_inner
def _rearrange(sim: Sim, pool_row: int, time_s: float) -> None:
    """Choose in order who shall run, as far as the GPUs of the pool go; the others give way.

    Chosen by number of GPUs: whom the nodes' fragments then refuse waits, and what it was given
    stays free.
    """
    pool = sim.pools[pool_row]
    quota = pool.gpus_up - _leased_gpus(sim, pool_row, time_s)
    least = least_waiting_size(sim, pool_row)
    if quota < least:  # nobody can start, so nobody has to give way
        _renew_leases(sim, pool_row, time_s)
        _wake_at_lease_end(sim, pool_row, time_s)
        return
    begin_walk(sim, pool_row, time_s)
    begin = sim.groups[pool.first_group].begin
    starting = 0
    leaving = 0
    is_blocked = False
    while starting < pool.waiting or leaving < pool.running:
        if quota < least:
            is_blocked = True
        row = next_runner(sim, pool_row) if is_blocked else next_job(sim, pool_row)
        if row == NONE:
            break
        step_over(sim, row)
        job = sim.jobs[row]
        fits = job.num_gpus <= quota
        if job.phase == WAITING:
            if fits:
                sim.chosen[begin + starting] = row
                starting += 1
            elif sim.rules[0].misfit == BLOCK:
                is_blocked = True
            elif sim.rules[0].misfit == BLOCK_TENANT:
                step_over_tenant(sim, row)
        elif job.leased_until_s <= time_s:
            if fits:
                job.leased_until_s = time_s + sim.rules[0].lease_s
            else:
                sim.leaving[pool.first_runner + leaving] = row
                leaving += 1
        else:
            continue
        if fits:
            quota -= job.num_gpus
            grant(sim, row)
    for i in range(pool.first_runner, pool.first_runner + leaving):
        preempt(sim, sim.leaving[i], time_s)
    for i in range(begin, begin + starting):
        start_if_fits(sim, sim.chosen[i], time_s)
    _wake_at_lease_end(sim, pool_row, time_s)


@compiled_inner
def _leased_gpus(sim: Sim, pool_row: int, time_s: float) -> int:
    """GPUs that jobs keep because their lease still runs.

    A lease that ended while nobody waited counts as renewed, as often as needed.
    """
    pool = sim.pools[pool_row]
    lease_s = sim.rules[0].lease_s
    gpus = 0
    if lease_s == 0.0:
        return gpus
    for i in range(pool.first_runner, pool.first_runner + pool.running):
        job = sim.jobs[sim.runners[i]]
        if job.phase != RUNNING:
            continue
        due_s = _round_at(sim, job.leased_until_s)
        if due_s < time_s:
            period_s = _round_at(sim, lease_s)
            times = -(-(time_s - due_s) // period_s)
            job.leased_until_s = due_s + (times - 1.0) * period_s + lease_s
        if job.leased_until_s > time_s:
            gpus += job.num_gpus
    return gpus


@compiled_inline
def _round_at(sim: Sim, time_s: float) -> float:
    """The first round at or after that; the time itself without rounds."""
    round_s = sim.rules[0].round_s
    if round_s == 0.0:
        return time_s
    return float(-(-time_s // round_s) * round_s)


@compiled_inner
def _renew_leases(sim: Sim, pool_row: int, time_s: float) -> None:
    """Let all whose lease is over have a new one."""
    pool = sim.pools[pool_row]
    for i in range(pool.first_runner, pool.first_runner + pool.running):
        job = sim.jobs[sim.runners[i]]
        if job.phase == RUNNING and job.leased_until_s <= time_s:
            job.leased_until_s = time_s + sim.rules[0].lease_s


@compiled_inner
def _wake_at_lease_end(sim: Sim, pool_row: int, time_s: float) -> None:
    """Look again when the next lease ends, where somebody waits for it."""
    pool = sim.pools[pool_row]
    if pool.waiting == 0 or sim.rules[0].lease_s == 0.0:
        return
    soonest = float("inf")
    for i in range(pool.first_runner, pool.first_runner + pool.running):
        job = sim.jobs[sim.runners[i]]
        if job.phase == RUNNING and job.leased_until_s > time_s:
            soonest = min(soonest, job.leased_until_s)
    if soonest < float("inf"):
        set_event(sim, pool_event(sim, pool_row), soonest)
