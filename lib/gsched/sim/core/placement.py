"""Where a job fits now.

A job on one node takes the fullest (SPREAD: the emptiest) node that suffices, the first of equals,
from the bitmaps. A job on several nodes walks the nodes of its pool (`node_choice`), but only where
the counts do not tell already that it does not fit. GPUs of one type where it can, the fastest that
fits; a job on several nodes that fits on no single type takes what there is.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gsched.sim.cluster import SimCluster
from gsched.sim.core.compiled import compiled_inner, compiled_lean
from gsched.sim.core.node_choice import CONSOLIDATED, SPREAD, TOPOLOGY, fit_nodes, largest_node
from gsched.sim.core.nodes import WORD, Nodes, make_nodes
from gsched.sim.jobs import ANY, SimJobs
from gsched.sim.rules import Placement

_NONE = np.uint64(0)
_ONE = np.uint64(1)
_CYCLE = 0x03F79D71B4CB0A89  # de Bruijn's: each of its windows of six bits is there once
_BIT_OF = np.zeros(WORD, dtype=np.int64)
for _bit in range(WORD):
    _BIT_OF[((_CYCLE << _bit) % (1 << WORD)) >> 58] = _bit
_FACTOR = np.uint64(_CYCLE)
_WINDOW = np.uint64(58)


def placement_code(placement: Placement) -> int:
    """The number by which compiled code knows a placement."""
    codes = {
        Placement.CONSOLIDATED: CONSOLIDATED,
        Placement.SPREAD: SPREAD,
        Placement.TOPOLOGY: TOPOLOGY,
    }
    return codes[placement]


def can_ever_fit(jobs: SimJobs, cluster: SimCluster) -> NDArray[np.bool_]:
    """Whether each job fits into its pool when that is empty."""
    nodes = make_nodes(cluster, 0)
    largest = np.array([largest_node(nodes, pool, ANY) for pool in range(len(cluster.pools))])
    fits: NDArray[np.bool_] = (
        (jobs.num_gpus <= largest[jobs.pool]) & (jobs.num_nodes <= 1) & (jobs.gpu_type == ANY)
    )
    rows = np.flatnonzero(~fits)
    wanted = (jobs.pool, jobs.gpu_type, jobs.num_gpus, jobs.num_nodes)
    kinds, kind = np.unique(
        np.stack([column[rows].astype(np.int64) for column in wanted], axis=1),
        axis=0,
        return_inverse=True,
    )
    kind_fits = [find(nodes, *one, CONSOLIDATED) > 0 for one in kinds]
    fits[rows] = np.array(kind_fits, dtype=np.bool_)[kind.reshape(-1)]
    return fits


@compiled_lean
def find(nodes: Nodes, pool: int, gpu_type: int, gpus: int, num_nodes: int, how: int) -> int:
    """How many pieces a job gets, 0 if it does not fit; they are the first of `nodes.found`."""
    if gpus > nodes.pool[pool].free:
        return 0
    largest = largest_node(nodes, pool, gpu_type)
    if gpus <= largest and num_nodes <= 1:
        return _find_node(nodes, pool, gpu_type, gpus, how)
    if num_nodes == 1:
        return 0
    first, last = nodes.pool[pool].first_group, nodes.pool[pool + 1].first_group
    is_one_type = 0 <= gpu_type < nodes.accepts.shape[1]
    for group in range(first, last + (last - first > 1 and not is_one_type)):
        kind = nodes.group[group].gpu_type if group < last else gpu_type  # at last, of several
        if group < last and not nodes.accepts[gpu_type + 1, kind]:
            continue
        if group < last and not _may_fit(nodes, pool, group, gpus, min(num_nodes, gpus)):
            continue
        pieces = fit_nodes(nodes, nodes.free, pool, kind, gpus, num_nodes, how)
        if pieces:
            return pieces
    return 0


@compiled_inner
def _find_node(nodes: Nodes, pool: int, gpu_type: int, gpus: int, how: int) -> int:
    """A node for a job on one node."""
    for group in range(nodes.pool[pool].first_group, nodes.pool[pool + 1].first_group):
        if not nodes.accepts[gpu_type + 1, nodes.group[group].gpu_type]:
            continue
        largest = nodes.group[group].largest
        for step in range(largest - gpus + 1):
            free = largest - step if how == SPREAD else gpus + step
            if nodes.with_free[free, group]:
                nodes.found[0].node = _first_node(nodes, group, free)
                nodes.found[0].gpus = gpus
                return 1
    return 0


@compiled_inner
def _first_node(nodes: Nodes, group: int, free: int) -> int:
    """The first node of a group with exactly so many free GPUs; there is one."""
    begin = nodes.group[group].first_word
    word = begin
    while nodes.bits[free, word] == _NONE:
        word += 1
    bits = nodes.bits[free, word]
    lowest = bits & (~bits + _ONE)
    place = (word - begin) * WORD + _BIT_OF[(lowest * _FACTOR) >> _WINDOW]
    node: int = nodes.group_nodes[nodes.group[group].first_node + place]
    return node


@compiled_inner
def _may_fit(nodes: Nodes, pool: int, group: int, gpus: int, parts: int) -> bool:
    """Whether the counts allow a job on several nodes; exact but where sizes of nodes differ."""
    largest = nodes.group[group].largest
    if parts > 1:
        part = gpus // parts
        if part > largest:
            return False
        larger = _nodes_with(nodes, group, part + 1)
        return larger >= gpus % parts and _nodes_with(nodes, group, part) >= parts
    if not nodes.group[group].even:
        within: bool = gpus <= nodes.pool[pool].whole + largest
        return within
    whole = _nodes_with(nodes, group, largest)
    rest = gpus % largest
    if rest and whole == gpus // largest:  # a node that is not free has to hold the rest
        return _nodes_with(nodes, group, rest) > whole
    enough: bool = whole >= -(-gpus // largest)
    return enough


@compiled_inner
def _nodes_with(nodes: Nodes, group: int, gpus: int) -> int:
    """Nodes of a group with so many free GPUs at least."""
    total = 0
    for free in range(gpus, nodes.group[group].largest + 1):
        total += nodes.with_free[free, group]
    return total
