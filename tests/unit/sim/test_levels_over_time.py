"""Levels that jobs reach, and leases that end, as they run: in rounds as in the compiled loop.

The same examples each time: shares of tenants that are equal but for rounding come in either order,
where the two paths let use fade in steps of other lengths.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from support.sim_jobs import columns_of, sim_jobs
from support.sim_strategies import workloads

from gsched.policy.registry import load
from gsched.sim.cluster import SimCluster
from gsched.sim.jobs import SimJobs
from gsched.sim.replay import run_rounds
from gsched.sim.result import SimResult
from gsched.sim.rules import SimRules
from gsched.sim.run import simulate

RULES = SimRules(sample_s=10.0)
FOUR_GPUS = SimCluster.uniform({"p": 1}, gpus_a_node=4)
DIVISORS = (1, 1, 2, 3, 4, 12)
"""Of the threshold: policies can ask to be woken at whole seconds only."""


def run_both(
    jobs: SimJobs, cluster: SimCluster, name: str, round_s: float = 0.0, **knobs: float
) -> SimResult:
    """On the ordered path, after a look whether the rounds give the same."""
    rules = replace(RULES, round_s=round_s)
    ordered = simulate(jobs, cluster, load(name, **knobs), rules)
    assert ordered.path == "ordered"
    rounds = columns_of(run_rounds(jobs, cluster, load(name, **knobs), rules))
    for column, values in columns_of(ordered).items():
        np.testing.assert_array_equal(rounds[column], values, err_msg=column)
    return ordered


def test_a_job_reaches_the_next_level_that_was_given_its_gpus_in_the_same_pass():
    # Row 1 takes row 0's place at 24 and is in the second queue at 39, when nothing else happens.
    jobs = sim_jobs([0, 24, 54], [107, 63, 15], num_gpus=[3, 4, 4])
    result = run_both(jobs, FOUR_GPUS, "tiresias", threshold_gpu_s=60)
    assert result.end_s.tolist() == [137, 185, 69]


@pytest.mark.parametrize("lease_s", [0, 7, 30])
@given(work=workloads(most=10, sizes=DIVISORS))
@settings(max_examples=40, derandomize=True)
def test_levels_are_reached_in_rounds_too(lease_s: int, work: tuple[SimJobs, SimCluster]):
    run_both(*work, "tiresias", threshold_gpu_s=60, lease_s=lease_s)


@pytest.mark.parametrize("name", ["tiresias-l", "themis", "gandiva-fair", "optimus"])
@pytest.mark.parametrize(("lease_s", "round_s"), [(7, 0), (30, 0), (30, 7)])
@given(work=workloads(most=10, sizes=DIVISORS))
@settings(max_examples=25, derandomize=True)
def test_leases_end_in_rounds_too(
    name: str, lease_s: int, round_s: int, work: tuple[SimJobs, SimCluster]
):
    run_both(*work, name, round_s, lease_s=lease_s)
