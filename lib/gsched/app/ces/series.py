"""The demand of each pool from the job history: how many of its nodes ran something, by steps.

What is not known is a gap, and never a node that stood idle: the time before the history began,
and steps in which jobs ran whose nodes' names are not known.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from gsched.demand.jobs import Span, Use, busy_nodes, demand_of_jobs
from gsched.demand.series import DemandSeries
from gsched.model.node_use import NodeUse


def demand_of_pools(
    uses: Sequence[NodeUse],
    pools: Mapping[str, Sequence[str]],
    span: Span,
    unknown: NDArray[np.bool_] | None = None,
) -> dict[str, DemandSeries]:
    """A series a pool, from the nodes that are its own today, wherever they were before.

    `uses` are all that the history knows of `span`, `unknown` the steps of which it knows too
    little. Uses without names count in the one pool that there is; where there are several, what
    they do to each is not known.
    """
    gaps = np.zeros(span.num_steps, dtype=np.bool_) if unknown is None else unknown.copy()
    unnamed = [Use(u.start, u.end, u.num_nodes) for u in uses if not u.nodes]
    if len(pools) > 1 and unnamed:
        gaps |= demand_of_jobs(unnamed, span, "nodes").values > 0
        unnamed = []
    by_pool = {name: list(unnamed) for name in pools}
    pool_of = {node: name for name, nodes in pools.items() for node in nodes}
    for use in uses:
        for name, nodes in _split(use, pool_of).items():
            by_pool[name].append(Use(use.start, use.end, len(nodes), nodes=tuple(nodes)))
    found = {}
    for name, own in by_pool.items():
        series = busy_nodes(own, span)
        values = np.where(gaps, np.nan, np.minimum(series.values, len(pools[name])))
        found[name] = replace(series, values=values)
    return found


def _split(use: NodeUse, pool_of: Mapping[str, str]) -> Mapping[str, list[str]]:
    parts: dict[str, list[str]] = {}
    for node in use.nodes:
        pool = pool_of.get(node)
        if pool is not None:
            parts.setdefault(pool, []).append(node)
    return parts


def before_history(uses: Sequence[NodeUse], span: Span) -> NDArray[np.bool_]:
    """The steps of which the history knows too little: those before its first job ended.

    Of a time before that it has the jobs alone that outlived it.
    """
    ends = [use.end for use in uses if use.end is not None]
    begins = span.since + span.step_s * np.arange(span.num_steps, dtype=np.int64)
    if not ends:
        return np.ones(span.num_steps, dtype=np.bool_)
    return np.asarray(begins < min(ends))


def unnamed_share(uses: Sequence[NodeUse], span: Span) -> float:
    """The share of the steps of `span` in which a job ran whose nodes' names are not known."""
    unnamed = [Use(u.start, u.end, u.num_nodes) for u in uses if not u.nodes]
    if not unnamed or not span.num_steps:
        return 0.0
    return float(np.mean(demand_of_jobs(unnamed, span, "nodes").values > 0))
