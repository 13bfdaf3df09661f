"""The reservation of the first job, against a search that tries every moment."""

from __future__ import annotations

import math
import random

import numpy as np
import pytest
from numpy.typing import NDArray

from gsched.sim.cluster import SimCluster
from gsched.sim.core.heap import ENTRY, push
from gsched.sim.core.node_choice import CONSOLIDATED
from gsched.sim.core.nodes import Nodes, make_nodes, take, withdraw
from gsched.sim.core.placement import find
from gsched.sim.core.reservation import NO_LIMIT_S, limit_of, reserve
from gsched.sim.jobs import ANY

GPUS_A_NODE = 4


def fits(free: list[int], num_gpus: int) -> bool:
    """Whether a job fits, by the rule in words: one node, or wholly free ones and a rest."""
    if num_gpus <= GPUS_A_NODE:
        return max(free) >= num_gpus
    whole, rest = divmod(num_gpus, GPUS_A_NODE)
    left = sorted(free, reverse=True)
    if left[whole - 1 : whole] != [GPUS_A_NODE]:
        return False
    return rest == 0 or (len(left) > whole and left[whole] >= rest)


def soonest_by_trial(
    free: list[int], holdings: list[dict[int, int]], ends_s: list[float], now_s: float, gpus: int
) -> float:
    for at_s in sorted({now_s, *(max(now_s, e) for e in ends_s)}):
        then = list(free)
        for pieces, end_s in zip(holdings, ends_s, strict=True):
            if max(now_s, end_s) <= at_s:
                for node, held in pieces.items():
                    then[node] += held
        if fits(then, gpus):
            return at_s
    return math.inf


def occupied(nodes: Nodes, sizes: list[int]) -> list[int]:
    """Place jobs 0, 1, … of these sizes; returns those that found a place."""
    running = []
    for job, gpus in enumerate(sizes):
        pieces = find(nodes, 0, ANY, gpus, 0, CONSOLIDATED)
        if pieces:
            take(nodes, job, pieces)
            running.append(job)
    return running


def held(nodes: Nodes, job: int) -> dict[int, int]:
    pieces: dict[int, int] = {}
    at = int(nodes.first_piece[job])
    while at >= 0:
        piece = nodes.piece[at]
        pieces[int(piece["node"])] = int(piece["gpus"])
        at = int(piece["next"])
    return pieces


def reserved(
    nodes: Nodes, ends_s: list[float], running: list[int], now_s: float, gpus: int
) -> tuple[float, NDArray[np.int64]]:
    spare = nodes.free.copy()
    ends = np.zeros(len(running) + 3, dtype=ENTRY)
    size = 0
    for end_s, job in zip(ends_s, running, strict=True):
        size = push(ends, 3, size, end_s, job)
    shadow_s = reserve(nodes, spare, ends, 3, size, now_s, 0, ANY, gpus, 0, CONSOLIDATED)
    return shadow_s, spare


@pytest.mark.parametrize("seed", range(3))
def test_the_soonest_time_is_that_of_a_search_over_all_moments(seed: int) -> None:
    draw = random.Random(seed)
    outcomes = set()
    for _ in range(300):
        num_nodes = draw.randint(1, 4)
        nodes = make_nodes(SimCluster.uniform({"p": num_nodes}, GPUS_A_NODE), 12)
        running = occupied(nodes, [draw.randint(1, 6) for _ in range(12)])
        ends_s = [float(draw.randint(0, 20)) for _ in running]
        gpus = draw.randint(1, num_nodes * GPUS_A_NODE)
        free = nodes.free.tolist()
        holdings = [held(nodes, job) for job in running]
        expected_s = soonest_by_trial(free, holdings, ends_s, 5.0, gpus)
        shadow_s, spare = reserved(nodes, ends_s, running, 5.0, gpus)
        assert shadow_s == expected_s
        assert spare.min() >= 0
        back = [
            sum(pieces.values())
            for pieces, end_s in zip(holdings, ends_s, strict=True)
            if max(5.0, end_s) <= shadow_s and not fits(free, gpus)  # nobody needs to end then
        ]
        assert spare.sum() == sum(free) + sum(back) - gpus
        assert nodes.free.tolist() == free  # nothing is taken yet
        outcomes.add(shadow_s)
    assert len(outcomes) > 10


def test_spare_is_what_the_job_leaves_on_its_nodes() -> None:
    nodes = make_nodes(SimCluster.uniform({"p": 3}, GPUS_A_NODE), 3)
    assert occupied(nodes, [4, 3, 3]) == [0, 1, 2]
    shadow_s, spare = reserved(nodes, [30.0, 20.0, 10.0], [0, 1, 2], 0.0, 6)
    # 8 free at 20 s on nodes 1 and 2; the job takes node 1 whole and 2 of node 2
    assert shadow_s == 20
    assert spare.tolist() == [0, 0, 2]


def test_a_node_that_is_down_is_never_counted_with() -> None:
    nodes = make_nodes(SimCluster.uniform({"p": 2}, GPUS_A_NODE), 2)
    assert occupied(nodes, [4, 4]) == [0, 1]
    withdraw(nodes, 1)
    assert reserved(nodes, [10.0, 20.0], [0, 1], 0.0, 4)[0] == 10
    assert reserved(nodes, [10.0, 20.0], [0, 1], 0.0, 8)[0] == math.inf


def test_no_limit_is_a_year() -> None:
    assert limit_of(np.nan) == NO_LIMIT_S == 31_536_000
    assert limit_of(60.0) == 60
