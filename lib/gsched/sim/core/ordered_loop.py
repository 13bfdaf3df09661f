"""Runs any order form over a whole trace, event by event."""

from __future__ import annotations

import numpy as np

from gsched.model.progress import Progress
from gsched.policy.order_form import OrderForm
from gsched.sim.cluster import SimCluster
from gsched.sim.core import steps
from gsched.sim.core.build import make_sim, with_more_room
from gsched.sim.core.effects import energy_wh
from gsched.sim.core.recording import samples_due, take_sample
from gsched.sim.core.state import Sim
from gsched.sim.jobs import SimJobs
from gsched.sim.result import Samples, Segments, SimResult
from gsched.sim.rules import SimRules

_MOMENTS = 20_000  # between two looks at what the person at the keyboard wants


def run_ordered(
    jobs: SimJobs,
    cluster: SimCluster,
    form: OrderForm,
    rules: SimRules,
    policy: str,
    told: Progress,
) -> SimResult:
    """What the order `form` would have done; the part so far after Ctrl-C."""
    sim = make_sim(jobs, cluster, form, rules)
    interrupted = False
    try:
        while True:
            status = steps.run_some(sim, _MOMENTS)
            told("jobs ended", len(jobs) - int(sim.now["open_jobs"][0]))
            if status == steps.DONE:
                break
            if status == steps.FULL:
                sim = with_more_room(sim, samples_due(sim, steps.next_event_s(sim)))
    except KeyboardInterrupt:
        interrupted = True
    return result_of(sim, jobs, cluster, rules, policy, "ordered", interrupted)


def result_of(
    sim: Sim,
    jobs: SimJobs,
    cluster: SimCluster,
    rules: SimRules,
    policy: str,
    path: str,
    interrupted: bool,
) -> SimResult:
    """The columns of what has happened so far."""
    table = sim.jobs
    now = sim.now[0]
    holding = table["runner"] >= 0
    run_s = table["held_s"] + np.where(holding, now["time_s"] - table["held_from_s"], 0.0)
    done_s = table["duration_s"] - table["work_left_s"]
    segments = sim.segments[: now["segments"]]
    segments = segments[np.lexsort((segments["job"], segments["start_s"]))]
    return SimResult(
        policy=policy,
        jobs=jobs,
        cluster=cluster,
        rules=rules,
        start_s=table["start_s"].copy(),
        end_s=table["end_s"].copy(),
        run_s=run_s,
        lost_s=np.maximum(run_s - done_s, 0.0),
        preemptions=table["preemptions"].astype(np.int32),
        failures=table["failures"].astype(np.int32),
        segments=Segments(
            job=segments["job"].copy(),
            start_s=segments["start_s"].copy(),
            end_s=segments["end_s"].copy(),
            node=segments["node"].copy(),
            shared=segments["shared"].copy(),
        ),
        samples=_samples(sim),
        energy_wh=_energy_wh(sim, jobs, cluster, rules),
        wakes=int(now["wakes"]),
        path=path,
        interrupted=interrupted,
    )


def _samples(sim: Sim) -> Samples:
    """All samples taken, and one at or after the last event."""
    if len(sim.samples) == sim.now[0]["samples"]:
        sim = with_more_room(sim, 1)
    if sim.now[0]["next_sample_s"] - sim.rules[0]["sample_s"] < sim.now[0]["time_s"]:
        take_sample(sim)
    taken = sim.samples[: sim.now[0]["samples"]]
    return Samples(**{name: taken[name].copy() for name in taken.dtype.names or ()})


def _energy_wh(sim: Sim, jobs: SimJobs, cluster: SimCluster, rules: SimRules) -> float:
    now = sim.now[0]
    span_s = now["time_s"] - jobs.submit_s[0] if len(jobs) else 0.0
    node_s = cluster.num_nodes * span_s - now["down_node_s"]
    return energy_wh(rules.power, node_s, now["asleep_node_s"], now["used_gpu_s"])
