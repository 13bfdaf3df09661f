"""Who gets GPUs node by node, keeps them, or makes room."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.jobs import T0, snapshot, view

from gsched.model.cluster import NodeView
from gsched.model.job import Allocation, CountRange, GpuOption, JobState, Lease, LeaseState
from gsched.policy.chronus_turns import NodePass
from gsched.policy.pools import Pools

GPUS = 8
ONE_NODE = CountRange(1, 1)


def job(number, gpus, *, on=(), beneficiary="", nodes=ONE_NODE, gpu_type=None):
    """A waiting job; with `on` (GPUs by node) one that runs and may have to give way."""
    one = view(number, gpus=gpus)
    options = (GpuOption(gpu_type, gpus),) if gpu_type else ()
    one = replace(one, request=replace(one.request, nodes=nodes, gpu_options=options))
    if not on:
        return one
    held = Allocation(tuple(name for name, _ in on), tuple(count for _, count in on), T0)
    lease = Lease(f"l{number}", LeaseState.GRANTED, T0, 0, beneficiary)
    return replace(one, state=JobState.RUNNING, allocation=held, lease=lease)


def turns(jobs, nodes=2, fixed=(), types=None, first=frozenset()):
    """The pass over `jobs`, who are in order; `fixed` hold GPUs and stand in no order."""
    used = dict.fromkeys([f"n{k}" for k in range(nodes)], 0)
    for one in (*jobs, *fixed):
        if one.allocation:
            for name, gpus in zip(one.allocation.nodes, one.allocation.gpus, strict=True):
                used[name] += gpus
    views = tuple(
        NodeView(
            name, "mixed", (), 64, 0, (((types or {}).get(name, ""), GPUS),), ("gpu",),
            gpus_used=count,
        )
        for name, count in used.items()
    )  # fmt: skip
    state = replace(snapshot([*jobs, *fixed]), nodes=views)
    rows = list(range(len(jobs)))
    ready = [one.state is JobState.PENDING for one in (*jobs, *fixed)]
    return NodePass.of(state, Pools.of(state), rows, ready, first).turns()


def test_small_jobs_on_every_node_make_room_for_one_that_fills_a_node():
    small = [job(k, 1, on=[(f"n{k - 1}", 1)]) for k in (1, 2)]
    done = turns([job(0, 8), *small])
    assert done.begins == [0]
    assert len(done.stays) == 1
    assert done.leaves == [(2, 0)]  # the later one in the order


def test_gpus_are_taken_from_nobody_where_some_are_free():
    done = turns([job(0, 4), job(1, 6, on=[("n0", 6)])])
    assert (done.begins, done.stays, done.leaves) == ([0], [1], [])


def test_the_fullest_node_that_does_is_taken_so_that_others_stay_whole():
    done = turns([job(0, 2), job(1, 8), job(2, 6, on=[("n0", 6)])])
    assert (done.begins, done.stays, done.leaves) == ([0, 1], [2], [])


def test_who_comes_first_keeps_what_it_has():
    done = turns([job(0, 1, on=[("n0", 1)]), job(1, 1, on=[("n1", 1)]), job(2, 8)])
    assert (done.begins, done.stays, done.leaves) == ([], [0, 1], [])


def test_for_one_whose_time_has_come_a_node_is_kept_as_leases_end_one_after_the_other():
    over, within = job(1, 4, on=[("n0", 4)]), job(5, 4, on=[("n0", 4)])
    jobs = [job(0, 8), over, job(2, 4)]
    done = turns(jobs, nodes=1, fixed=[within], first=frozenset({0}))
    assert (done.begins, done.stays, done.leaves) == ([], [], [])  # it runs on, without a lease
    without = turns(jobs, nodes=1, fixed=[within])
    assert without.stays == [1]
    later = turns([job(0, 8), over, job(2, 4)], nodes=1, first=frozenset({0}))
    assert (later.begins, later.leaves) == ([0], [(1, 0)])
    two = turns([*jobs, job(3, 1, on=[("n1", 1)])], fixed=[within], first=frozenset({0}))
    assert two.begins == [0]  # the other node does


def test_who_is_in_the_way_of_one_that_begins_leaves_though_the_node_is_kept_for_another():
    """Of three that have come due two find room on the only node, which is kept for the third."""
    due = [job(0, 4), job(1, 4), job(2, 4)]
    held = [job(3, 2, on=[("n0", 2)]), job(4, 4, on=[("n0", 4)])]
    done = turns([*due, *held], nodes=1, first=frozenset({0, 1, 2}))
    assert done.begins == [0, 1]
    assert {row for row, _ in done.leaves} == {3, 4}
    one = turns([due[0], due[2], job(3, 3, on=[("n0", 3)])], nodes=1, fixed=[held[0]],
                first=frozenset({0, 1}))  # fmt: skip
    assert (one.begins, one.stays) == ([0], [])
    assert [row for row, _ in one.leaves] == [2]


def test_what_holds_on_is_left_alone():
    done = turns([job(0, 8)], fixed=[job(5, 1, on=[("n0", 1)]), job(6, 1, on=[("n1", 1)])])
    assert not done.begins
    done = turns([job(0, 8)], fixed=[job(5, 1, on=[("n0", 1)])])
    assert done.begins == [0]


def test_a_wide_job_fills_nodes_and_takes_what_is_left_beside_others():
    done = turns([job(0, 12), job(1, 4, on=[("n1", 4)])])
    assert (done.begins, done.stays) == ([0], [1])
    done = turns([job(0, 16), job(1, 4, on=[("n1", 4)])])
    assert (done.begins, done.leaves) == ([0], [(1, 0)])


def test_as_many_nodes_as_are_asked_for():
    fixed = [job(5, 6, on=[("n0", 6)])]
    assert turns([job(0, 6, nodes=CountRange(2, 2))], fixed=fixed).begins == []
    assert turns([job(0, 4, nodes=CountRange(2, 2))], fixed=fixed).begins == [0]
    fixed = [job(k, 6, on=[(f"n{k}", 6)]) for k in (0, 1)]
    assert turns([job(2, 4, nodes=CountRange(1, 1))], fixed=fixed).begins == []
    assert turns([job(2, 4, nodes=CountRange(1, 4))], fixed=fixed).begins == [0]


def test_only_gpus_of_the_type_that_is_asked_for():
    types = {"n0": "a100", "n1": "v100"}
    fixed = [job(5, 6, on=[("n1", 6)])]
    assert turns([job(0, 4, gpu_type="v100")], types=types, fixed=fixed).begins == []
    assert turns([job(0, 4, gpu_type="a100")], types=types, fixed=fixed).begins == [0]


def test_for_whom_gpus_are_being_freed_stays_chosen():
    leaving = job(1, 8, on=[("n0", 8)], beneficiary="0")
    first, other = job(2, 8), job(3, 8, on=[("n1", 8)])
    done = turns([first, other, job(0, 8), leaving])
    # rows: 0 = first, 1 = other, 2 = the beneficiary, 3 = who leaves for it
    assert done.ordered[0] == 2
    assert 2 in done.begins
    assert (3, 2) in done.leaves
    assert done.begins == [2, 0]


@st.composite
def states(draw):
    """Jobs in order on three nodes, where those that run fit."""
    free = {f"n{k}": GPUS for k in range(3)}
    jobs = []
    for number in range(draw(st.integers(1, 9))):
        gpus = draw(st.sampled_from([1, 2, 3, 4, 8, 12, 16]))
        room = [name for name in free if free[name] >= gpus]
        if gpus <= GPUS and room and draw(st.booleans()):
            name = draw(st.sampled_from(room))
            free[name] -= gpus
            jobs.append(job(number, gpus, on=[(name, gpus)]))
        else:
            jobs.append(job(number, gpus))
    return jobs


@settings(max_examples=150, deadline=None)
@given(jobs=states())
def test_nobody_leaves_but_for_one_that_begins_and_comes_before(jobs):
    done = turns(jobs, nodes=3)
    running = {k for k, one in enumerate(jobs) if one.allocation}
    gone = {victim for victim, _ in done.leaves}
    assert gone | {*done.stays} == running
    assert not gone & {*done.stays}
    for victim, whom in done.leaves:
        assert whom in done.begins
        assert whom < victim
    held = sum(jobs[k].request.gpus.minimum for k in (*done.begins, *done.stays))
    assert held <= 3 * GPUS
    if not done.begins:
        assert not done.leaves


@settings(max_examples=100, deadline=None)
@given(jobs=states())
def test_the_first_in_the_order_begins_or_stays_always(jobs):
    done = turns(jobs, nodes=3)
    assert 0 in {*done.begins, *done.stays}


@pytest.mark.parametrize("gpus", [1, 5, 8, 16])
def test_a_job_begins_on_an_empty_cluster(gpus):
    assert turns([job(0, gpus)]).begins == [0]
