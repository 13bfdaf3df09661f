"""What every simulation must keep, recomputed from its segments alone."""

from __future__ import annotations

import numpy as np

from gsched.sim.result import SimResult

EPSILON_S = 1e-6


def check(result: SimResult) -> None:
    """No job lost, no GPU given twice, no time that is not accounted for."""
    assert result.finished.all()
    check_times(result)
    check_accounts(result)
    check_capacity(result)


def check_times(result: SimResult) -> None:
    """Every job has ended, not before its time."""
    jobs = result.jobs
    assert (result.start_s >= jobs.submit_s).all()
    jct_s = result.end_s - jobs.submit_s
    assert (jct_s >= jobs.duration_s - EPSILON_S).all()


def check_accounts(result: SimResult) -> None:
    """Run time is progress and what was lost; segments tell the same as the columns."""
    jobs, segments = result.jobs, result.segments
    held_s = np.zeros(len(jobs))
    np.add.at(held_s, segments.job, segments.end_s - segments.start_s)
    np.testing.assert_allclose(held_s, result.run_s, atol=EPSILON_S)
    np.testing.assert_allclose(result.run_s - result.lost_s, jobs.duration_s, atol=EPSILON_S)
    attempts = np.bincount(segments.job, minlength=len(jobs))
    assert (attempts == 1 + result.preemptions + result.failures).all()
    first = np.full(len(jobs), np.inf)
    np.minimum.at(first, segments.job, segments.start_s)
    if result.rules.sleep is None:  # else it starts when its nodes are awake
        np.testing.assert_array_equal(first, result.start_s)
    assert (np.diff(segments.start_s) >= 0).all()
    for row in range(len(jobs)):  # a job is never in two places
        mine = segments.job == row
        assert (segments.end_s[mine][:-1] <= segments.start_s[mine][1:]).all()


def check_capacity(result: SimResult) -> None:
    """GPUs in use never exceed those of a pool, nor of a node (of jobs that are on one alone)."""
    jobs, cluster, segments = result.jobs, result.cluster, result.segments
    alone = segments.shared < 0
    pools = jobs.pool[segments.job]
    gpus = jobs.num_gpus[segments.job]
    node_pool = np.repeat(np.arange(len(cluster.pools)), np.diff(cluster.first_node))
    for pool in range(len(cluster.pools)):
        first, last = cluster.first_node[pool], cluster.first_node[pool + 1]
        there = (pools == pool) & alone
        assert most_at_once(result, there) <= cluster.node_gpus[first:last].sum()
        assert (node_pool[segments.node[pools == pool]] == pool).all()
    for node in range(cluster.num_nodes):
        there = (segments.node == node) & (gpus <= cluster.node_gpus[node]) & alone
        there &= jobs.num_nodes[segments.job] <= 1
        assert most_at_once(result, there) <= cluster.node_gpus[node]


def most_at_once(result: SimResult, chosen: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> int:
    """The most GPUs that those of the segments hold at the same time."""
    segments = result.segments
    gpus = result.jobs.num_gpus[segments.job[chosen]]
    times = np.concatenate((segments.start_s[chosen], segments.end_s[chosen]))
    steps = np.concatenate((gpus, -gpus))
    ordered = np.lexsort((steps, times))  # what ends at a moment is free for what starts at it
    return int(np.cumsum(steps[ordered]).max(initial=0))


def busy_gpus(result: SimResult, at_s: float) -> int:
    """GPUs in use just after a moment."""
    segments = result.segments
    there = (segments.start_s <= at_s) & (at_s < segments.end_s)
    return int(result.jobs.num_gpus[segments.job[there]].sum())
