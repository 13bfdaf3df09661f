"""The nodes of a job, chosen from any vector of free GPUs by a walk over all nodes of the pool.

Gang scheduling: all pieces of a job or none. A job is on one node if any node is large enough for
it, unless it asks for more nodes. The others:

* With a number of nodes, each gets an equal part (a GPU more on the first where it does not
  divide), on the fullest nodes that suffice, or the emptiest under SPREAD.
* Without, from the freest node down: each is wholly free and filled, but the last holds the rest.
* TOPOLOGY does so within one switch where it can, the one with the least room that suffices; else
  on the switches with the most room, one after the other until it fits.

Nodes with equally much free come in order of their rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from gsched.sim.core.compiled import compiled
from gsched.sim.jobs import ANY

if TYPE_CHECKING:
    from gsched.sim.core.nodes import Column, Nodes

CONSOLIDATED, SPREAD, TOPOLOGY = 0, 1, 2


@compiled
def fit_nodes(
    nodes: Nodes, free: Column, pool: int, gpu_type: int, gpus: int, num_nodes: int, how: int
) -> int:
    """How many pieces a job gets, 0 if it does not fit; they are the first of `nodes.found`.

    `free` has an element for each node of the cluster; nodes of another `gpu_type` do not count.
    """
    largest = largest_node(nodes, pool, gpu_type)
    parts = 1 if gpus <= largest and num_nodes <= 1 else min(num_nodes, gpus)
    if parts == 1 and gpus > largest:
        return 0
    rows = _by_free(nodes, free, pool, gpu_type, how != SPREAD and parts > 0)
    near = how == TOPOLOGY and parts != 1
    return (
        _on_few_switches(nodes, free, rows, gpus, parts, largest)
        if near
        else _on_nodes(nodes, free, rows, gpus, parts)
    )


@compiled
def largest_node(nodes: Nodes, pool: int, gpu_type: int) -> int:
    """GPUs of the largest node of a pool that a job which asks for a type may use."""
    largest = 0
    for group in range(nodes.pool[pool].first_group, nodes.pool[pool + 1].first_group):
        if nodes.accepts[gpu_type + 1, nodes.group[group].gpu_type]:
            largest = max(largest, nodes.group[group].largest)
    return largest


@compiled
def _by_free(nodes: Nodes, free: Column, pool: int, gpu_type: int, ascending: bool) -> Column:
    """The nodes with anything free by how much it is, equals by row: a counting sort."""
    first, last = nodes.pool[pool].first_node, nodes.pool[pool + 1].first_node
    most = 0
    for node in range(first, last):
        most = max(most, free[node])
    begin = np.zeros(most + 1, dtype=np.int64)
    for node in range(first, last):
        if free[node] > 0 and nodes.accepts[gpu_type + 1, nodes.node[node].gpu_type]:
            begin[free[node] - 1 if ascending else most - free[node]] += 1
    total = 0
    for slot in range(most + 1):
        here = begin[slot]
        begin[slot] = total
        total += here
    rows = np.empty(total, dtype=np.int64)
    for node in range(first, last):
        if free[node] > 0 and nodes.accepts[gpu_type + 1, nodes.node[node].gpu_type]:
            slot = free[node] - 1 if ascending else most - free[node]
            rows[begin[slot]] = node
            begin[slot] += 1
    return rows


@compiled
def _on_nodes(nodes: Nodes, free: Column, rows: Column, gpus: int, parts: int) -> int:
    """Pieces on `rows`, in their order: so many equal `parts`, or (0) whole nodes and the rest."""
    if parts:
        return _equal_parts(nodes, free, rows, gpus, parts)
    return _filled(nodes, free, rows, gpus)


@compiled
def _filled(nodes: Nodes, free: Column, rows: Column, gpus: int) -> int:
    """Whole nodes; the last holds the rest."""
    rest = gpus
    pieces = 0
    for node in rows:
        if free[node] < rest and free[node] < nodes.node[node].gpus:
            continue
        nodes.found[pieces].node = node
        nodes.found[pieces].gpus = min(rest, free[node])
        rest -= nodes.found[pieces].gpus
        pieces += 1
        if rest == 0:
            return pieces
    return 0


@compiled
def _equal_parts(nodes: Nodes, free: Column, rows: Column, gpus: int, parts: int) -> int:
    """So many pieces of equal size, the first ones a GPU larger where that does not divide."""
    part = gpus // parts
    larger = gpus % parts
    taken = np.zeros(len(rows), dtype=np.bool_)
    pieces = 0
    for size, upto in ((part + 1, larger), (part, parts)):
        for place in range(len(rows)):
            if pieces == upto:
                break
            if not taken[place] and free[rows[place]] >= size:
                taken[place] = True
                nodes.found[pieces].node = rows[place]
                nodes.found[pieces].gpus = size
                pieces += 1
        if pieces < upto:
            return 0
    return pieces


@compiled
def _on_few_switches(
    nodes: Nodes, free: Column, rows: Column, gpus: int, parts: int, largest: int
) -> int:
    """Pieces on one switch, else on several: those with the most room first."""
    room = _room(nodes, free, rows, gpus, parts)
    needed = parts if parts > 1 else gpus - largest  # the last piece needs no whole node
    chosen = np.zeros(len(room), dtype=np.bool_)
    tried = np.zeros(len(room), dtype=np.bool_)
    have = 0
    alone = True
    while True:
        best = _next_switch(room, tried, needed if alone else 0, alone)
        if best == ANY and not alone:
            return 0
        if best == ANY:
            alone = False
            tried[:] = False
            chosen[:] = False
            continue
        if alone:
            chosen[:] = False
            have = 0
        tried[best] = True
        chosen[best] = True
        have += room[best]
        if have >= needed:
            pieces = _on_nodes(nodes, free, _on_switches(nodes, rows, chosen), gpus, parts)
            if pieces:
                return pieces


@compiled
def _next_switch(room: Column, tried: NDArray[np.bool_], needed: int, least: bool) -> int:
    """Of the switches with the room needed that were not tried, that with least or most; ANY."""
    best = ANY
    for one in range(len(room)):
        if tried[one] or room[one] < needed:
            continue
        if best == ANY or (room[one] < room[best] if least else room[one] > room[best]):
            best = one
    return best


@compiled
def _on_switches(nodes: Nodes, rows: Column, chosen: NDArray[np.bool_]) -> Column:
    """Those of `rows` on the chosen switches."""
    kept = np.empty(len(rows), dtype=np.int64)
    count = 0
    for node in rows:
        if chosen[nodes.node[node].switch]:
            kept[count] = node
            count += 1
    return kept[:count]


@compiled
def _room(nodes: Nodes, free: Column, rows: Column, gpus: int, parts: int) -> Column:
    """By switch: nodes that can hold a part, or GPUs on wholly free nodes."""
    switches = 0
    for node in rows:
        switches = max(switches, nodes.node[node].switch + 1)
    room = np.zeros(switches, dtype=np.int64)
    for node in rows:
        if parts > 1:
            room[nodes.node[node].switch] += free[node] >= gpus // parts
        elif free[node] == nodes.node[node].gpus:
            room[nodes.node[node].switch] += free[node]
    return room
