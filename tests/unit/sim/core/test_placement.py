"""Which nodes a job gets, against the rules written plainly."""

from __future__ import annotations

import random

import numpy as np
import pytest
from support.plain_sim import plain_placement
from support.sim_jobs import sim_jobs

from gsched.sim.cluster import SimCluster
from gsched.sim.core.node_choice import fit_nodes
from gsched.sim.core.nodes import (
    FREE,
    WHOLE,
    give_back,
    hand_over,
    make_nodes,
    restore,
    take,
    withdraw,
)
from gsched.sim.core.placement import can_ever_fit, find, placement_code
from gsched.sim.jobs import ANY
from gsched.sim.rules import Placement

PLACEMENTS = list(Placement)


def cluster_of(pools, switch=None, kind=None, speed=(1.0,)):
    """Pools as lists of the GPUs of their nodes."""
    gpus = np.array([gpus for nodes in pools for gpus in nodes], dtype=np.int32)
    sizes = [len(nodes) for nodes in pools]
    return SimCluster(
        pools=tuple(f"p{number}" for number in range(len(pools))),
        first_node=np.concatenate(([0], np.cumsum(sizes))).astype(np.int64),
        node_names=[f"n{number}" for number in range(len(gpus))],
        node_gpus=gpus,
        node_switch=np.array(switch if switch else np.zeros(len(gpus)), dtype=np.int32),
        node_type=np.array(kind if kind else np.zeros(len(gpus)), dtype=np.int32),
        gpu_types=tuple(f"t{number}" for number in range(len(speed))),
        type_speed=np.array(speed),
    )


def pieces_of(nodes, count):
    return [(int(node), int(gpus)) for node, gpus in nodes.found[:count]]


def found(nodes, gpus, num_nodes=0, placement=Placement.CONSOLIDATED, pool=0, gpu_type=ANY):
    how = placement_code(placement)
    return pieces_of(nodes, find(nodes, pool, gpu_type, gpus, num_nodes, how))


def start(nodes, job, gpus, **wanted):
    pieces = found(nodes, gpus, **wanted)
    assert pieces
    assert take(nodes, job, len(pieces)) == pieces[0][0]
    return pieces


def held(nodes, job):
    pieces, piece = [], nodes.first_piece[job]
    while piece != ANY:
        pieces.append((int(nodes.piece["node"][piece]), int(nodes.piece["gpus"][piece])))
        piece = nodes.piece["next"][piece]
    return pieces


class TestByHand:
    def test_a_small_job_goes_to_the_fullest_node_that_still_fits(self):
        nodes = make_nodes(SimCluster.uniform({"p": 3}), 9)
        assert start(nodes, 0, 5) == [(0, 5)]
        assert start(nodes, 1, 4) == [(1, 4)]
        assert found(nodes, 3) == [(0, 3)]
        assert found(nodes, 4) == [(1, 4)]
        assert found(nodes, 5) == [(2, 5)]
        assert found(nodes, 3, placement=Placement.SPREAD) == [(2, 3)]

    def test_a_wide_job_fills_free_nodes_and_puts_the_rest_on_the_freest(self):
        nodes = make_nodes(SimCluster.uniform({"p": 4}), 9)
        start(nodes, 0, 2)
        start(nodes, 1, 8)
        assert found(nodes, 16) == [(2, 8), (3, 8)]
        assert found(nodes, 12) == [(2, 8), (3, 4)]
        assert found(nodes, 22) == [(2, 8), (3, 8), (0, 6)]
        assert found(nodes, 23) == []

    def test_gang_scheduling_takes_all_or_nothing(self):
        nodes = make_nodes(SimCluster.uniform({"p": 2}), 9)
        start(nodes, 0, 1)
        before = nodes.free.copy()
        assert found(nodes, 16) == []
        assert found(nodes, 16, num_nodes=2) == []
        assert nodes.free.tolist() == before.tolist()

    def test_a_number_of_nodes_gives_equal_parts(self):
        nodes = make_nodes(SimCluster.uniform({"p": 3}), 9)
        start(nodes, 0, 4)
        assert found(nodes, 8, num_nodes=2) == [(0, 4), (1, 4)]
        assert found(nodes, 10, num_nodes=3) == [(0, 4), (1, 3), (2, 3)]
        assert found(nodes, 9, num_nodes=2) == [(1, 5), (0, 4)]
        assert found(nodes, 8, num_nodes=2, placement=Placement.SPREAD) == [(1, 4), (2, 4)]
        assert found(nodes, 2, num_nodes=5) == [(0, 1), (1, 1)]
        assert found(nodes, 9, num_nodes=1) == []

    def test_topology_takes_one_switch_with_the_least_room_that_suffices(self):
        cluster = cluster_of([[8] * 7], switch=[0, 0, 0, 5, 5, 9, 9])
        nodes = make_nodes(cluster, 9)
        start(nodes, 0, 8)  # node 0, so that switch 0 has two free nodes as well
        assert found(nodes, 16, placement=Placement.CONSOLIDATED) == [(1, 8), (2, 8)]
        start(nodes, 1, 1)  # node 1
        assert found(nodes, 16, placement=Placement.CONSOLIDATED) == [(2, 8), (3, 8)]
        assert found(nodes, 16, placement=Placement.TOPOLOGY) == [(3, 8), (4, 8)]
        assert found(nodes, 15, placement=Placement.TOPOLOGY) == [(2, 8), (1, 7)]
        assert found(nodes, 8, 2, Placement.TOPOLOGY) == [(1, 4), (2, 4)]
        assert found(nodes, 14, 2, Placement.TOPOLOGY) == [(1, 7), (2, 7)]

    def test_topology_takes_few_switches_where_one_does_not_suffice(self):
        nodes = make_nodes(cluster_of([[8] * 6], switch=[0, 1, 1, 2, 2, 2]), 9)
        assert found(nodes, 32, placement=Placement.TOPOLOGY) == [(n, 8) for n in (1, 2, 3, 4)]
        assert found(nodes, 48, placement=Placement.TOPOLOGY) == [(n, 8) for n in range(6)]
        assert found(nodes, 49, placement=Placement.TOPOLOGY) == []

    def test_the_fastest_type_that_fits_and_mixed_types_only_for_several_nodes(self):
        cluster = cluster_of([[4, 4, 8, 8]], kind=[0, 0, 1, 1], speed=(1.0, 3.0))
        nodes = make_nodes(cluster, 9)
        assert found(nodes, 3) == [(2, 3)]
        assert found(nodes, 3, gpu_type=0) == [(0, 3)]
        assert found(nodes, 5, gpu_type=0) == [(0, 4), (1, 1)]
        assert found(nodes, 20) == [(2, 8), (3, 8), (0, 4)]
        assert found(nodes, 20, gpu_type=1) == []
        start(nodes, 0, 8)
        start(nodes, 1, 6)
        assert found(nodes, 3) == [(0, 3)]
        assert found(nodes, 6) == []
        assert found(nodes, 10) == [(0, 4), (1, 4), (3, 2)]

    def test_a_node_that_is_withdrawn_is_not_found_and_comes_back_as_it_is_then(self):
        nodes = make_nodes(SimCluster.uniform({"p": 2}), 9)
        start(nodes, 0, 6)
        withdraw(nodes, 0)
        assert found(nodes, 2) == [(1, 2)]
        assert nodes.totals.tolist() == [8, 8]
        give_back(nodes, 0)
        withdraw(nodes, 0)
        assert nodes.totals.tolist() == [8, 8]
        restore(nodes, 0)
        restore(nodes, 0)
        assert nodes.totals.tolist() == [16, 16]
        assert found(nodes, 2) == [(0, 2)]

    def test_pieces_can_pass_to_another_job(self):
        nodes = make_nodes(SimCluster.uniform({"p": 2}), 9)
        pieces = start(nodes, 3, 12)
        hand_over(nodes, 3, 4)
        give_back(nodes, 3)
        assert nodes.totals[FREE] == 4
        assert held(nodes, 4) == pieces
        give_back(nodes, 4)
        assert nodes.totals[FREE] == 16


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("placement", [Placement.CONSOLIDATED, Placement.SPREAD])
def test_a_long_life_of_nodes_follows_the_rules(seed, placement):
    """Starts, ends, nodes that go and come: every choice as the plain rules have it."""
    chance = random.Random(seed)
    sizes = [8] * 70 if seed % 2 else [chance.choice([0, 2, 4, 8]) for _ in range(70)]
    nodes = make_nodes(cluster_of([[8, 8], sizes]), 2_000)
    rows = range(2, 72)
    size_of = dict(zip(rows, sizes, strict=True))
    running, down = [], set()
    for job in range(600):
        gpus = chance.choice([1, 1, 2, 3, 4, 8, 8, 12, 16, 31, 64])
        num_nodes = chance.choice([0, 0, 0, 1, 2, 3, 7])
        free = {node: int(nodes.free[node]) for node in rows}
        expected = plain_placement(free, size_of, gpus, num_nodes, placement)
        pieces = found(nodes, gpus, num_nodes, placement, pool=1)
        assert pieces == expected, (seed, job, gpus, num_nodes)
        if pieces:
            take(nodes, job, len(pieces))
            assert held(nodes, job) == pieces
            running.append(job)
        while running and (not pieces or chance.random() < 0.3):
            give_back(nodes, running.pop(chance.randrange(len(running))))
            pieces = expected
            if chance.random() < 0.5:
                break
        node = chance.choice(rows)
        if chance.random() < 0.2 and size_of[node]:
            (restore if node in down else withdraw)(nodes, node)
            down ^= {node}
        up = [node for node in range(72) if node not in down]
        assert nodes.totals[FREE] == sum(nodes.free[node] for node in up)
        whole = [int(nodes.free[n]) for n in up if nodes.free[n] == nodes.node["gpus"][n]]
        assert nodes.totals[WHOLE] == sum(whole)
    for job in running:
        give_back(nodes, job)
    assert not nodes.node["used"].any()


@pytest.mark.parametrize("seed", range(4))
def test_the_walk_over_all_nodes_finds_what_the_bitmaps_find(seed):
    """Types and switches too; what the counts rule out does not fit for the walk either."""
    chance = random.Random(seed)
    count = 40
    kind = [chance.randrange(2) for _ in range(count)]
    size = [8 if one or seed % 2 else 4 for one in kind]
    switch = [chance.randrange(5) for _ in range(count)]
    nodes = make_nodes(cluster_of([size], switch, kind, (1.0, 2.0)), 5_000)
    running = []
    for job in range(800):
        gpus, num_nodes = (
            chance.choice([1, 2, 4, 6, 8, 12, 16, 24, 40]),
            chance.choice([0, 0, 2, 3]),
        )
        placement, wanted = chance.choice(PLACEMENTS), chance.choice([ANY, 0, 1])
        pieces = found(nodes, gpus, num_nodes, placement, gpu_type=wanted)
        walks = [
            pieces_of(
                nodes,
                fit_nodes(nodes, nodes.free, 0, one, gpus, num_nodes, placement_code(placement)),
            )
            for one in ([1, 0, ANY] if wanted == ANY else [wanted])
        ]
        single = num_nodes <= 1 and gpus <= max(
            s for s, k in zip(size, kind, strict=True) if wanted in (ANY, k)
        )
        if single:
            walks = [walk for walk in walks if len(walk) == 1]
        assert pieces == next((walk for walk in walks if walk), []), (seed, job)
        if pieces:
            find(nodes, 0, wanted, gpus, num_nodes, placement_code(placement))
            take(nodes, job, len(pieces))
            running.append(job)
        while len(running) > 12 or (running and not pieces):
            give_back(nodes, running.pop(chance.randrange(len(running))))
            pieces = pieces or [(0, 0)]


def test_what_can_never_fit_is_known_beforehand():
    cluster = cluster_of([[8, 8], [4]], kind=[0, 1, 0], speed=(1.0, 2.0))
    jobs = sim_jobs(
        [0.0] * 8,
        [1.0] * 8,
        num_gpus=[16, 17, 4, 5, 9, 8, 8, 4],
        num_nodes=[0, 0, 0, 0, 1, 2, 0, 2],
        pool=[0, 0, 1, 1, 0, 0, 0, 1],
        gpu_type=[ANY, ANY, ANY, ANY, ANY, ANY, 1, ANY],
    )
    expected = [True, False, True, False, False, True, True, False]
    assert can_ever_fit(jobs, cluster).tolist() == expected


def test_a_pool_without_nodes_holds_nothing():
    cluster = cluster_of([[], [8]])
    jobs = sim_jobs([0.0, 0.0], [1.0, 1.0], num_gpus=[1, 1], pool=[0, 1])
    assert can_ever_fit(jobs, cluster).tolist() == [False, True]
