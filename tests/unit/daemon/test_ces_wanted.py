"""How many nodes waiting jobs need: packed as Slurm would, in its order, up to the first misfit."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.queue import node, row

from gsched.daemon.ces_sight import NodeSight
from gsched.daemon.ces_wanted import wanted_nodes
from gsched.model.job import GpuOption
from gsched.policy.ces_state import BlockNeed, NodePower


def sight(name: str, pool: str = "p", partition: str = "gpu", **facts) -> NodeSight:
    view = node(name, partition=partition, **facts)
    return NodeSight(
        name, pool, NodePower.AWAKE, False, False, False, view, frozenset(), None, None
    )


NODES = [sight(f"n{i}") for i in range(6)]
ALL = frozenset(n.name for n in NODES)


def wanted(*rows, nodes=NODES, usable=ALL, partitions=None):
    return wanted_nodes(rows, nodes, usable, partitions or {})


def whole(raw_id: int, nodes: int = 1, **facts):
    return row(raw_id, min_nodes=nodes, num_gpus=8 * nodes, num_cpus=nodes, **facts)


def test_whole_nodes_add_up_and_large_jobs_keep_theirs_together():
    found = wanted(whole(1, 2), whole(2), whole(3, 3))
    assert found.nodes == {"p": 6}
    assert found.blocks == (BlockNeed("3", "p", 3), BlockNeed("1", "p", 2))


def test_small_jobs_share_a_node():
    assert wanted(*(row(i, num_gpus=2) for i in range(4))).nodes == {"p": 1}
    assert wanted(*(row(i, num_gpus=2) for i in range(5))).nodes == {"p": 2}
    assert wanted(*(row(i, num_gpus=0, num_cpus=33) for i in range(3))).nodes == {"p": 3}
    assert wanted(*(row(i, num_gpus=0, mem_bytes=2**38) for i in range(4))).nodes == {"p": 2}


def test_the_first_that_does_not_fit_ends_the_count_in_order_of_priority():
    jobs = [whole(1, 2, priority=9), whole(2, 7, priority=8), whole(3, 1, priority=7)]
    found = wanted(*reversed(jobs))
    assert found.nodes == {"p": 2}
    assert found.blocks[0] == BlockNeed("2", "p", 7)  # what is idle waits for it
    assert wanted(whole(1, 5), whole(2, 2), whole(3, 1)).nodes == {"p": 5}


@pytest.mark.parametrize(
    "facts",
    [
        {"reason": "Dependency"},
        {"reason": "BeginTime"},
        {"reason": "JobHeldUser"},
        {"reason": "QOSMaxGRESPerUser"},
        {"reason": "AssocGrpGRES"},
        {"reservation": "course"},
        {"priority": 0},
        {"partitions": ("cpu",)},
    ],
)
def test_jobs_that_wait_for_something_else_want_nothing(facts):
    assert wanted(whole(1, **facts)).nodes == {"p": 0}


def test_jobs_of_a_partition_that_is_down_want_nothing():
    assert wanted(whole(1), partitions={"gpu": False}).nodes == {"p": 0}


def test_only_nodes_that_could_be_used_can_be_wanted():
    assert wanted(whole(1, 3), usable=frozenset({"n0", "n1"})).nodes == {"p": 0}
    assert wanted(whole(1, 2), usable=frozenset({"n0", "n1"})).nodes == {"p": 2}


def test_a_job_goes_to_the_first_of_its_pools_that_holds_it():
    nodes = [sight("a"), sight("b", "q", "long"), sight("c", "q", "long")]
    usable = frozenset("abc")
    both = {"partitions": ("gpu", "long")}
    found = wanted(whole(1, 1, **both), whole(2, 2, **both), nodes=nodes, usable=usable)
    assert found.nodes == {"p": 1, "q": 2}
    large = sight("d", "large", "gpu", kinds=(("a100", 8),))
    typed = row(1, num_gpus=8, gpu_options=(GpuOption("a100", 8),))
    found = wanted(typed, nodes=[*nodes, large], usable=usable | {"d"})
    assert found.nodes == {"p": 0, "q": 0, "large": 1}
    other = row(1, num_gpus=8, gpu_options=(GpuOption("h100", 8),))
    assert sum(wanted(other, nodes=[large], usable=frozenset("d")).nodes.values()) == 0


def test_features_that_no_node_has():
    nodes = [sight("a", features=("nvlink",)), sight("b")]
    usable = frozenset("ab")
    assert wanted(whole(1, features="nvlink"), nodes=nodes, usable=usable).nodes == {"p": 1}
    assert wanted(whole(1, features="infiniband"), nodes=nodes, usable=usable).nodes == {"p": 0}
    for wish, number in (
        ("nvlink|infiniband", 1), ("nvlink&ib", 0), ("ib&nvlink|nvlink", 1), ("[nvlink*1]", 0),
        ("nvlink*2", 0), ("a|b", 0),
    ):  # fmt: skip
        assert wanted(whole(1, features=wish), nodes=nodes, usable=usable).nodes == {"p": number}


def test_the_tasks_of_an_array_count_up_to_its_throttle():
    array = {"is_unsplit_array": True, "array_tasks": "0-99"}
    assert wanted(whole(1, **array)).nodes == {"p": 6}
    assert wanted(whole(1, **array | {"array_tasks": "0-99%2"})).nodes == {"p": 2}
    strange = array | {"array_tasks": "what?"}
    assert wanted(whole(1, **strange)).nodes == {"p": 1}
    assert wanted(row(1, **array | {"array_tasks": "0-4000000"}, num_gpus=0)).nodes["p"] <= 6


@given(
    st.lists(
        st.tuples(st.integers(1, 4), st.integers(0, 32), st.integers(1, 200), st.integers(0, 9)),
        max_size=30,
    ),
    st.integers(0, 6),
)
def test_never_more_than_there_are_and_one_job_more_never_takes_from_those_before(jobs, free):
    usable = frozenset(f"n{i}" for i in range(free))
    rows = [
        row(i, min_nodes=n, num_gpus=gpus, num_cpus=cpus, priority=1 + priority)
        for i, (n, gpus, cpus, priority) in enumerate(jobs)
    ]
    found = wanted(*rows, usable=usable).nodes["p"]
    assert 0 <= found <= free
    last = row(999, num_gpus=8, priority=1)
    assert found <= wanted(*rows, last, usable=usable).nodes["p"] <= free
