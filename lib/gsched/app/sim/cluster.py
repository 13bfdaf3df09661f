"""The cluster of a simulation, and the jobs of a trace put on it.

Its nodes are named (``--nodes``, ``--pools``), those of the live Slurm, or as many as the trace
itself tells (``sizing``). Pools share nothing; a job belongs to the pool of its partition, its
account (the virtual cluster of many traces) or its cluster.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from gsched.app.sim import sizing
from gsched.app.sim.gpu_types import at_speed_one, types_of
from gsched.app.sim.inputs import Chosen, sim_jobs
from gsched.app.sim.pools import (
    SHARED,
    NodeGroup,
    cluster_of,
    joined_pools,
    live_groups,
    named_pools,
    parse_nodes,
    read_pools,
)
from gsched.app.sim.rows import Coded, PastColumns, Whole
from gsched.config.settings import Settings
from gsched.errors import UsageError
from gsched.explain.words import count
from gsched.sim.cluster import SimCluster
from gsched.sim.core.placement import can_ever_fit
from gsched.sim.jobs import ANY, SimJobs

POOL_BY = ("partition", "account", "cluster", "none")


@dataclass(frozen=True, slots=True)
class ClusterOrder:
    """What a command line says of the cluster.

    At most one of `nodes` (a shared cluster), `pools` (a file) and `live` is given; without any,
    the trace's own jobs tell, and `load` and `gpus_a_node` help to read them. `pool_by` is one of
    POOL_BY, None: what the jobs tell. Raises UsageError where the parts do not fit together.
    """

    nodes: str | None = None
    pools: Path | None = None
    live: bool = False
    load: float | None = None
    gpus_a_node: int | None = None
    pool_by: str | None = None
    nodes_a_switch: int = 0

    def __post_init__(self) -> None:
        named = [
            option
            for option, given in (
                ("--nodes", self.nodes is not None),
                ("--pools", self.pools is not None),
                ("--live", self.live),
            )
            if given
        ]
        if len(named) > 1:
            raise UsageError(f"{' and '.join(named)} both say which nodes there are")
        for option, value in (("--load", self.load), ("--gpus-a-node", self.gpus_a_node)):
            if named and value is not None:
                raise UsageError(f"{option} is for a cluster sized by its jobs, not {named[0]}")
        if self.pool_by is not None and (self.nodes is not None or self.live):
            raise UsageError(f"--pool-by does not go with {named[0]}")


@dataclass(frozen=True, eq=False)
class Fitted:
    """Jobs on their cluster. `chosen` are the jobs that fit, with all that were left out."""

    jobs: SimJobs
    cluster: SimCluster
    chosen: Chosen
    notes: tuple[str, ...]


def fit(chosen: Chosen, order: ClusterOrder, settings: Settings) -> Fitted:
    """Put the jobs on the cluster of `order`; those that it can never run are left out.

    Raises DataError where none is left, and what the sources of the nodes raise.
    """
    labels, groups, notes = _pools(chosen.past, order, settings)
    cluster = cluster_of(groups, order.nodes_a_switch)
    number = {name: place for place, name in enumerate(cluster.pools)}
    place_of = np.array([*(number.get(name, ANY) for name in labels.values), ANY], dtype=np.int32)
    pool = place_of[labels.codes]
    known = chosen.without("no-such-pool", pool < 0)
    jobs, more = _placeable(known.past, pool[pool >= 0], cluster)
    can_run = can_ever_fit(jobs, cluster)
    fitting = known.without("larger-than-pool", ~can_run)
    if not can_run.all():
        jobs, more = _placeable(fitting.past, jobs.pool[can_run], cluster)
    past, jobs, speeds = at_speed_one(fitting.past, jobs, cluster)
    told = (f"Nodes and pools: {notes}.", *speeds, *more)
    return Fitted(jobs, cluster, replace(fitting, past=past), told)


def _pools(
    past: PastColumns, order: ClusterOrder, settings: Settings
) -> tuple[Coded, Sequence[NodeGroup], str]:
    """The pool of each job, the nodes, and where both come from in words."""
    if order.nodes is not None:
        return _shared(past), parse_nodes(order.nodes), "one pool that all jobs share, as told"
    if order.pools is not None:
        groups = read_pools(order.pools)
        names = {group.pool for group in groups}
        by = order.pool_by or _naming(past, names)
        labels, several = _in_pools(_labels(past, by), names)
        return labels, groups, f"as in {order.pools}, jobs by {by}{several}"
    if order.live:
        groups, pool_of = live_groups(settings)
        labels, several = _by_name(past.partition, pool_of)
        return labels, groups, f"the GPU nodes of this Slurm, all of them up{several}"
    partition, several = _one_of_several(past.partition)
    labels, sized, words = _sized(replace(past, partition=partition), order)
    return labels, sized, f"{words}{several}"


def _sized(past: PastColumns, order: ClusterOrder) -> tuple[Coded, Sequence[NodeGroup], str]:
    by = order.pool_by or _told_by(past)
    untold = _labels(past, by).codes < 0
    if untold.any():  # they are left out: their pool is not known
        labels, groups, words = _sized(past.take(np.flatnonzero(~untold)), order)
        codes = np.full(len(past), ANY, dtype=np.int32)
        codes[~untold] = labels.codes
        return Coded(codes, labels.values), groups, words
    seen = sizing.nodes_seen(past)
    labels = _labels(past, by)
    if seen is not None and by == "partition" and _one_cluster(past):
        held = sizing.partitions_held(past.partition, seen)
        labels, _ = _by_name(past.partition, joined_pools(held))
    if seen is not None and order.load is None and not order.gpus_a_node:
        words = (
            "those that the jobs ran on, with the GPUs that were in use at once (at least these)"
        )
        return labels, sizing.seen_groups(past, labels, seen), f"{words}, jobs by {by}"
    gpus = order.gpus_a_node or sizing.likely_gpus(past)
    if order.load is None and not past.start_assumed.any():
        groups = sizing.peak_groups(past, labels, gpus)
        words = f"nodes of {gpus} GPUs, as many as were in use at once (at least these)"
    else:
        load = order.load or sizing.USUAL_LOAD
        groups = sizing.loaded_groups(past, labels, gpus, load)
        words = (
            f"ASSUMED: nodes of {gpus} GPUs, as many as these jobs fill to {load:.0%} from the "
            "first to the last submission (or in their mean run time, if that is longer), rounded "
            "up to whole nodes and to the largest job"
        )
    return labels, groups, f"{words}, jobs by {by}"


def _told_by(past: PastColumns) -> str:
    """What every job tells: its partition, else its account, else its cluster."""
    for by, column in (("partition", past.partition), ("account", past.tenant)):
        if (column.codes >= 0).all():
            return by
    return "cluster"


def _naming(past: PastColumns, names: set[str]) -> str:
    """By which of POOL_BY most jobs find their pool among `names`."""
    if names == {SHARED}:
        return "none"

    def found(by: str) -> int:
        return int((_in_pools(_labels(past, by), names)[0].codes != ANY).sum())

    return max(POOL_BY, key=found)


def _labels(past: PastColumns, by: str) -> Coded:
    """The pool of each job by one of POOL_BY; of several clusters it is named CLUSTER/POOL."""
    if by == "none":
        return _shared(past)
    if by == "cluster":
        return past.cluster
    column = past.partition if by == "partition" else past.tenant
    if _one_cluster(past):
        return column
    both = np.stack((past.cluster.codes, column.codes))
    pairs, codes = np.unique(both, axis=1, return_inverse=True)
    names = [
        f"{past.cluster.values[c]}/{column.values[p] if p >= 0 else ''}"
        for c, p in pairs.T.tolist()
    ]
    return Coded(codes.reshape(-1).astype(np.int32), names)


def _one_cluster(past: PastColumns) -> bool:
    return len(np.unique(past.cluster.codes)) == 1


def _shared(past: PastColumns) -> Coded:
    return Coded(np.zeros(len(past), dtype=np.int32), [SHARED])


def _in_pools(labels: Coded, pools: Iterable[str]) -> tuple[Coded, str]:
    """As `_by_name`, where pools may be those of several partitions: ``a100+debug``."""
    return _by_name(labels, named_pools(pools, labels.values))


def _by_name(labels: Coded, pool_of: Mapping[str, str]) -> tuple[Coded, str]:
    """The pool of what each job names; of several partitions, of the first that has one.

    Also in words of how many jobs that is so.
    """
    pools = sorted(set(pool_of.values()))
    number = {name: place for place, name in enumerate(pools)}
    first = [
        next((name for name in (text, *_several(text)) if name in pool_of), None)
        for text in labels.values
    ]
    codes = [ANY if name is None else number[pool_of[name]] for name in first]
    chosen = [name not in (None, text) for name, text in zip(first, labels.values, strict=True)]
    found = np.array([*codes, ANY], dtype=np.int32)[labels.codes]
    return Coded(found, pools), _several_words(np.array([*chosen, False])[labels.codes])


def _one_of_several(partition: Coded) -> tuple[Coded, str]:
    """Of several partitions that a job names, the first that others name alone; and how many."""
    alone = {text for text in partition.values if not _several(text)}
    return _by_name(
        partition, {name: name for text in partition.values for name in _known(text, alone)}
    )


def _known(text: str, alone: Container[str]) -> Sequence[str]:
    several = _several(text)
    return [name for name in several if name in alone] or several[:1] or [text]


def _several(text: str) -> Sequence[str]:
    """The partitions of a list, () where it is a single one: ``x/a,b`` is ``x/a`` and ``x/b``."""
    cluster, slash, listed = text.rpartition("/")
    names = [name for name in listed.split(",") if name]
    return [f"{cluster}{slash}{name}" for name in names] if "," in listed else ()


def _several_words(chosen: NDArray[np.bool_]) -> str:
    jobs = int(chosen.sum())
    if not jobs:
        return ""
    return f"; {count(jobs, 'job')} of several partitions: in the first of them that is there"


def _placeable(
    past: PastColumns, pool: NDArray[np.int32], cluster: SimCluster
) -> tuple[SimJobs, tuple[str, ...]]:
    """The jobs with the nodes and types that they ask for, where the cluster has such."""
    notes = []
    gpu_type = types_of(past.gpu_type, cluster)
    foreign = int(((past.gpu_type.codes >= 0) & (gpu_type == ANY)).sum())
    if foreign and any(cluster.gpu_types):
        asking = "job asks" if foreign == 1 else "jobs ask"
        notes.append(f"{foreign:,} {asking} for a type of GPU that is not here: any will do.")
    asked = _even_nodes(past)
    jobs = sim_jobs(past, pool, asked, gpu_type)
    beyond = (asked > 0) & ~can_ever_fit(jobs, cluster)
    if beyond.any():
        as_few = np.where(beyond, 0, asked).astype(np.int32)
        as_few_jobs = replace(jobs, num_nodes=as_few)
        helped = beyond & can_ever_fit(as_few_jobs, cluster)
        if helped.any():
            jobs = replace(jobs, num_nodes=np.where(helped, 0, asked).astype(np.int32))
            notes.append(
                f"{count(int(helped.sum()), 'job')} had nodes that are not here: as few nodes as "
                "can be will do."
            )
    return jobs, tuple(notes)


def _even_nodes(past: PastColumns) -> Whole:
    """How many nodes a job had, where its GPUs go evenly on them; else 0: as few as can be."""
    told = np.clip(past.num_nodes, 0, np.iinfo(np.int32).max)
    is_even = (told > 0) & (told <= past.num_gpus) & (past.num_gpus % np.maximum(told, 1) == 0)
    return np.where(is_even, told, 0)
