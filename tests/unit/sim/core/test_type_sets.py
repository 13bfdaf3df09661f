"""Jobs that may use some of the types of GPU: as if there were no others."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest

from gsched.sim.cluster import SimCluster
from gsched.sim.core.node_choice import CONSOLIDATED, SPREAD, TOPOLOGY
from gsched.sim.core.nodes import Nodes, give_back, make_nodes, take, withdraw
from gsched.sim.core.placement import find
from gsched.sim.jobs import ANY

KINDS = 4
SETS = ((0, 2), (3,), (1, 2, 3), (0, 1, 2, 3), ())


def cluster(chance: random.Random) -> SimCluster:
    plain = SimCluster.uniform({"p": 24}, 8, nodes_a_switch=4)
    kinds = np.array([chance.randrange(KINDS) for _ in range(24)], dtype=np.int32)
    return replace(
        plain,
        node_type=kinds,
        gpu_types=("a", "b", "c", "d"),
        type_speed=np.array([1.0, 2.0, 2.0, 0.5]),
        type_sets=SETS,
    )


def pieces(nodes: Nodes, count: int) -> list[tuple[int, int]]:
    return [(int(each["node"]), int(each["gpus"])) for each in nodes.found[:count]]


@pytest.mark.parametrize("how", [CONSOLIDATED, SPREAD, TOPOLOGY])
@pytest.mark.parametrize("number", range(len(SETS)))
def test_a_set_finds_what_any_type_finds_where_the_others_are_down(how: int, number: int) -> None:
    chance = random.Random(number)
    told = cluster(chance)
    nodes, without = make_nodes(told, 600), make_nodes(told, 600)
    for node, kind in enumerate(told.node_type.tolist()):
        if kind not in SETS[number]:
            withdraw(without, node)
    running: list[int] = []
    for job in range(300):
        gpus, parts = chance.choice([1, 2, 5, 8, 12, 16, 24, 40]), chance.choice([0, 0, 1, 2, 3])
        found = find(nodes, 0, KINDS + number, gpus, parts, how)
        expected = find(without, 0, ANY, gpus, parts, how)
        assert pieces(nodes, found) == pieces(without, expected), (job, gpus, parts)
        if found:
            take(nodes, job, found)
            take(without, job, expected)
            running.append(job)
        while running and (not found or chance.random() < 0.4):
            over = running.pop(chance.randrange(len(running)))
            give_back(nodes, over)
            give_back(without, over)
            found = 1
