"""From one moment at which something happens to the next."""

from __future__ import annotations

from gsched.sim.core.compiled import compiled_inline, compiled_inner, compiled_lean
from gsched.sim.core.events import drop_event, first_event_s
from gsched.sim.core.node_events import node_event, stands_still
from gsched.sim.core.passes import schedule
from gsched.sim.core.queues import enter, lift_starving, next_starving_s
from gsched.sim.core.recording import pass_time, sample_until, samples_due
from gsched.sim.core.running import job_due, preempt, requeue, set_rate, start_if_fits
from gsched.sim.core.sleeping import put_to_sleep, sleep_from_now_on, wake_up
from gsched.sim.core.state import Sim

__all__ = [
    "advance",
    "next_event_s",
    "preempt",
    "put_to_sleep",
    "requeue",
    "run_some",
    "run_until",
    "schedule",
    "set_rate",
    "sleep_from_now_on",
    "stand_at",
    "start_if_fits",
    "wake_up",
]

DONE = 0
"""Nothing is left to happen."""
MORE = 1
"""It goes on."""
FULL = 2
"""There is no room for what comes next: make segments or samples longer."""


@compiled_lean
def next_event_s(sim: Sim) -> float:
    """When something happens next; infinite for never."""
    if stands_still(sim):
        return float("inf")
    soonest = first_event_s(sim)
    row = sim.now[0].next_job
    if row < len(sim.jobs):
        soonest = min(soonest, sim.jobs[row].submit_s)
    return min(soonest, next_starving_s(sim))


@compiled_lean
def advance(sim: Sim, time_s: float) -> None:
    """Do all that is due up to `time_s`: ends first, then submissions. Nothing is started.

    Last of all, who has waited beyond the starvation bound goes in front.
    """
    pass_time(sim, time_s)
    while first_event_s(sim) <= time_s:
        event_id = sim.heap[0]
        if event_id < len(sim.jobs):
            job_due(sim, event_id, time_s)
        else:
            _place_due(sim, event_id - len(sim.jobs), time_s)
    row = sim.now[0].next_job
    while row < len(sim.jobs) and sim.jobs[row].submit_s <= time_s:
        enter(sim, row, time_s)
        row += 1
    sim.now[0].next_job = row
    if sim.rules[0].starvation_bound_s > 0.0:
        lift_starving(sim, time_s)


@compiled_inner
def _place_due(sim: Sim, number: int, time_s: float) -> None:
    """Do what is due for a node or, behind the nodes, for a pool."""
    if number < len(sim.nodes):
        node_event(sim, number, time_s)
    else:
        drop_event(sim, len(sim.jobs) + number)
        sim.pools[number - len(sim.nodes)].is_dirty = 1


@compiled_lean
def run_some(sim: Sim, most: int) -> int:
    """Let up to `most` moments pass. Returns DONE, MORE or FULL."""
    for _ in range(most):
        time_s = next_event_s(sim)
        if sim.now[0].open_jobs == 0 or time_s == float("inf"):
            return DONE
        if not _pass_moment(sim, time_s):
            return FULL
    return MORE


@compiled_lean
def run_until(sim: Sim, until_s: float) -> int:
    """Let all moments up to `until_s` pass. Returns DONE, MORE (later ones are left) or FULL."""
    while True:
        time_s = next_event_s(sim)
        if sim.now[0].open_jobs == 0 or time_s == float("inf"):
            return DONE
        if time_s > until_s:
            return MORE
        if not _pass_moment(sim, time_s):
            return FULL


@compiled_lean
def stand_at(sim: Sim, time_s: float) -> bool:
    """Go to a time before the next event; False where there is no room for the samples."""
    if sim.now[0].samples + samples_due(sim, time_s) + 2 > len(sim.samples):
        return False
    sample_until(sim, time_s)
    pass_time(sim, time_s)
    return True


@compiled_inline
def _pass_moment(sim: Sim, time_s: float) -> bool:
    """Do what is due then, and start what can; False where there is no room to record it."""
    if sim.now[0].samples + samples_due(sim, time_s) + 2 > len(sim.samples):
        return False
    if sim.now[0].segments + len(sim.runners) > len(sim.segments):
        return False
    sample_until(sim, time_s)
    advance(sim, time_s)
    schedule(sim, time_s)
    return True
