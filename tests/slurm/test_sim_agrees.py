"""The simulator's Slurm mode starts jobs in the order in which a real Slurm under gsched does."""

from __future__ import annotations

import pytest
from support.reality import Run, calibrated, mean_jct_s, order_correlation, run_real, simulated

from gsched.policy.registry import load
from gsched.sim.rules import Costs
from gsched.testbed.arrivals import make_arrivals

pytestmark = pytest.mark.slurm

NUM_NODES, NUM_JOBS, SEED = 2, 60, 21
LOAD = 6.0
"""Most jobs come while the first ones run, so that the order of the queue matters."""


@pytest.fixture(scope="module")
def run() -> Run:
    arrivals = make_arrivals(
        SEED, NUM_JOBS, NUM_NODES * 8, shortest_s=3.0, longest_s=24.0, load=LOAD
    )
    (only,) = run_real([arrivals], NUM_NODES)
    return only


@pytest.fixture(scope="module")
def costs(run: Run) -> Costs:
    """Jobs of seconds need them; the bench, whose jobs run 20 s and more, takes other seeds'."""
    return calibrated([run])


def test_the_start_order_is_that_of_the_real_slurm(run: Run, costs: Costs) -> None:
    ours = order_correlation(run, simulated(run, load("qssf"), costs))
    fifo = order_correlation(run, simulated(run, load("fifo"), costs))
    print(f"\nrank correlation of start times: qssf {ours:.3f}; control, fifo {fifo:.3f}")
    assert ours > 0.8
    assert fifo < ours - 0.1


def test_the_simulator_gains_what_the_real_cluster_gains(run: Run, costs: Costs) -> None:
    ours, fifo = (mean_jct_s(simulated(run, load(p), costs)) for p in ("qssf", "fifo"))
    print(f"\nmean JCT: real {run.mean_jct_s:.1f} s, qssf {ours:.1f} s; control, fifo {fifo:.1f} s")
    assert abs(ours - run.mean_jct_s) < 0.5 * abs(fifo - run.mean_jct_s)
    assert fifo > 1.2 * run.mean_jct_s
