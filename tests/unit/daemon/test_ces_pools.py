"""Pools: nodes alike, under names that tell them apart and stay the same."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from support.queue import node

from gsched.daemon.ces_pools import pools_of
from gsched.model.cluster import NodeView


def view(name: str, gpus=(), partitions=("gpu",), cpus=64, mem=2**39) -> NodeView:
    return NodeView(name, "idle", (), cpus, mem, tuple(gpus), tuple(partitions))


def test_alike_are_nodes_with_the_same_gpus_cpus_memory_and_partitions():
    nodes = [
        view("a1", [("a100", 8)]),
        view("a2", [("a100", 8)]),
        view("b1", [("a100", 4)]),
        view("c1", [("a100", 8)], ["gpu", "debug"]),
        view("c2", [("a100", 8)], ["debug", "gpu"]),
        view("d1", (), ["batch"]),
        node("e1", 2),
        view("f1", [("h100", 1), ("a100", 2)]),
        view("g1", (), ()),
    ]
    assert pools_of(nodes) == {
        "a1": "a100x8@gpu",
        "a2": "a100x8@gpu",
        "b1": "a100x4@gpu",
        "c1": "a100x8@debug,gpu",
        "c2": "a100x8@debug,gpu",
        "d1": "cpu64@batch",
        "e1": "gpux2@gpu",
        "f1": "a100x2+h100x1@gpu",
        "g1": "cpu64@none",
    }


def test_pools_that_would_have_the_same_name_get_another_one():
    nodes = [view("a", [("v", 1)], cpus=8), view("b", [("v", 1)], cpus=16)]
    assert pools_of(nodes) == {"a": "vx1@gpu/8c/512G", "b": "vx1@gpu/16c/512G"}
    nodes = [view("a", mem=2**39), view("b", mem=2**39 + 1)]
    assert pools_of(nodes) == {"a": "cpu64@gpu/64c/512G#1", "b": "cpu64@gpu/64c/512G#2"}


def test_names_are_short_and_plain_whatever_partitions_are_called():
    nodes = [view("a", [("x\x1b[31m", 8)], [f"partition-{n:03}" for n in range(50)])]
    (name,) = pools_of(nodes).values()
    assert name.isprintable()
    assert len(name) < 140


words = st.text(alphabet=st.sampled_from("ab é\n/#"), min_size=1, max_size=4)
views = st.builds(
    lambda gpus, partitions, cpus, mem: (tuple(gpus), tuple(partitions), cpus, mem),
    st.lists(st.tuples(words, st.integers(1, 2)), max_size=2),
    st.lists(words, max_size=3),
    st.integers(1, 2),
    st.sampled_from((1, 2, 2**30)),
)


@given(st.lists(views, min_size=1, max_size=12))
def test_two_nodes_share_a_name_exactly_where_they_are_alike(kinds):
    nodes = [
        NodeView(f"n{i}", "idle", (), cpus, mem, gpus, partitions)
        for i, (gpus, partitions, cpus, mem) in enumerate(kinds)
    ]
    pools = pools_of(nodes)
    for a in nodes:
        for b in nodes:
            alike = (sorted(a.gpus), set(a.partitions), a.num_cpus, a.mem_bytes) == (
                sorted(b.gpus), set(b.partitions), b.num_cpus, b.mem_bytes
            )  # fmt: skip
            assert (pools[a.name] == pools[b.name]) == alike
    assert pools_of(reversed(nodes)) == pools
