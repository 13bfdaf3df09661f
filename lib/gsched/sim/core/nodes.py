"""What is free on the nodes, kept so that a node that fits is found without a look at each.

Nodes of one pool and one GPU type are a *group*. For each number of free GPUs a group has a bitmap
of its nodes and their count. The pieces of jobs (GPUs on one node) are linked lists, so that a job
can give back what it holds.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gsched.sim.cluster import SimCluster
from gsched.sim.core.compiled import Records, compiled_inner, compiled_lean
from gsched.sim.jobs import ANY

FREE, WHOLE = 0, 1
"""Places in `Nodes.totals`: free GPUs of nodes that are up; those of them on wholly free nodes."""

WORD = 64
_ONE = np.uint64(1)

Column = NDArray[np.int64]


NODE = np.dtype(
    [
        ("gpus", "i8"),
        ("used", "i8"),
        ("up", "i8"),  # 0 or 1
        ("gpu_type", "i8"),
        ("switch", "i8"),  # from 0, without gaps
        ("pool", "i8"),
        ("group", "i8"),
        ("place", "i8"),  # its bit in the bitmaps of its group
    ]
)
POOL = np.dtype(
    [
        ("first_node", "i8"),
        ("first_group", "i8"),  # its groups: the fastest type first
        ("free", "i8"),  # GPUs
        ("whole", "i8"),  # GPUs on wholly free nodes
    ]
)
GROUP = np.dtype(
    [
        ("gpu_type", "i8"),
        ("largest", "i8"),  # GPUs of its largest node
        ("even", "i8"),  # 1: all its nodes are equally large
        ("first_node", "i8"),  # into Nodes.group_nodes
        ("first_word", "i8"),  # into the second axis of Nodes.bits
    ]
)
PIECE = np.dtype([("node", "i4"), ("gpus", "i4"), ("next", "i4")])
FOUND = np.dtype([("node", "i8"), ("gpus", "i8")])


class Nodes(NamedTuple):
    """Nodes and what is on them: records (in Python, ``nodes.node["used"]`` is a column)."""

    node: Records  # NODE
    free: Column  # by node: free GPUs, 0 where it is not up
    pool: Records  # POOL, and one behind the last
    group: Records  # GROUP
    group_nodes: Column  # node rows, group after group
    accepts: NDArray[np.bool_]  # (type that a job asks for + 1, type): whether it may use it
    with_free: Column  # (free GPUs, group): nodes that are up with exactly so many free
    bits: NDArray[np.uint64]  # (free GPUs, word): which ones
    totals: Column
    first_piece: NDArray[np.int32]  # by job, ANY: it holds nothing
    piece: Records  # PIECE: linked lists, of what is not in use as well
    spare_piece: NDArray[np.int32]  # one element: the first piece that is not in use
    found: Records  # FOUND: the pieces that the last search has found


def make_nodes(cluster: SimCluster, num_jobs: int) -> Nodes:
    """All nodes up and free, for jobs with rows below `num_jobs`."""
    num_nodes, num_pools = cluster.num_nodes, len(cluster.pools)
    node = np.zeros(num_nodes, dtype=NODE)
    node["gpus"] = cluster.node_gpus
    node["gpu_type"] = cluster.node_type
    node["switch"] = np.unique(cluster.node_switch, return_inverse=True)[1].reshape(-1)
    node["pool"] = np.repeat(np.arange(num_pools), np.diff(cluster.first_node))
    slowness = np.argsort(np.argsort(-cluster.type_speed, kind="stable"))[cluster.node_type]
    order = np.lexsort((np.arange(num_nodes), slowness, node["pool"]))
    differs = np.any(np.diff(np.stack((node["pool"], slowness))[:, order], prepend=ANY), axis=0)
    begins = np.flatnonzero(differs)
    sizes = np.diff(begins, append=num_nodes)
    node["group"][order] = np.cumsum(differs) - 1
    node["place"][order] = np.arange(num_nodes) - np.repeat(begins, sizes)
    pool = np.zeros(num_pools + 1, dtype=POOL)
    pool["first_node"] = cluster.first_node
    pool["first_group"] = np.searchsorted(node["pool"][order[begins]], np.arange(num_pools + 1))
    group = np.zeros(len(begins), dtype=GROUP)
    group["gpu_type"] = node["gpu_type"][order[begins]]
    group["first_node"] = begins
    words = -(-sizes // WORD)
    group["first_word"] = np.cumsum(words) - words
    if len(begins):
        gpus = node["gpus"][order]
        group["largest"] = np.maximum.reduceat(gpus, begins)
        group["even"] = np.minimum.reduceat(gpus, begins) == group["largest"]
    levels = int(node["gpus"].max(initial=0)) + 1
    piece = np.zeros(cluster.num_gpus + 1, dtype=PIECE)
    piece["next"] = np.append(np.arange(1, len(piece)), ANY)
    nodes = Nodes(
        node=node,
        free=np.zeros(num_nodes, dtype=np.int64),
        pool=pool,
        group=group,
        group_nodes=order.astype(np.int64),
        accepts=_accepts(cluster),
        with_free=np.zeros((levels, len(begins)), dtype=np.int64),
        bits=np.zeros((levels, int(words.sum())), dtype=np.uint64),
        totals=np.zeros(2, dtype=np.int64),
        first_piece=np.full(num_jobs, ANY, dtype=np.int32),
        piece=piece,
        spare_piece=np.zeros(1, dtype=np.int32),
        found=np.zeros(num_nodes, dtype=FOUND),
    )
    _restore_all(nodes)
    return nodes


def _accepts(cluster: SimCluster) -> NDArray[np.bool_]:
    """ANY accepts all types, a type itself, a set those in it."""
    types = len(cluster.gpu_types)
    accepts = np.zeros((1 + types + len(cluster.type_sets), types), dtype=np.bool_)
    accepts[0] = True
    accepts[1 : 1 + types] = np.eye(types, dtype=np.bool_)
    for row, kinds in enumerate(cluster.type_sets, start=1 + types):
        accepts[row, list(kinds)] = True
    return accepts


@compiled_lean
def take(nodes: Nodes, job: int, pieces: int) -> int:
    """Give a job the pieces that the last search has found; the first of their nodes."""
    for number in range(pieces - 1, -1, -1):
        node = nodes.found[number].node
        piece = nodes.spare_piece[0]
        nodes.spare_piece[0] = nodes.piece[piece].next
        nodes.piece[piece].node = node
        nodes.piece[piece].gpus = nodes.found[number].gpus
        nodes.piece[piece].next = nodes.first_piece[job]
        nodes.first_piece[job] = piece
        _use(nodes, node, nodes.node[node].used + nodes.found[number].gpus)
    first: int = nodes.found[0].node
    return first


@compiled_lean
def give_back(nodes: Nodes, job: int) -> None:
    """Free whatever a job holds."""
    piece = nodes.first_piece[job]
    nodes.first_piece[job] = ANY
    while piece != ANY:
        node = np.int64(nodes.piece[piece].node)
        _use(nodes, node, nodes.node[node].used - nodes.piece[piece].gpus)
        after = nodes.piece[piece].next
        nodes.piece[piece].next = nodes.spare_piece[0]
        nodes.spare_piece[0] = piece
        piece = after


@compiled_lean
def hand_over(nodes: Nodes, job: int, to_job: int) -> None:
    """What a job holds becomes another's, who holds nothing."""
    nodes.first_piece[to_job] = nodes.first_piece[job]
    nodes.first_piece[job] = ANY


@compiled_lean
def withdraw(nodes: Nodes, node: int) -> None:
    """A node goes down or to sleep: nothing is found on it. What jobs hold there they keep."""
    if nodes.node[node].up:
        _count(nodes, node, -1)
        nodes.node[node].up = 0
        nodes.free[node] = 0


@compiled_lean
def restore(nodes: Nodes, node: int) -> None:
    """A node is up (again)."""
    if not nodes.node[node].up:
        nodes.node[node].up = 1
        nodes.free[node] = nodes.node[node].gpus - nodes.node[node].used
        _count(nodes, node, 1)


@compiled_lean
def _restore_all(nodes: Nodes) -> None:
    for node in range(len(nodes.node)):
        restore(nodes, node)


@compiled_inner
def _use(nodes: Nodes, node: int, used: int) -> None:
    """So many GPUs of a node are in use."""
    nodes.node[node].used = used
    if nodes.node[node].up:
        _count(nodes, node, -1)
        nodes.free[node] = nodes.node[node].gpus - used
        _count(nodes, node, 1)


@compiled_inner
def _count(nodes: Nodes, node: int, step: int) -> None:
    """A node enters (step 1) or leaves (-1) all counts, with what is free on it now."""
    free = nodes.free[node]
    group = nodes.node[node].group
    pool = nodes.node[node].pool
    place = nodes.node[node].place
    word = nodes.group[group].first_word + place // WORD
    nodes.with_free[free, group] += step
    nodes.bits[free, word] ^= _ONE << np.uint64(place % WORD)
    nodes.pool[pool].free += step * free
    nodes.totals[FREE] += step * free
    if free == nodes.node[node].gpus:
        nodes.pool[pool].whole += step * free
        nodes.totals[WHOLE] += step * free
