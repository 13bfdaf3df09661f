"""The simulated cluster and the replay of policies on it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.sim import TruePredictor, job, nodes

from gsched.model.cluster import ClusterState
from gsched.model.job import JobKey, JobState
from gsched.policy.fifo import Fifo
from gsched.policy.qssf import Qssf
from gsched.sim.backend import SimBackend, SimJob
from gsched.sim.replay import replay


def starts(jobs: list[SimJob], policy: Fifo | Qssf, num_nodes: int = 1) -> dict[int, int]:
    backend = SimBackend("c", nodes(num_nodes), jobs)
    started = replay(backend, policy, TruePredictor(jobs))
    return {key.job_id: start for key, start in started.items()}


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
    backend = SimBackend("c", nodes(2), [job(1, 2, 50, 0), job(2, 4, 50, 0), job(3, 8, 5, 1)])
    backend.advance()
    backend.start_jobs()
    state = seen(backend)
    running = [v for v in state.jobs.views if v.state is JobState.RUNNING]
    used = {v.key.job_id: v.allocation.nodes for v in running if v.allocation}
    assert used[1] == used[2]
    assert sorted(n.gpus_used for n in state.nodes) == [0, 6]


@pytest.mark.parametrize(
    ("gpus", "num_nodes", "per_node"),
    [(4, 1, (4,)), (4, 2, (2, 2)), (5, 2, (3, 3)), (7, 3, (3, 3, 3)), (1, 2, (1, 1))],
)
def test_a_gang_gets_its_nodes_and_as_many_gpus_on_each_rounded_up(
    gpus: int, num_nodes: int, per_node: tuple[int, ...]
) -> None:
    backend = SimBackend("c", nodes(3), [job(1, gpus, 50, 0, num_nodes=num_nodes)])
    backend.advance()
    backend.start_jobs()
    state = seen(backend)
    allocation = state.jobs.views[0].allocation
    assert allocation is not None
    assert allocation.gpus == per_node
    assert len(set(allocation.nodes)) == num_nodes
    used = {n.name: n.gpus_used for n in state.nodes if n.gpus_used}
    assert used == dict(zip(allocation.nodes, allocation.gpus, strict=True))
    backend.advance()
    assert [n.gpus_used for n in seen(backend).nodes] == [0, 0, 0]


def test_an_allocation_tells_when_it_began() -> None:
    backend = SimBackend("c", nodes(), [job(1, 8, 10, 5), job(2, 8, 10, 7)])
    began = {}
    while backend.advance():
        backend.start_jobs()
        for view in seen(backend).jobs.views:
            if view.allocation:
                began[view.key.job_id] = view.allocation.start_time
    assert began == {1: 5, 2: 15}


@pytest.mark.parametrize(
    ("gpus", "num_nodes", "fits"), [(8, 1, True), (9, 1, False), (16, 2, True), (3, 3, False)]
)
def test_a_job_that_can_never_fit_is_refused(gpus: int, num_nodes: int, fits: bool) -> None:
    jobs = [job(1, gpus, num_nodes=num_nodes)]
    if fits:
        assert starts(jobs, Fifo(), num_nodes=2) == {1: 100}
        return
    with pytest.raises(ValueError, match="job 1 can never fit"):
        SimBackend("c", nodes(2), jobs)


def test_a_change_names_the_attempt_and_the_value_that_it_replaces() -> None:
    jobs = [job(1, 8, 10, 5, attempt=70), job(2, 8, 10, 5, attempt=80)]
    backend = SimBackend("c", nodes(), jobs)
    backend.advance()
    state = seen(backend)
    decision = Fifo().decide(state, {}, backend.now)
    changes = backend.plan(decision, state, "").changes
    made = {c.key.job_id: (c.attempt, c.before, c.after) for c in changes}
    assert made == {1: (70, 0, 500_000), 2: (80, 0, -500_000)}


def test_a_change_of_a_job_that_has_started_is_rejected_and_the_others_are_made() -> None:
    backend = SimBackend("c", nodes(), [job(1, 8, 10, 5), job(2, 8, 10, 5), job(3, 8, 10, 5)])
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


job_lists = st.lists(
    st.tuples(st.integers(1, 8), st.integers(1, 50), st.integers(0, 60)), min_size=1, max_size=25
).map(lambda rows: [job(i, g, d, s) for i, (g, d, s) in enumerate(rows, 1)])


@given(job_lists)
def test_capacity_holds_and_every_job_starts_once_after_its_submit(jobs: list[SimJob]) -> None:
    for policy in (Fifo(), Qssf()):
        started = starts(jobs, policy, num_nodes=2)
        assert started.keys() == {j.view.key.job_id for j in jobs}
        by_id = {j.view.key.job_id: j for j in jobs}
        for at in started.values():
            running = [
                by_id[i].view.request.gpus.minimum
                for i, start in started.items()
                if start <= at < start + by_id[i].duration_s
            ]
            assert sum(running) <= 16
        assert all(started[i] >= j.view.first_submit for i, j in by_id.items())


@given(job_lists, st.randoms())
def test_the_order_of_the_input_changes_nothing(jobs: list[SimJob], rng: object) -> None:
    shuffled = list(jobs)
    rng.shuffle(shuffled)  # type: ignore[attr-defined]
    assert starts(jobs, Qssf()) == starts(shuffled, Qssf())


@given(st.lists(st.integers(1, 99), min_size=1, max_size=20))
def test_one_gpu_at_a_time_qssf_has_the_least_mean_wait(durations: list[int]) -> None:
    """On one machine without preemption shortest-first is optimal in mean waiting time."""
    jobs = [job(i, 8, d, 0) for i, d in enumerate(durations, 1)]
    started = starts(jobs, Qssf())
    shortest_first = sorted(durations)
    best = sum(sum(shortest_first[:i]) for i in range(len(durations)))
    assert sum(started.values()) == best
