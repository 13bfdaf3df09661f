"""Jobs that hold GPUs: they start, make progress, are preempted, end, and give back."""

from __future__ import annotations

import numpy as np

from gsched.sim.core.allocation import (
    find_for,
    give_back_of,
    ready_of,
    speed_of,
    take_for,
    worth_of,
)
from gsched.sim.core.compiled import compiled_inline, compiled_inner, compiled_lean
from gsched.sim.core.events import drop_event, set_event
from gsched.sim.core.failures import kept_work_s
from gsched.sim.core.queues import enter, leave
from gsched.sim.core.sharing import best_host, pair, part
from gsched.sim.core.state import CLOSING, ENDED, GIVEN_UP, NONE, RUNNING, SAVING, Sim
from gsched.sim.core.tenants import charge


@compiled_lean
def start_if_fits(sim: Sim, row: int, time_s: float) -> bool:
    """Start a waiting job on free GPUs, or beside another; False where it fits on none."""
    pieces = find_for(sim, row)
    if pieces == 0:
        return _join(sim, row, time_s)
    start_on(sim, row, time_s, pieces)
    return True


@compiled_inline
def start_on(sim: Sim, row: int, time_s: float, pieces: int) -> None:
    """Start a waiting job on the pieces that were found for it."""
    leave(sim, row)
    node = take_for(sim, row, pieces, time_s)
    start(sim, row, time_s, node, pieces)


@compiled_inner
def _join(sim: Sim, row: int, time_s: float) -> bool:
    """Start a waiting job on the GPUs of a running one, where jobs share."""
    host = best_host(sim, row)
    if host == NONE:
        return False
    leave(sim, row)
    pair(sim, row, host)
    node = np.int64(sim.segments[sim.jobs[host].segment].node)
    start(sim, row, time_s, node, np.int64(sim.jobs[host].pieces))
    set_rate(sim, host, time_s, speed_of(sim, host))
    return True


@compiled_inline
def start(sim: Sim, row: int, time_s: float, node: int, pieces: int) -> None:
    """Let a job that has left its queue run on what it has been given, from `node` on."""
    job = sim.jobs[row]
    rules = sim.rules[0]
    _hold(sim, row, time_s, node)
    ready_s = ready_of(sim, row, time_s)
    overhead_s = rules.launch_s + job.owed_s
    job.owed_s = 0.0
    if job.attempts > 0:
        overhead_s += _restart_s(sim, row, pieces)
    job.attempts += 1
    job.phase = RUNNING
    job.pieces = pieces
    job.ready_s = ready_s
    job.rate = speed_of(sim, row)
    job.progress_from_s = ready_s + overhead_s
    job.leased_until_s = time_s + rules.lease_s
    if np.isnan(job.start_s):
        job.start_s = ready_s
    plan_event(sim, row)


@compiled_inline
def _restart_s(sim: Sim, row: int, pieces: int) -> float:
    rules = sim.rules[0]
    if pieces > 1:
        return float(rules.restart_wide_s)
    is_one = sim.jobs[row].num_gpus == 1
    return float(rules.restart_one_gpu_s if is_one else rules.restart_s)


@compiled_inline
def plan_event(sim: Sim, row: int) -> None:
    """Wake up when a running job will end or reach the next level, whatever comes first."""
    set_event(sim, row, min(end_of(sim, row), _next_level_s(sim, row)))


@compiled_inline
def end_of(sim: Sim, row: int) -> float:
    """When a running job will end if nothing changes."""
    job = sim.jobs[row]
    return float(job.progress_from_s + job.work_left_s / job.rate)


@compiled_inline
def advance_work(sim: Sim, row: int, time_s: float) -> None:
    """Book the progress of a running job up to now."""
    job = sim.jobs[row]
    if time_s > job.progress_from_s:
        job.work_left_s = max(0.0, job.work_left_s - job.rate * (time_s - job.progress_from_s))
        job.progress_from_s = time_s


@compiled_inner
def set_rate(sim: Sim, row: int, time_s: float, rate: float) -> None:
    """Let a running job go on at another speed."""
    advance_work(sim, row, time_s)
    sim.jobs[row].rate = rate
    plan_event(sim, row)


@compiled_lean
def preempt(sim: Sim, row: int, time_s: float) -> None:
    """Take a running job off its GPUs, once it has saved what it did.

    Who is still starting has the rest of that before it the next time, too: no preemption is
    cheaper because it comes soon after another. Not so what its nodes took to wake up.
    """
    job = sim.jobs[row]
    job.owed_s = max(0.0, job.progress_from_s - max(time_s, job.ready_s))
    advance_work(sim, row, time_s)
    job.saved_s = job.duration_s - job.work_left_s
    job.preemptions += 1
    if sim.rules[0].checkpoint_s > 0.0:
        job.phase = SAVING
        set_event(sim, row, time_s + sim.rules[0].checkpoint_s)
    else:
        requeue(sim, row, time_s)


@compiled_inner
def requeue(sim: Sim, row: int, time_s: float) -> None:
    """Let a job that holds GPUs give them back and wait again."""
    if sim.jobs[row].start_s > time_s:  # its nodes were still waking up
        sim.jobs[row].start_s = np.nan
    drop_event(sim, row)
    release(sim, row, time_s)
    enter(sim, row, time_s)


@compiled_inner
def fail(sim: Sim, row: int, time_s: float) -> None:
    """A node of a running job has failed: it goes back to its last checkpoint and waits again."""
    job = sim.jobs[row]
    advance_work(sim, row, time_s)
    done_s = job.duration_s - job.work_left_s - job.saved_s
    job.saved_s += kept_work_s(done_s, sim.rules[0].checkpoint_every_s)
    job.work_left_s = job.duration_s - job.saved_s
    job.failures += 1
    if job.failures > sim.rules[0].max_requeues:
        job.phase = GIVEN_UP
        _leave_for_good(sim, row, time_s)
    else:
        requeue(sim, row, time_s)


@compiled_inline
def job_due(sim: Sim, row: int, time_s: float) -> None:
    """Do what is due for a job now: it reaches a level, ends, has saved or is cleaned up."""
    job = sim.jobs[row]
    if job.phase == SAVING:
        requeue(sim, row, time_s)
    elif job.phase == CLOSING:
        job.phase = ENDED
        _leave_for_good(sim, row, time_s)
    elif end_of(sim, row) <= time_s:
        _end(sim, row, time_s)
    else:
        job.level += 1
        sim.pools[job.pool].is_dirty = 1
        plan_event(sim, row)


@compiled_inline
def release(sim: Sim, row: int, time_s: float) -> None:
    """Take a job's GPUs; it is nowhere then, and the caller says where it goes."""
    job = sim.jobs[row]
    pool = sim.pools[job.pool]
    sim.segments[job.segment].end_s = time_s
    job.held_s += time_s - job.held_from_s
    _count_gpus(sim, row, time_s, -job.num_gpus)
    partner = part(sim, row)
    if partner == NONE:
        give_back_of(sim, row, time_s)
    else:
        set_rate(sim, partner, time_s, speed_of(sim, partner))
    pool.is_dirty = 1
    pool.running -= 1
    sim.groups[job.group].running -= 1
    sim.now[0].running -= 1
    last = sim.runners[pool.first_runner + pool.running]
    sim.runners[job.runner] = last
    sim.jobs[last].runner = job.runner
    job.runner = NONE


@compiled_inline
def _hold(sim: Sim, row: int, time_s: float, node: int) -> None:
    job = sim.jobs[row]
    pool = sim.pools[job.pool]
    job.held_from_s = time_s
    if sim.rules[0].weighted:
        job.worth = worth_of(sim, row)
    _count_gpus(sim, row, time_s, job.num_gpus)
    job.segment = sim.now[0].segments
    segment = sim.segments[job.segment]
    segment.job = row
    segment.node = node
    segment.shared = job.partner
    segment.start_s = time_s
    segment.end_s = np.nan
    sim.now[0].segments += 1
    job.runner = pool.first_runner + pool.running
    sim.runners[job.runner] = row
    pool.running += 1
    sim.groups[job.group].running += 1
    sim.now[0].running += 1


@compiled_inline
def _count_gpus(sim: Sim, row: int, time_s: float, more: int) -> None:
    job = sim.jobs[row]
    charge(sim, job.tenant, time_s)
    sim.tenants[job.tenant].gpus += more * job.worth
    if job.partner == NONE:
        sim.now[0].gpus_used += more


@compiled_inline
def _end(sim: Sim, row: int, time_s: float) -> None:
    job = sim.jobs[row]
    advance_work(sim, row, time_s)
    job.work_left_s = 0.0
    job.end_s = time_s
    if sim.rules[0].cleanup_s > 0.0 and job.partner == NONE:
        job.phase = CLOSING
        sim.pools[job.pool].is_dirty = 1  # its GPUs are as good as free
        set_event(sim, row, time_s + sim.rules[0].cleanup_s)
    else:
        job.phase = ENDED
        _leave_for_good(sim, row, time_s)


@compiled_inner
def _leave_for_good(sim: Sim, row: int, time_s: float) -> None:
    drop_event(sim, row)
    release(sim, row, time_s)
    sim.now[0].open_jobs -= 1


@compiled_inline
def _next_level_s(sim: Sim, row: int) -> float:
    """When a running job will have received as much as the next level begins with."""
    job = sim.jobs[row]
    if job.level >= sim.rules[0].levels:
        return np.inf
    return float(job.held_from_s + sim.bounds[job.level] / job.num_gpus - job.held_s)
