"""Which jobs compete for the same GPUs."""

from __future__ import annotations

from dataclasses import replace

from support.formed import cluster, runs, waits
from support.jobs import T0

from gsched.model.cluster import NodeView, ReservationView
from gsched.policy.pools import NOWHERE, Pools


def node(name, partitions, gpus=8, used=0, state="mixed", flags=()):
    return NodeView(name, state, flags, 64, 0, (("", gpus),), partitions, gpus_used=used)


def pools(*nodes, jobs=(), reserved=()):
    state = replace(cluster(jobs), nodes=nodes)
    if reserved:
        state = replace(state, reservations=(ReservationView("r", reserved, T0, T0 + 9),))
    return Pools.of(state)


def test_partitions_that_share_nodes_are_one_pool():
    found = pools(
        node("n1", ("long", "short"), used=3),
        node("n2", ("short", "debug")),
        node("n3", ("apart",), gpus=4),
    )
    assert len({found.of_partition[name] for name in ("long", "short", "debug")}) == 1
    here, there = found.of_partition["long"], found.of_partition["apart"]
    assert here != there
    assert (found.free_gpus[here], found.free_gpus[there]) == (13, 4)


def test_nodes_that_start_nothing_give_nothing():
    found = pools(
        node("n1", ("gpu",), used=3),
        node("n2", ("gpu",), state="down"),
        node("n3", ("gpu",), flags=("drain",)),
        node("n4", ("gpu",)),
        node("n5", ()),
        reserved=("n4",),
    )
    assert found.free_gpus[found.of_partition["gpu"]] == 5
    assert found.usable == {"n1"}


def test_a_job_belongs_to_the_pool_of_its_first_partition():
    found = pools(node("n1", ("a",)), node("n2", ("b",)))
    both = replace(waits(1), partitions=("b", "a"))
    assert found.of_job(both) == found.of_partition["b"]
    assert found.of_job(waits(2, partition="none")) == NOWHERE
    assert found.of_job(replace(waits(3), partitions=())) == NOWHERE
    assert found.free_gpus[NOWHERE] == 0


def test_gpus_of_a_job_help_only_where_all_its_nodes_do():
    found = pools(node("n1", ("gpu",)), node("n2", ("gpu",), state="down"))
    one = runs(waits(1, 2), node="n1")
    two = replace(one, allocation=replace(one.allocation, nodes=("n1", "n2"), gpus=(1, 1)))
    assert found.could_free(one)
    assert not found.could_free(two)
    assert not found.could_free(replace(one, allocation=None))
