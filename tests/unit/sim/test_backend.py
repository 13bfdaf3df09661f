"""The simulated cluster and the replay of policies on it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.sim import SimJob, TruePredictor, job, simulated, started

from gsched.model.cluster import ClusterState
from gsched.model.job import JobKey, JobState
from gsched.policy.fifo import Fifo
from gsched.policy.qssf import Qssf
from gsched.sim.backend import SimBackend
from gsched.sim.replay import replay


def starts(jobs: list[SimJob], policy: Fifo | Qssf, num_nodes: int = 1) -> dict[int, int]:
    backend = SimBackend(*simulated(jobs, num_nodes))
    replay(backend, policy, TruePredictor(jobs))
    return {key.job_id: start for key, start in started(backend).items()}


def seen(backend: SimBackend) -> ClusterState:
    backend.look()
    return backend.snapshot({})


def test_fifo_and_qssf_by_hand() -> None:
    """Eight GPUs; job 1 takes all for 10 s, then 2 (long) and 3 (short) wait with 8 GPUs each."""
    jobs = [job(1, 8, 10, 0), job(2, 8, 100, 1), job(3, 8, 5, 2)]
    assert starts(jobs, Fifo()) == {1: 0, 2: 10, 3: 110}
    assert starts(jobs, Qssf()) == {1: 0, 3: 10, 2: 15}


def test_the_first_that_does_not_fit_blocks_the_rest() -> None:
    jobs = [job(1, 6, 10, 0), job(2, 8, 10, 1), job(3, 1, 10, 2)]
    assert starts(jobs, Fifo()) == {1: 0, 2: 10, 3: 20}


def test_gangs_take_whole_nodes_and_best_fit_keeps_nodes_whole() -> None:
    jobs = [job(1, 2, 50, 0), job(2, 4, 50, 0), job(3, 8, 5, 1)]
    backend = SimBackend(*simulated(jobs, num_nodes=2))
    backend.advance()
    backend.start_jobs()
    state = seen(backend)
    running = [v for v in state.jobs.views if v.state is JobState.RUNNING]
    used = {v.key.job_id: v.allocation.nodes for v in running if v.allocation}
    assert used[1] == used[2]
    assert sorted(n.gpus_used for n in state.nodes) == [0, 6]


@pytest.mark.parametrize(
    ("gpus", "num_nodes", "per_node"),
    [(4, 1, (4,)), (4, 2, (2, 2)), (5, 2, (3, 2)), (7, 3, (3, 2, 2)), (1, 2, (1,))],
)
def test_a_gang_gets_its_nodes_and_equal_parts_of_its_gpus(
    gpus: int, num_nodes: int, per_node: tuple[int, ...]
) -> None:
    backend = SimBackend(*simulated([job(1, gpus, 50, 0, num_nodes=num_nodes)], num_nodes=3))
    backend.advance()
    backend.start_jobs()
    state = seen(backend)
    allocation = state.jobs.views[0].allocation
    assert allocation is not None
    assert allocation.gpus == per_node
    assert len(set(allocation.nodes)) == len(per_node)
    used = {n.name: n.gpus_used for n in state.nodes if n.gpus_used}
    assert used == dict(zip(allocation.nodes, allocation.gpus, strict=True))
    backend.advance()
    assert [n.gpus_used for n in seen(backend).nodes] == [0, 0, 0]


def test_an_allocation_tells_when_it_began() -> None:
    backend = SimBackend(*simulated([job(1, 8, 10, 5), job(2, 8, 10, 7)]))
    began = {}
    while backend.advance():
        backend.start_jobs()
        for view in seen(backend).jobs.views:
            if view.allocation:
                began[view.key.job_id] = view.allocation.start_time
    assert began == {1: 5, 2: 15}


def test_a_change_names_the_attempt_and_the_value_that_it_replaces() -> None:
    jobs = [job(1, 8, 10, 5, attempt=70), job(2, 8, 10, 5, attempt=80)]
    backend = SimBackend(*simulated(jobs))
    backend.advance()
    state = seen(backend)
    decision = Fifo().decide(state, {}, backend.now)
    changes = backend.plan(decision, state, "").changes
    made = {c.key.job_id: (c.attempt, c.before, c.after) for c in changes}
    assert made == {1: (70, 0, 2**59), 2: (80, 0, -(2**59))}


def test_a_change_of_a_job_that_has_started_is_rejected_and_the_others_are_made() -> None:
    backend = SimBackend(*simulated([job(n, 8, 10, 5) for n in (1, 2, 3)]))
    backend.advance()
    state = seen(backend)
    changes = backend.plan(Fifo().decide(state, {}, backend.now), state, "r").changes
    moved = [replace(c, after=c.key.job_id) for c in changes] + [
        replace(changes[0], change_id="r/2", key=jobs_key(state, 2), after=2)
    ]
    assert [key.job_id for key in backend.start_jobs()] == [1]
    outcomes = {o.change_id: (o.accepted, o.error) for o in backend.apply(moved)}
    assert outcomes == {"r/1": (False, "not pending"), "r/2": (True, ""), "r/3": (True, "")}
    shown = {r.change_id: (r.value, r.present) for r in backend.read_back(moved)}
    assert shown == {"r/1": (None, False), "r/2": (2, True), "r/3": (3, True)}
    assert [key.job_id for key in backend.pending_order()] == [3, 2]


def jobs_key(state: ClusterState, job_id: int) -> JobKey:
    return next(key for key in state.jobs.keys if key.job_id == job_id)


@given(st.lists(st.integers(1, 99), min_size=1, max_size=20))
def test_one_gpu_at_a_time_qssf_has_the_least_mean_wait(durations: list[int]) -> None:
    """On one machine without preemption shortest-first is optimal in mean waiting time."""
    jobs = [job(i, 8, d, 0) for i, d in enumerate(durations, 1)]
    started = starts(jobs, Qssf())
    shortest_first = sorted(durations)
    best = sum(sum(shortest_first[:i]) for i in range(len(durations)))
    assert sum(started.values()) == best
