"""Averages of other simulators' answers, as they print them, from their jobs one by one."""

from __future__ import annotations

import numpy as np
import pytest
from support.peers import peer_input
from support.sim_results import sim_result

from gsched.sim.metrics import summarise


@pytest.mark.parametrize(
    ("name", "policy", "jct", "queueing", "p99_jct", "makespan"),
    [
        ("philly7t", "fifo", 100_771.08, 92_942.08, 228_722, 2_481_030),
        ("philly7t", "sjf", 29_078.21, 21_249.21, 271_017, 2_481_030),
        ("philly60min", "fifo", 3_647.82, 3_456.44, 31_193, 111_136),
        ("itp61min", "sjf", 836.54, 524.58, 9_004, 116_166),
        ("philly3d_q", "qssf", 7_583.94, 3_600.45, 74_382, 290_185),
    ],
)
def test_they_are_equal(
    name: str, policy: str, jct: float, queueing: float, p99_jct: float, makespan: float
) -> None:
    given = peer_input(name)
    told = given.answer(policy)
    found = summarise(sim_result(given.jobs, told.start_s, told.end_s, given.cluster))
    assert found.all_jobs.jct_s.mean == pytest.approx(jct, abs=0.005)
    assert found.all_jobs.queueing_s.mean == pytest.approx(queueing, abs=0.005)
    p99 = found.all_jobs.jct_s.p99
    assert p99 is not None  # theirs lies between two jobs' values, ours is the greater of the two
    assert told.jct_s[told.jct_s < p99].max() - 0.5 <= p99_jct <= p99
    assert found.makespan_s == makespan
    work = float(np.sum(given.jobs.duration_s * given.jobs.num_gpus))
    assert found.whole.utilisation == pytest.approx(work / (makespan * given.cluster.num_gpus))
