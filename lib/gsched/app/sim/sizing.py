"""How large the cluster was on which a trace was recorded, as far as its jobs tell.

Where most jobs tell their nodes: those nodes, each with as many GPUs as were in use on it at once,
and partitions that share a node are one pool. Else, where jobs tell when they started: as many
nodes as hold the GPUs that were in use at once. Both are lower bounds. Else, or when asked to: so
large that the jobs' GPU time is a given fraction of its own from the first to the last submission
(the offered load of reports), or in their mean run time, by GPU, where that is longer: then all may
run at once. A pool always holds its largest job, because it has run there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gsched.app.sim.pools import MAX_NODES, NodeGroup
from gsched.app.sim.rows import Coded, PastColumns, Whole
from gsched.errors import DataError
from gsched.model.hostlist import expand

USUAL_LOAD = 0.85
USUAL_GPUS = 8
MOST_LIKELY_GPUS = 16
"""A node with more GPUs is taken for a trace that does not tell nodes as they were."""

TOLD_NODES = 0.9
"""So many of the jobs have to tell their nodes, to go by them."""


@dataclass(frozen=True, eq=False)
class NodesSeen:
    """Nodes on which jobs of a trace ran, and for each job those that it held.

    The nodes of job j are ``node[first[j]:first[j + 1]]``, with `gpus` of its GPUs on each: evenly
    as far as that goes.
    """

    names: Sequence[str]
    first: Whole
    node: Whole
    gpus: Whole


def nodes_seen(jobs: PastColumns) -> NodesSeen | None:
    """The nodes that the jobs tell, None where too few do."""
    lists = [_expanded(text) for text in jobs.node_list.values]
    length = np.array([*map(len, lists), 0], dtype=np.int64)
    held = length[jobs.node_list.codes]
    if (held > 0).mean() < TOLD_NODES:
        return None
    names = sorted({name for listed in lists for name in listed})
    number = {name: place for place, name in enumerate(names)}
    flat = np.array([number[name] for listed in lists for name in listed], dtype=np.int64)
    begin = np.concatenate(([0], np.cumsum(length[:-1]), [0]))[jobs.node_list.codes]
    first = np.concatenate(([0], np.cumsum(held)))
    job = np.repeat(np.arange(len(jobs)), held)
    within = np.arange(len(job)) - first[job]
    gpus = jobs.num_gpus[job] // held[job] + (within < jobs.num_gpus[job] % held[job])
    return NodesSeen(names, first, flat[begin[job] + within], gpus)


def _expanded(text: str) -> Sequence[str]:
    try:
        return expand(text)
    except DataError:
        return ()  # a grammar of its own


def seen_groups(jobs: PastColumns, pools: Coded, seen: NodesSeen) -> list[NodeGroup]:
    """The nodes that were seen, by pool, with the most GPUs that were in use on them at once."""
    job = np.repeat(np.arange(len(jobs)), np.diff(seen.first))
    peaks = _peaks(seen.node, jobs.start_time[job], jobs.end_time[job], seen.gpus)
    pool_of_node = np.full(len(seen.names), -1, dtype=np.int64)
    pool_of_node[seen.node] = pools.codes[job]
    by_kind: dict[tuple[int, int], list[str]] = {}
    for node, gpus in enumerate(peaks.tolist()):
        if gpus > 0:
            by_kind.setdefault((int(pool_of_node[node]), gpus), []).append(seen.names[node])
    return [
        NodeGroup(pools.values[pool], len(names), gpus, names=tuple(names))
        for (pool, gpus), names in sorted(by_kind.items())
    ]


def peak_groups(jobs: PastColumns, pools: Coded, gpus_a_node: int) -> list[NodeGroup]:
    """As many nodes as hold the GPUs that were in use in each pool at once."""
    codes = pools.codes.astype(np.int64)
    return _groups(
        jobs, pools, _peaks(codes, jobs.start_time, jobs.end_time, jobs.num_gpus), gpus_a_node
    )


def loaded_groups(
    jobs: PastColumns, pools: Coded, gpus_a_node: int, load: float
) -> list[NodeGroup]:
    """As many nodes as the jobs fill to `load` while they are submitted, or for their mean run."""
    gpu_time_s = jobs.num_gpus * jobs.run_s.astype(np.float64)
    mean_run_s = float(gpu_time_s.sum() / jobs.num_gpus.sum())
    span_s = max(float(np.ptp(jobs.submit_time)), mean_run_s)
    demand = np.bincount(pools.codes, weights=gpu_time_s, minlength=len(pools.values)) / span_s
    return _groups(jobs, pools, np.ceil(demand / load).astype(np.int64), gpus_a_node)


def likely_gpus(jobs: PastColumns) -> int:
    """GPUs of a node: the most that a job had on one, where all tell nodes; else the usual 8."""
    if (jobs.num_nodes < 1).any():
        return USUAL_GPUS
    most = int((-(-jobs.num_gpus // jobs.num_nodes)).max())
    return most if most <= MOST_LIKELY_GPUS else USUAL_GPUS


def _groups(jobs: PastColumns, pools: Coded, num_gpus: Whole, gpus_a_node: int) -> list[NodeGroup]:
    largest = np.zeros(len(pools.values), dtype=np.int64)
    np.maximum.at(largest, pools.codes, -(-jobs.num_gpus // gpus_a_node))
    nodes = np.maximum(-(-num_gpus // gpus_a_node), largest)
    if nodes.sum() > MAX_NODES:
        raise DataError(
            f"the jobs of this trace would need {int(nodes.sum()):,} nodes of {gpus_a_node} GPUs",
            "name the nodes: --nodes 10x8, --pools FILE",
        )
    return [
        NodeGroup(name, many, gpus_a_node)
        for name, many in zip(pools.values, nodes.tolist(), strict=True)
        if many
    ]


def _peaks(place: Whole, start: Whole, end: Whole, gpus: Whole) -> Whole:
    """By place, the most GPUs that were in use there at once."""
    places = np.concatenate((place, place))
    moves = np.concatenate((gpus, -gpus))
    order = np.lexsort((moves, np.concatenate((start, end)), places))  # ends before starts
    in_use = np.cumsum(moves[order])  # 0 again behind the last end of each place
    peaks = np.zeros(int(place.max(initial=-1)) + 1, dtype=np.int64)
    np.maximum.at(peaks, places[order], in_use)
    return peaks


def partitions_held(partitions: Coded, seen: NodesSeen) -> Mapping[str, NDArray[np.int64]]:
    """By partition, the nodes that its jobs held."""
    job_codes = np.repeat(partitions.codes, np.diff(seen.first))
    return {
        name: np.unique(seen.node[job_codes == code])
        for code, name in enumerate(partitions.values)
        if (job_codes == code).any()
    }
