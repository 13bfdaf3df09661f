"""The waiting jobs of each group, always in order: by level, key and row.

A group's jobs lie in a stretch of `Sim.queue` with room on both sides, so that a job that comes or
goes moves only those between it and the nearer end.
"""

from __future__ import annotations

import numpy as np

from gsched.sim.core.compiled import compiled_inline, compiled_inner, compiled_lean
from gsched.sim.core.entitlement import part_received
from gsched.sim.core.state import RUNNING, SAVING, STARVING, WAITING, Sim


@compiled_inline
def key_at(sim: Sim, row: int, time_s: float) -> float:
    """What the order form says of a job at a time."""
    job = sim.jobs[row]
    executed_s = job.held_s
    if job.phase == RUNNING or job.phase == SAVING:
        executed_s += time_s - job.held_from_s
    rules = sim.rules[0]
    elapsed_s = min(time_s - job.submit_s, rules.elapsed_cap_s)
    capped_s = min(executed_s, rules.executed_cap_s)
    key = job.constant + job.per_executed_s * capped_s + job.per_elapsed_s * elapsed_s
    if rules.by_share and job.entitled_gpu_s > 0.0:
        key += part_received(job.num_gpus * executed_s * job.worth, job.entitled_gpu_s)
    return float(key)


@compiled_inline
def is_before(sim: Sim, one: int, other: int) -> bool:
    """Whether a job comes before another of its group, by their last keys."""
    a = sim.jobs[one]
    b = sim.jobs[other]
    if a.level != b.level:
        return bool(a.level < b.level)
    if a.key != b.key:
        return bool(a.key < b.key)
    return one < other


@compiled_inline
def enter(sim: Sim, row: int, time_s: float) -> None:
    """Let a job wait from now on."""
    job = sim.jobs[row]
    job.phase = WAITING
    job.key = key_at(sim, row, time_s)
    if sim.rules[0].starvation_bound_s > 0.0:
        if _starves_from(sim, row) <= time_s:
            _put_in_front(sim, row)
        elif row < sim.now[0].next_starving:  # requeued after a failure
            sim.now[0].next_starving = row
    _insert(sim, row, job.group, _place_of(sim, row))
    pool = sim.pools[job.pool]
    pool.waiting += 1
    pool.is_dirty = 1
    sim.sizes[job.size].waiting += 1
    sim.now[0].waiting += 1
    sim.now[0].gpus_wanted += job.num_gpus


@compiled_inline
def leave(sim: Sim, row: int) -> None:
    """Take a job out of its queue; the caller gives it its new phase."""
    job = sim.jobs[row]
    _remove(sim, job.group, _place_of(sim, row))
    if job.level == STARVING:
        job.level = job.own_level
    sim.pools[job.pool].waiting -= 1
    sim.sizes[job.size].waiting -= 1
    sim.now[0].waiting -= 1
    sim.now[0].gpus_wanted -= job.num_gpus


@compiled_inner
def next_starving_s(sim: Sim) -> float:
    """When the next waiting job will have waited beyond the bound; infinite where none will."""
    if sim.rules[0].starvation_bound_s == 0.0:
        return np.inf
    row = sim.now[0].next_starving
    while row < sim.now[0].next_job and sim.jobs[row].phase != WAITING:
        row += 1
    sim.now[0].next_starving = row
    return np.inf if row == sim.now[0].next_job else _starves_from(sim, row)


@compiled_inner
def lift_starving(sim: Sim, time_s: float) -> None:
    """Put the waiting jobs in front that have come to wait for longer than the bound."""
    row = sim.now[0].next_starving
    while row < sim.now[0].next_job and _starves_from(sim, row) <= time_s:
        job = sim.jobs[row]
        if job.phase == WAITING and job.level != STARVING:
            _remove(sim, job.group, _place_of(sim, row))
            _put_in_front(sim, row)
            _insert(sim, row, job.group, _place_of(sim, row))
            sim.pools[job.pool].is_dirty = 1
        row += 1
    sim.now[0].next_starving = row


@compiled_inline
def _starves_from(sim: Sim, row: int) -> float:
    """The first whole second at which a job, if it waits, has waited longer than the bound.

    In whole seconds, as the daemon counts, and from the submission: a requeue ends no wait.
    """
    return float(np.floor(sim.jobs[row].submit_s) + sim.rules[0].starvation_bound_s + 1.0)


@compiled_inline
def _put_in_front(sim: Sim, row: int) -> None:
    """Let a job that is in no queue stand before all that do not starve, behind longer waiters."""
    job = sim.jobs[row]
    job.own_level = job.level
    job.level = STARVING
    job.key = np.floor(job.submit_s)


@compiled_inline
def least_waiting_size(sim: Sim, pool_row: int) -> int:
    """The GPUs of the smallest job that waits in a pool; huge where none does."""
    pool = sim.pools[pool_row]
    for size in range(pool.first_size, pool.last_size):
        if sim.sizes[size].waiting > 0:
            return int(sim.sizes[size].num_gpus)
    return 1 << 40


@compiled_inner
def sort_again(sim: Sim, group_row: int) -> None:
    """Put a group in order after its keys have changed; few of them have passed each other."""
    group = sim.groups[group_row]
    first = group.begin + group.head
    for i in range(first + 1, first + group.length):
        row = sim.queue[i]
        k = i
        while k > first and is_before(sim, row, sim.queue[k - 1]):
            sim.queue[k] = sim.queue[k - 1]
            k -= 1
        sim.queue[k] = row


@compiled_lean
def renew_keys(sim: Sim, pool_row: int, time_s: float) -> None:
    """Put the waiting jobs of a pool in the order of now, where keys move against each other."""
    pool = sim.pools[pool_row]
    for group_row in range(pool.first_group, pool.last_group):
        group = sim.groups[group_row]
        first = group.begin + group.head
        for i in range(first, first + group.length):
            if sim.jobs[sim.queue[i]].level != STARVING:
                sim.jobs[sim.queue[i]].key = key_at(sim, sim.queue[i], time_s)
        sort_again(sim, group_row)


@compiled_inline
def _place_of(sim: Sim, row: int) -> int:
    """How many of its group come before a job."""
    group = sim.groups[sim.jobs[row].group]
    first = group.begin + group.head
    low = first
    high = first + group.length
    while low < high:
        middle = (low + high) >> 1
        if is_before(sim, sim.queue[middle], row):
            low = middle + 1
        else:
            high = middle
    return int(low - first)


@compiled_inline
def _insert(sim: Sim, row: int, group_row: int, place: int) -> None:
    group = sim.groups[group_row]
    if group.head + group.length == group.room:
        _centre(sim, group_row)
    first = group.begin + group.head
    if group.head > 0 and 2 * place < group.length:
        for i in range(first, first + place):
            sim.queue[i - 1] = sim.queue[i]
        group.head -= 1
        first -= 1
    else:
        for i in range(first + group.length, first + place, -1):
            sim.queue[i] = sim.queue[i - 1]
    sim.queue[first + place] = row
    group.length += 1
    if place < group.cursor:
        group.cursor += 1


@compiled_inline
def _remove(sim: Sim, group_row: int, place: int) -> None:
    group = sim.groups[group_row]
    first = group.begin + group.head
    if 2 * place < group.length:
        for i in range(first + place, first, -1):
            sim.queue[i] = sim.queue[i - 1]
        group.head += 1
    else:
        for i in range(first + place, first + group.length - 1):
            sim.queue[i] = sim.queue[i + 1]
    group.length -= 1
    if place < group.cursor:
        group.cursor -= 1


@compiled_inner
def _centre(sim: Sim, group_row: int) -> None:
    """Move a group that has come to the end of its room back to the middle."""
    group = sim.groups[group_row]
    head = (group.room - group.length) >> 1
    for i in range(group.length):
        sim.queue[group.begin + head + i] = sim.queue[group.begin + group.head + i]
    group.head = head
