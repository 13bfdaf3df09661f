"""The simulator's Slurm mode starts jobs in the order in which a real Slurm under gsched does."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from support.reality import Run, calibrated, mean_jct_s, order_correlation, run_real, simulated

from gsched.policy.registry import load
from gsched.sim.rules import Costs
from gsched.testbed.arrivals import Arrival, make_arrivals

pytestmark = pytest.mark.slurm

NUM_NODES, NUM_JOBS, SEED = 2, 60, 21
LOAD = 6.0
"""Most jobs come while the first ones run, so that the order of the queue matters."""


HELD_S = 20.0
"""For so long two jobs hold all GPUs: while they are still free, who comes first is up to
the moment in which slurmctld looks, and each chance there moves all that follows."""


def behind_held_nodes(arrivals: Sequence[Arrival]) -> list[Arrival]:
    """The same jobs, which come when all nodes are held."""
    holder = replace(arrivals[0], submit_s=0.0, num_gpus=8, duration_s=HELD_S, predicted_s=HELD_S)
    holders = [replace(holder, name=f"holder{number}") for number in range(NUM_NODES)]
    return holders + [replace(a, submit_s=a.submit_s + 2.0) for a in arrivals]


@pytest.fixture(scope="module")
def run() -> Run:
    arrivals = make_arrivals(
        SEED, NUM_JOBS, NUM_NODES * 8, shortest_s=3.0, longest_s=24.0, load=LOAD
    )
    (only,) = run_real([behind_held_nodes(arrivals)], NUM_NODES)
    return only


@pytest.fixture(scope="module")
def costs(run: Run) -> Costs:
    """Jobs of seconds need them; the bench, whose jobs run 20 s and more, takes other seeds'."""
    return calibrated([run])


def test_the_start_order_is_that_of_the_real_slurm(run: Run, costs: Costs) -> None:
    ours = order_correlation(run, simulated(run, load("qssf"), costs))
    fifo = order_correlation(run, simulated(run, load("fifo"), costs))
    print(f"\nrank correlation of start times: qssf {ours:.3f}; control, fifo {fifo:.3f}")
    assert ours > 0.9
    assert fifo < ours - 0.1


def test_the_simulator_gains_what_the_real_cluster_gains(run: Run, costs: Costs) -> None:
    ours, fifo = (mean_jct_s(simulated(run, load(p), costs)) for p in ("qssf", "fifo"))
    print(f"\nmean JCT: real {run.mean_jct_s:.1f} s, qssf {ours:.1f} s; control, fifo {fifo:.1f} s")
    assert abs(ours - run.mean_jct_s) < 0.5 * abs(fifo - run.mean_jct_s)
    assert fifo > 1.2 * run.mean_jct_s
