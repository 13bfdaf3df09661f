"""When and where the first job of the queue will start, if all that runs ends at its limit."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gsched.sim.core.compiled import compiled_inner, compiled_lean
from gsched.sim.core.heap import Heap, pop
from gsched.sim.core.node_choice import fit_nodes
from gsched.sim.core.nodes import Nodes
from gsched.sim.jobs import ANY

NO_LIMIT_S = 365 * 86_400.0
"""What a job without a time limit is taken to last, as Slurm's backfill scheduler does it."""


@compiled_lean
def limit_of(time_limit_s: float) -> float:
    """The time limit that a reservation counts with."""
    return NO_LIMIT_S if np.isnan(time_limit_s) else time_limit_s


@compiled_lean
def reserve(
    nodes: Nodes,
    spare: NDArray[np.int64],
    ends: Heap,
    base: int,
    size: int,
    now_s: float,
    pool: int,
    gpu_type: int,
    gpus: int,
    num_nodes: int,
    how: int,
) -> float:
    """The soonest time at which a job fits; infinite if it does not even when all have ended.

    `spare` comes with the GPUs that are free now, by node, and goes with those that are free at
    that time beside the job's own. `ends` holds, from `base` on, `size` jobs by the time at which
    they give back their GPUs; one that is overdue may do so at any moment.
    """
    free = 0
    for node in range(nodes.pool[pool].first_node, nodes.pool[pool + 1].first_node):
        free += spare[node]
    shadow_s = now_s
    while True:
        if free >= gpus:
            pieces = fit_nodes(nodes, spare, pool, gpu_type, gpus, num_nodes, how)
            if pieces > 0:
                take_spare(nodes, spare, pieces)
                return shadow_s
        if size == 0:
            return np.inf
        shadow_s = max(now_s, ends[base].key)
        while size > 0 and ends[base].key <= shadow_s:
            free += _let_go(nodes, spare, np.int64(ends[base].row))
            size = pop(ends, base, size)


@compiled_inner
def take_spare(nodes: Nodes, spare: NDArray[np.int64], pieces: int) -> None:
    """Take what `fit_nodes` has found."""
    for number in range(pieces):
        found = nodes.found[number]
        spare[found.node] -= found.gpus


@compiled_inner
def _let_go(nodes: Nodes, spare: NDArray[np.int64], holder: int) -> int:
    """Add the GPUs that a job holds on nodes that are up; how many."""
    freed = 0
    at = nodes.first_piece[holder]
    while at != ANY:
        piece = nodes.piece[at]
        if nodes.node[piece.node].up:
            spare[piece.node] += piece.gpus
            freed += piece.gpus
        at = piece.next
    return freed
