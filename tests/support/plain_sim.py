"""The rules of placement and of static orders once more, as plainly as can be.

Slow and written from the rules alone: what the compiled code is compared with.
"""

from __future__ import annotations

from gsched.sim.cluster import SimCluster
from gsched.sim.jobs import Floats, SimJobs
from gsched.sim.rules import Placement

Piece = tuple[int, int]  # a node's row, GPUs


def plain_placement(
    free: dict[int, int],
    sizes: dict[int, int],
    gpus: int,
    num_nodes: int = 0,
    placement: Placement = Placement.CONSOLIDATED,
) -> list[Piece]:
    """The pieces of a job on nodes of one pool and one type, none if it does not fit."""
    fullest_first = sorted(free, key=lambda node: (free[node], node))
    freest_first = sorted(free, key=lambda node: (-free[node], node))
    order = freest_first if placement is Placement.SPREAD else fullest_first
    if num_nodes <= 1 and gpus <= max(sizes.values()):
        return [(node, gpus) for node in order if free[node] >= gpus][:1]
    if num_nodes == 1:
        return []
    if num_nodes:
        return _equal_parts(free, order, gpus, min(num_nodes, gpus))
    pieces: list[Piece] = []
    for node in freest_first:
        if free[node] >= gpus:
            return [*pieces, (node, gpus)]
        if free[node] == sizes[node] > 0:
            pieces.append((node, free[node]))
            gpus -= free[node]
    return []


def _equal_parts(free: dict[int, int], order: list[int], gpus: int, parts: int) -> list[Piece]:
    pieces: list[Piece] = []
    for part in sorted(gpus // parts + (number < gpus % parts) for number in range(parts))[::-1]:
        used = {node for node, _ in pieces}
        fitting = [node for node in order if node not in used and free[node] >= part]
        if not fitting:
            return []
        pieces.append((fitting[0], part))
    return pieces


def plain_starts(
    jobs: SimJobs, cluster: SimCluster, keys: Floats, placement: Placement, tick_s: float = 0.0
) -> dict[int, tuple[float, int]]:
    """Start and first node of each job whose first in the order blocks, in steps of a second."""
    sizes = dict(enumerate(cluster.node_gpus.tolist()))
    free = dict(sizes)
    waiting: dict[int, list[int]] = {pool: [] for pool in range(len(cluster.pools))}
    keyed: dict[int, bool] = dict.fromkeys(waiting, True)
    ends: list[tuple[float, list[Piece]]] = []
    starts: dict[int, tuple[float, int]] = {}
    now, to_come = 0.0, list(range(len(jobs)))
    while to_come or ends:
        for _, pieces in [one for one in ends if one[0] == now]:
            for node, gpus in pieces:
                free[node] += gpus
        ends = [one for one in ends if one[0] != now]
        for pool, queue in waiting.items():
            keyed[pool] = not (tick_s and not queue)
            queue += [
                row for row in to_come if jobs.submit_s[row] == now and jobs.pool[row] == pool
            ]
            key = (keys if keyed[pool] else jobs.num_gpus).tolist()
            queue.sort(key=lambda row: (key[row], row))
            nodes = range(cluster.first_node[pool], cluster.first_node[pool + 1])
            while queue:
                row = queue[0]
                pieces = plain_placement(
                    {node: free[node] for node in nodes},
                    {node: sizes[node] for node in nodes},
                    int(jobs.num_gpus[row]),
                    int(jobs.num_nodes[row]),
                    placement,
                )
                if not pieces:
                    break
                for node, gpus in pieces:
                    free[node] -= gpus
                starts[queue.pop(0)] = (now, pieces[0][0])
                ends.append((now + float(jobs.duration_s[row]), pieces))
        to_come = [row for row in to_come if jobs.submit_s[row] > now]
        now += 1.0
    return starts
