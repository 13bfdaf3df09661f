"""What policies with tenants and leases do over time: by hand, and in rounds as in the loop.

The same examples each time: shares of tenants that are equal but for rounding come in either order,
where the two paths let use fade in steps of other lengths.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from support.sim_jobs import columns_of, sim_jobs
from support.sim_strategies import workloads

from gsched.model.progress import silent
from gsched.policy.order_form import Discipline, Misfit, OrderForm
from gsched.policy.registry import load
from gsched.sim.cluster import SimCluster
from gsched.sim.core.ordered_loop import run_ordered
from gsched.sim.jobs import SimJobs
from gsched.sim.replay import run_rounds
from gsched.sim.result import SimResult
from gsched.sim.rules import SimRules
from gsched.sim.run import simulate

DAY_S = 86400
HOUR_S = 3600
ONE_NODE = SimCluster.uniform({"p": 1}, gpus_a_node=8)
FOUR_GPUS = SimCluster.uniform({"p": 1}, gpus_a_node=4)
RULES = SimRules(sample_s=DAY_S)


def run_both(jobs: SimJobs, cluster: SimCluster, name: str, **knobs: float) -> SimResult:
    """On the ordered path, after a look whether the rounds give the same."""
    policy = load(name, **knobs)
    ordered = simulate(jobs, cluster, policy, RULES)
    assert ordered.path == "ordered"
    rounds = columns_of(run_rounds(jobs, cluster, load(name, **knobs), RULES))
    for column, values in columns_of(ordered).items():
        np.testing.assert_array_equal(rounds[column], values, err_msg=column)
    return ordered


# -- yarn-cs: who does not fit keeps its own tenant waiting -----------------------------------


def test_one_tenant_that_waits_for_the_whole_cluster_holds_up_no_other():
    # c holds a GPU, a waits for all eight from 1 on, and b for one from 2 on.
    jobs = sim_jobs([0, 1, 2], [100, 10, 10], num_gpus=[1, 8, 1], tenant=[2, 0, 1])
    assert run_both(jobs, ONE_NODE, "yarn-cs").start_s.tolist() == [0, 100, 2]


def test_it_holds_up_its_own():
    jobs = sim_jobs([0, 1, 2, 3], [100, 10, 10, 10], num_gpus=[1, 8, 1, 1], tenant=[2, 0, 0, 1])
    assert run_both(jobs, ONE_NODE, "yarn-cs").start_s.tolist() == [0, 100, 110, 3]


def test_the_turns_go_on_behind_it_by_what_each_holds():
    # Four GPUs are free at 1: a's five do not fit; b and c hold nothing and have one each in turn.
    jobs = sim_jobs(
        [0, 1, 1, 1, 1, 1, 1],
        [50, 10, 10, 10, 10, 10, 10],
        num_gpus=[4, 5, 2, 1, 1, 1, 1],
        tenant=[3, 0, 1, 1, 2, 2, 2],
    )
    assert run_both(jobs, ONE_NODE, "yarn-cs").start_s.tolist() == [0, 50, 1, 11, 1, 1, 11]


@pytest.mark.parametrize(("tenant", "start_s"), [(0, 10), (1, 2)])
def test_without_a_term_tenants_are_told_apart_for_who_blocks(tenant, start_s):
    jobs = sim_jobs([0, 1, 2], [10, 10, 5], num_gpus=[3, 2, 1], tenant=[0, 0, tenant])
    order = OrderForm.static(jobs.submit_s, Discipline(misfit=Misfit.BLOCK_TENANT))
    result = run_ordered(jobs, FOUR_GPUS, order, SimRules(), "x", silent)
    assert result.start_s.tolist() == [0, 10, start_s]


@pytest.mark.parametrize(("tenant", "start_s"), [(0, 10), (1, 2)])
def test_with_preemption_who_blocks_lets_those_run_who_run(tenant, start_s):
    # Row 1 takes more than row 0 leaves; row 2 behind it starts where it is another tenant's.
    jobs = sim_jobs([0, 1, 2], [10, 10, 5], num_gpus=[2, 3, 1], tenant=[0, 0, tenant])
    order = OrderForm.static(np.arange(3.0), Discipline(preempts=True, misfit=Misfit.BLOCK_TENANT))
    result = run_ordered(jobs, FOUR_GPUS, order, SimRules(), "x", silent)
    assert result.start_s.tolist() == [0, 10, start_s]
    assert result.preemptions.sum() == 0


# -- gandiva-fair: idle time is no credit ------------------------------------------------------


def gpu_hours(result: SimResult, jobs: SimJobs, begin_s: float, end_s: float) -> list[float]:
    """By tenant, what it held between two times."""
    s = result.segments
    held_s = np.clip(np.minimum(s.end_s, end_s) - np.maximum(s.start_s, begin_s), 0, None)
    pieces = jobs.num_gpus[s.job] * held_s / HOUR_S  # all on one node: a segment is a whole attempt
    return np.bincount(jobs.tenant[s.job], pieces, minlength=2).tolist()


def alone_and_then_two() -> SimJobs:
    """a is alone for ten days, then b comes; both have work for all four GPUs."""
    return sim_jobs(
        [0] * 4 + [10 * DAY_S] * 4, [30 * DAY_S] * 8, num_gpus=1, tenant=[0] * 4 + [1] * 4
    )


def test_who_joins_after_days_has_the_cluster_for_an_hour_and_then_its_half():
    jobs = alone_and_then_two()
    came_s = 10 * DAY_S
    result = simulate(jobs, FOUR_GPUS, load("gandiva-fair"), RULES)
    assert result.path == "ordered"
    assert gpu_hours(result, jobs, came_s, came_s + HOUR_S) == pytest.approx([0, 4], abs=1)
    later_s = came_s + 2 * HOUR_S
    assert gpu_hours(result, jobs, later_s, later_s + DAY_S) == pytest.approx([48, 48], rel=0.02)


def test_with_a_half_life_of_years_it_has_it_for_days():
    jobs = alone_and_then_two()
    came_s = 10 * DAY_S
    policy = load("gandiva-fair", half_life_s=3650 * DAY_S)
    result = simulate(jobs, FOUR_GPUS, policy, RULES)
    assert gpu_hours(result, jobs, came_s, came_s + 9 * DAY_S) == pytest.approx([0, 864], abs=4)


def test_rounds_forget_as_the_compiled_loop_does():
    jobs = sim_jobs([0] * 4 + [20_000] * 4, [30_000] * 8, num_gpus=1, tenant=[0] * 4 + [1] * 4)
    result = run_both(jobs, FOUR_GPUS, "gandiva-fair")
    assert gpu_hours(result, jobs, 27_200, 41_600) == pytest.approx([8, 8], rel=0.1)


@pytest.mark.parametrize("name", ["srtf", "tiresias", "gandiva-fair"])
@given(work=workloads(most=10))
@settings(max_examples=25, derandomize=True)
def test_leases_that_end_do_so_in_rounds_too(name: str, work: tuple[SimJobs, SimCluster]):
    run_both(*work, name, lease_s=7)


# -- multifactor: no points for the fair share, no fair share ---------------------------------


def test_without_fair_share_points_tenants_do_not_matter():
    submit_s, duration_s = [0, 1, 2, 3], [10, 10, 10, 10]
    starts = [
        run_both(
            sim_jobs(submit_s, duration_s, num_gpus=8, tenant=tenant),
            ONE_NODE,
            "multifactor",
            fair_share_points=0,
        ).start_s.tolist()
        for tenant in ([0, 0, 0, 1], [0, 0, 0, 0])
    ]
    assert starts == [[0, 10, 20, 30]] * 2
