"""What of a cluster is a tenant's, and what its GPUs are worth, where a simulation is judged."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from support.sim_jobs import sim_jobs

from gsched.policy.registry import SiteFacts, load
from gsched.sim.cluster import SimCluster
from gsched.sim.jobs import ANY
from gsched.sim.quotas import pool_gpus, quota_gpus, worth_asked, worth_held
from gsched.sim.rules import SimRules
from gsched.sim.run import simulate

OLD, NEW = 0, 1
OLD_OR_NEW = 2
WORTH = {"new": 3.0}
MIXED = replace(
    SimCluster.uniform({"p": 2, "q": 1}, gpus_a_node=4),
    node_type=np.array([OLD, NEW, OLD], dtype=np.int32),
    gpu_types=("old", "new"),
    type_speed=np.array([1.0, 2.0]),
    type_sets=((OLD, NEW),),
)


def test_pools_count_by_the_worth_of_their_gpus() -> None:
    assert pool_gpus(MIXED).tolist() == [8, 4]
    assert pool_gpus(MIXED, WORTH).tolist() == [16, 4]


def test_a_quota_is_a_part_of_every_pool() -> None:
    jobs = sim_jobs([0, 0], [9, 9], tenant=[0, 1])
    site = SiteFacts({"t0": 1, "t1": 2, "absent": 1}, WORTH)
    assert quota_gpus(jobs, MIXED, site).tolist() == [[4, 8, 0], [1, 2, 0]]


def test_without_quotas_those_with_jobs_in_a_pool_share_it() -> None:
    jobs = sim_jobs([0, 0, 0], [9, 9, 9], tenant=[0, 1, 1], pool=[0, 0, 1])
    for site in (None, SiteFacts(), SiteFacts({"t0": 0.0})):
        assert quota_gpus(jobs, MIXED, site).tolist() == [[4, 4, 0], [0, 4, 0]]


def test_a_quota_of_nobody_is_for_no_tenant_of_that_name() -> None:
    """Jobs without a tenant are told as those of "-"."""
    jobs = sim_jobs([0, 0], [9, 9], tenant=[0, ANY])
    assert quota_gpus(jobs, MIXED, SiteFacts({"t0": 1, "-": 1}))[0].tolist() == [4, 0]


@pytest.mark.parametrize(
    ("asked", "worth"), [(ANY, [3, 1]), (OLD, [1, 1]), (NEW, [3, 3]), (OLD_OR_NEW, [3, 1])]
)
def test_a_job_asks_for_what_it_held_first(asked: int, worth: list[float]) -> None:
    """Two jobs that need a node each; the first takes the faster one where it may."""
    jobs = sim_jobs([0, 1], [9, 9], num_gpus=4, gpu_type=asked)
    result = simulate(jobs, MIXED, load("fifo"), SimRules())
    assert worth_held(result, WORTH).tolist() == worth
    assert worth_asked(result, WORTH).tolist() == worth
    assert worth_asked(result, None).tolist() == [1, 1]


@pytest.mark.parametrize(("asked", "worth"), [(ANY, 2), (NEW, 3), (OLD_OR_NEW, 2)])
def test_who_held_nothing_asks_for_the_least_that_it_accepts(asked: int, worth: float) -> None:
    jobs = sim_jobs([0], [9], num_gpus=4, gpu_type=asked)
    result = simulate(jobs, MIXED, load("fifo"), SimRules())
    nothing = replace(result.segments, **{n: c[:0] for n, c in vars(result.segments).items()})
    weights = {"old": 2.0, "new": 3.0}
    assert worth_asked(replace(result, segments=nothing), weights).tolist() == [worth]
