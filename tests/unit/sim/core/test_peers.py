"""Start and end of every job as other simulators have them, on their inputs and by their rules."""

from __future__ import annotations

import numpy as np
import pytest
from support.peers import peer_input
from support.shared import needs_shared

from gsched.policy.registry import load
from gsched.sim.rules import SimRules
from gsched.sim.run import simulate

PEER_TICK_S = 1.0
"""QSSF's estimates come with the peer's next tick; its other policies know no such thing."""

CASES = [
    ("philly7t", "fifo", 10_650),
    ("philly7t", "sjf", 10_650),
    ("philly7t", "qssf", 10_650),
    ("philly3d_q", "fifo", 1_434),
    ("philly3d_q", "sjf", 1_434),
    ("philly3d_q", "qssf", 1_434),
    ("philly60min", "fifo", 68_496),
    ("philly60min", "sjf", 68_496),
    ("itp61min", "fifo", 69_314),
    ("itp61min", "sjf", 69_314),
]


@needs_shared
@pytest.mark.parametrize(("name", "policy", "count"), CASES)
def test_every_job_starts_and_ends_as_the_peer_has_it(name, policy, count):
    peer = peer_input(name)
    answer = peer.answer(policy)
    rules = SimRules(size_first_tick_s=PEER_TICK_S if policy == "qssf" else 0.0)
    result = simulate(peer.jobs, peer.cluster, load(policy), rules)
    assert result.path == "static"
    assert len(result.start_s) == count
    assert np.count_nonzero(result.start_s != answer.start_s) == 0
    assert np.count_nonzero(result.end_s != answer.end_s) == 0


@needs_shared
@pytest.mark.parametrize(("tick_s", "differ"), [(0.0, 0), (PEER_TICK_S, 0), (60.0, 149)])
def test_when_estimates_come_matters_only_where_jobs_come_at_once_to_an_empty_queue(tick_s, differ):
    """With the peer's tick of a second that changes no start; a minute would show."""
    peer = peer_input("philly3d_q")
    result = simulate(peer.jobs, peer.cluster, load("qssf"), SimRules(size_first_tick_s=tick_s))
    assert np.count_nonzero(result.start_s != peer.answer("qssf").start_s) == differ
