"""The cluster at regular times, and what adds up over time."""

from __future__ import annotations

from gsched.sim.core.compiled import compiled_inline, compiled_lean
from gsched.sim.core.nodes import FREE, WHOLE
from gsched.sim.core.state import Sim


@compiled_inline
def pass_time(sim: Sim, time_s: float) -> None:
    """Go to `time_s`, and book what has been the case until then."""
    now = sim.now[0]
    passed_s = time_s - now.time_s
    now.used_gpu_s += passed_s * now.gpus_used
    now.asleep_node_s += passed_s * now.asleep
    now.down_node_s += passed_s * now.down
    now.time_s = time_s


@compiled_lean
def samples_due(sim: Sim, time_s: float) -> int:
    """How many samples lie before `time_s`."""
    now = sim.now[0]
    if time_s <= now.next_sample_s:
        return 0
    return int((time_s - now.next_sample_s) / sim.rules[0].sample_s) + 2


@compiled_lean
def sample_until(sim: Sim, time_s: float) -> None:
    """Take the samples that lie before `time_s`: nothing has changed since the last event."""
    while sim.now[0].next_sample_s < time_s:
        take_sample(sim)


@compiled_lean
def take_sample(sim: Sim) -> None:
    """Note how the cluster is at the next sample's time."""
    now = sim.now[0]
    sample = sim.samples[now.samples]
    sample.time_s = now.next_sample_s
    sample.gpus_used = now.gpus_used
    sample.gpus_free = sim.places.totals[FREE]
    sample.gpus_free_whole = sim.places.totals[WHOLE]
    sample.gpus_wanted = now.gpus_wanted
    sample.jobs_waiting = now.waiting
    sample.jobs_running = now.running
    sample.nodes_asleep = now.asleep
    sample.nodes_down = now.down
    now.samples += 1
    now.next_sample_s += sim.rules[0].sample_s
