"""When something happens to a job or a node next: an indexed heap, one entry an id at most.

Ids are rows of jobs and, behind them, rows of nodes; of simultaneous events the least id is first.
"""

from __future__ import annotations

from gsched.sim.core.compiled import compiled_inline
from gsched.sim.core.state import NONE, Sim


@compiled_inline
def first_event_s(sim: Sim) -> float:
    """The time of the soonest event; infinite where there is none."""
    if sim.now[0].heap_size == 0:
        return float("inf")
    return float(sim.heap_time[sim.heap[0]])


@compiled_inline
def set_event(sim: Sim, event_id: int, time_s: float) -> None:
    """Let the next event of `event_id` be at `time_s`, whenever it was before."""
    place = sim.heap_place[event_id]
    if place == NONE:
        place = sim.now[0].heap_size
        sim.now[0].heap_size = place + 1
        sim.heap_time[event_id] = time_s
        _rise(sim, place, event_id)
        return
    is_sooner = time_s < sim.heap_time[event_id]
    sim.heap_time[event_id] = time_s
    if is_sooner:
        _rise(sim, place, event_id)
    else:
        _sink(sim, place, event_id)


@compiled_inline
def drop_event(sim: Sim, event_id: int) -> None:
    """Let nothing happen to `event_id`."""
    place = sim.heap_place[event_id]
    if place == NONE:
        return
    sim.heap_place[event_id] = NONE
    size = sim.now[0].heap_size - 1
    sim.now[0].heap_size = size
    last = sim.heap[size]
    if last == event_id:
        return
    _rise(sim, place, last)
    _sink(sim, sim.heap_place[last], last)


@compiled_inline
def _is_before(sim: Sim, one: int, other: int) -> bool:
    if sim.heap_time[one] != sim.heap_time[other]:
        return bool(sim.heap_time[one] < sim.heap_time[other])
    return one < other


@compiled_inline
def _rise(sim: Sim, place: int, event_id: int) -> None:
    """Put `event_id` at `place` or as far above as it belongs."""
    while place > 0:
        above = (place - 1) >> 1
        other = sim.heap[above]
        if not _is_before(sim, event_id, other):
            break
        sim.heap[place] = other
        sim.heap_place[other] = place
        place = above
    sim.heap[place] = event_id
    sim.heap_place[event_id] = place


@compiled_inline
def _sink(sim: Sim, place: int, event_id: int) -> None:
    """Put `event_id` at `place` or as far below as it belongs."""
    size = sim.now[0].heap_size
    while True:
        below = 2 * place + 1
        if below >= size:
            break
        if below + 1 < size and _is_before(sim, sim.heap[below + 1], sim.heap[below]):
            below += 1
        other = sim.heap[below]
        if not _is_before(sim, other, event_id):
            break
        sim.heap[place] = other
        sim.heap_place[other] = place
        place = below
    sim.heap[place] = event_id
    sim.heap_place[event_id] = place
