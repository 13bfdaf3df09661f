"""Policies that preempt beside other simulators, on their inputs and by their ticks."""

from __future__ import annotations

import numpy as np
import pytest
from support.peers import peer_input
from support.shared import needs_shared
from support.sim_bench_ordered import LUCID_COSTS, as_the_peer_runs_it

from gsched.policy.registry import load
from gsched.sim.rules import SimRules
from gsched.sim.run import simulate

WITHIN = 0.005
"""Of the peer's mean JCT. Two rules of its SRTF are not ours: see ``sim_bench_ordered.WHY``."""


@needs_shared
@pytest.mark.parametrize(
    ("name", "preemptions"),
    [("philly7t", 2_560), ("philly60min", 18_421), ("itp61min", 19_090), ("philly3d_q", 741)],
)
def test_srtf_comes_near_the_peer(name, preemptions):
    peer = peer_input(name)
    answer = peer.answer("srtf")
    assert answer.preemptions.sum() == preemptions
    result = as_the_peer_runs_it(peer, "srtf")
    assert result.path == "ordered"
    mean_jct_s = np.mean(result.end_s - peer.jobs.submit_s)
    assert mean_jct_s == pytest.approx(answer.jct_s.mean(), rel=WITHIN)
    assert result.preemptions.sum() == pytest.approx(preemptions, rel=0.1)


@needs_shared
def test_tiresias_ends_every_job_when_the_peer_does():
    peer = peer_input("philly3d_q")
    answer = peer.answer("tiresias")
    result = as_the_peer_runs_it(peer, "tiresias")
    assert np.count_nonzero(result.end_s != answer.end_s) == 0
    assert np.count_nonzero(result.preemptions != answer.preemptions) == 0


@needs_shared
def test_tiresias_woken_by_events_comes_near_the_peer():
    peer = peer_input("philly3d_q")
    result = simulate(peer.jobs, peer.cluster, load("tiresias"), SimRules(costs=LUCID_COSTS))
    mean_jct_s = np.mean(result.end_s - peer.jobs.submit_s)
    assert mean_jct_s == pytest.approx(peer.answer("tiresias").jct_s.mean(), rel=WITHIN)


@needs_shared
@pytest.mark.parametrize("policy", ["fifo", "sjf"])
def test_a_static_order_is_the_peers_on_the_ordered_path_too(policy):
    """A round at each tick changes nothing, but keeps it off the fast path."""
    peer = peer_input("philly7t")
    result = simulate(peer.jobs, peer.cluster, load(policy), SimRules(round_s=1.0))
    assert result.path == "ordered"
    answer = peer.answer(policy)
    assert np.count_nonzero(result.start_s != answer.start_s) == 0
    assert np.count_nonzero(result.end_s != answer.end_s) == 0
