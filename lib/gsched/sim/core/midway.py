"""A simulation that begins in the midst of things: some jobs run already, and where is known."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gsched.policy.order_form import OrderForm
from gsched.sim.cluster import SimCluster
from gsched.sim.core.build import make_sim
from gsched.sim.core.compiled import compiled_lean
from gsched.sim.core.events import set_event
from gsched.sim.core.nodes import Nodes, make_nodes, take
from gsched.sim.core.passes import pool_event, schedule
from gsched.sim.core.placement import find, placement_code
from gsched.sim.core.running import start
from gsched.sim.core.state import Sim
from gsched.sim.core.steps import advance, next_event_s
from gsched.sim.jobs import ANY, Floats, SimJobs
from gsched.sim.rules import Placement, SimRules

Counts = NDArray[np.int64]
_NOW_S = 0.0


@dataclass(frozen=True, eq=False)
class Midway:
    """What is the case at second 0. The first jobs are those that run, as many as `held_for_s` has.

    Job r holds the pieces ``first_piece[r]:first_piece[r + 1]``: so many GPUs each (`gpus`), as
    many in all as the job asks for, and never more than are there, on nodes (`node`). `held_for_s`
    is for how long it has held them; its duration is what it still has to run. From `closes_s` to
    `opens_s` the pools are closed: no job runs then (inf: they never are).
    """

    held_for_s: Floats
    first_piece: Counts
    node: Counts
    gpus: Counts
    closes_s: float = np.inf
    opens_s: float = np.inf


def start_times(
    jobs: SimJobs,
    cluster: SimCluster,
    form: OrderForm,
    rules: SimRules,
    midway: Midway,
    awaited: NDArray[np.bool_],
) -> Floats:
    """When jobs start, NaN for those that have not when all that are `awaited` have.

    Waiting jobs have a `submit_s` of 0 or less, those to come more. `form` never changes and
    nothing is preempted, and the rules have neither costs nor failures, sleep or rounds.
    """
    sim = make_sim(jobs, cluster, form, rules)
    sim.pools["closes_s"] = midway.closes_s
    sim.pools["opens_s"] = midway.opens_s
    _begin(sim, midway.held_for_s, midway.first_piece, midway.node, midway.gpus)
    _run_until_started(sim, awaited, int(awaited.sum()))
    start_s: Floats = sim.jobs["start_s"].copy()
    return start_s


@dataclass(frozen=True, slots=True)
class Holder:
    """A running job: the `pieces` (node, GPUs) that it holds or, where nobody knows them, none and
    what it asked for."""

    pieces: Sequence[tuple[int, int]]
    gpu_type: int = ANY
    num_gpus: int = 0
    num_nodes: int = 0


def find_room(
    cluster: SimCluster, holders: Sequence[Holder], placement: Placement
) -> list[list[tuple[int, int]]]:
    """The pieces of each running job, all on the one pool of `cluster`.

    Known pieces count first, as far as the node has room. The others are placed as if they started
    now, the largest first; those that fit nowhere hold what is free, on whatever nodes.
    """
    nodes = make_nodes(cluster, len(holders))
    held: list[list[tuple[int, int]]] = [[] for _ in holders]
    unknown = [row for row, one in enumerate(holders) if not one.pieces]
    for row, one in enumerate(holders):
        held[row] = _take(nodes, row, one.pieces)
    for row in sorted(unknown, key=lambda row: -holders[row].num_gpus):
        one = holders[row]
        pieces = find(
            nodes, 0, one.gpu_type, one.num_gpus, one.num_nodes, placement_code(placement)
        )
        found = [(int(each["node"]), int(each["gpus"])) for each in nodes.found[:pieces]]
        held[row] = _take(nodes, row, found or _whatever_is_free(nodes, one))
    return held


def _whatever_is_free(nodes: Nodes, holder: Holder) -> list[tuple[int, int]]:
    """Pieces on the nodes that a job may use, the freest first."""
    left = holder.num_gpus
    pieces = []
    for node in np.argsort(-nodes.free, kind="stable").tolist():
        gpus = min(left, int(nodes.free[node]))
        if gpus and nodes.accepts[holder.gpu_type + 1, nodes.node[node]["gpu_type"]]:
            pieces.append((node, gpus))
            left -= gpus
    return pieces


def _take(nodes: Nodes, row: int, pieces: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Give a job those pieces as far as they are free; what it has then."""
    free = Counter({node: int(nodes.free[node]) for node, _ in pieces})
    held: Counter[int] = Counter()
    for node, gpus in pieces:
        held[node] = min(held[node] + gpus, free[node])
    taken = [(node, gpus) for node, gpus in held.items() if gpus]
    for number, piece in enumerate(taken):
        nodes.found[number] = piece
    if taken:
        take(nodes, row, len(taken))
    return taken


@compiled_lean
def _begin(
    sim: Sim, held_for_s: Floats, first_piece: Counts, piece_node: Counts, piece_gpus: Counts
) -> None:
    """Let those who run hold what they hold, and the others come who wait."""
    sim.now[0].time_s = _NOW_S
    sim.now[0].next_job = len(held_for_s)
    for row in range(len(held_for_s)):
        pieces = first_piece[row + 1] - first_piece[row]
        for number in range(pieces):
            at = first_piece[row] + number
            sim.places.found[number].node = piece_node[at]
            sim.places.found[number].gpus = piece_gpus[at]
        node = take(sim.places, row, pieces)
        start(sim, row, _NOW_S, node, pieces)
        sim.jobs[row].held_from_s = _NOW_S - held_for_s[row]
    for pool in range(len(sim.pools)):
        if sim.pools[pool].closes_s < np.inf:
            set_event(sim, pool_event(sim, pool), sim.pools[pool].opens_s)
    advance(sim, _NOW_S)
    schedule(sim, _NOW_S)


@compiled_lean
def _run_until_started(sim: Sim, awaited: NDArray[np.bool_], left: int) -> None:
    """Let time pass until all that are awaited have started, or nothing happens any more."""
    seen = 0
    while True:
        while seen < sim.now[0].segments:
            if awaited[sim.segments[seen].job]:
                left -= 1
            seen += 1
        if left == 0:
            return
        time_s = next_event_s(sim)
        if time_s == np.inf:
            return
        advance(sim, time_s)
        schedule(sim, time_s)
