"""The ordered loop on cases that can be followed by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support.sim_jobs import sim_jobs

from gsched.model.progress import silent
from gsched.policy.order_form import Discipline, Misfit, OrderForm, TenantTerm, TenantUse
from gsched.sim.cluster import SimCluster
from gsched.sim.core.ordered_loop import run_ordered
from gsched.sim.jobs import SimJobs
from gsched.sim.result import SimResult
from gsched.sim.rules import Costs, SimRules

PREEMPTING = Discipline(preempts=True, misfit=Misfit.SKIP)
ONE_GPU = SimCluster.uniform({"p": 1}, gpus_a_node=1)
TWO_GPUS = SimCluster.uniform({"p": 1}, gpus_a_node=2)
TWO_NODES = SimCluster.uniform({"p": 2}, gpus_a_node=2)


def form(jobs: SimJobs, constant: Any, executed: float = 0.0, **told: Any) -> OrderForm:
    count = len(jobs)
    elapsed = np.broadcast_to(np.asarray(told.pop("per_elapsed_s", 0.0)), count)
    constants = np.broadcast_to(np.asarray(constant, dtype=float), count)
    return OrderForm(constants, np.full(count, executed), elapsed, **told)


def run(
    jobs: SimJobs, cluster: SimCluster, order: OrderForm, rules: SimRules | None = None
) -> SimResult:
    return run_ordered(jobs, cluster, order, rules or SimRules(), "x", silent)


def srtf(jobs: SimJobs, lease_s: float = 0.0) -> OrderForm:
    return form(jobs, jobs.duration_s, -1.0, discipline=Discipline(True, Misfit.SKIP, lease_s))


def stretches(result: SimResult) -> list[tuple[int, float, float]]:
    s = result.segments
    return list(zip(s.job.tolist(), s.start_s.tolist(), s.end_s.tolist(), strict=True))


# -- preemption and its costs ---------------------------------------------------------------


def test_a_shorter_job_takes_the_gpu_and_gives_it_back():
    jobs = sim_jobs([0, 4], [10, 3])
    result = run(jobs, ONE_GPU, srtf(jobs))
    assert stretches(result) == [(0, 0, 4), (1, 4, 7), (0, 7, 13)]
    assert result.preemptions.tolist() == [1, 0]
    assert result.start_s.tolist() == [0, 4]
    assert result.lost_s.tolist() == [0, 0]


def test_what_is_left_counts_and_not_the_whole_duration():
    jobs = sim_jobs([0, 8], [10, 3])
    assert run(jobs, ONE_GPU, srtf(jobs)).end_s.tolist() == [10, 13]


def test_costs_hold_the_gpu_without_progress():
    jobs = sim_jobs([0, 4], [10, 3])
    costs = Costs(launch_s=0.5, checkpoint_s=1, restart_s=2)
    result = run(jobs, ONE_GPU, srtf(jobs), SimRules(costs=costs))
    # 3.5 of 10 s are done at 4; the checkpoint takes until 5; 2.5 s pass before the other 6.5
    assert stretches(result) == [(0, 0, 5), (1, 5, 8.5), (0, 8.5, 17.5)]
    assert result.run_s.tolist() == [14, 3.5]
    assert result.lost_s.tolist() == [4, 0.5]


def test_an_interrupted_restart_is_not_forgotten():
    # Row 0 comes back at 7 and is interrupted at 9, after 2 of 5 s: it has 3 s and another 5 to go.
    jobs = sim_jobs([0, 4, 9], [10, 3, 1])
    result = run(jobs, ONE_GPU, srtf(jobs), SimRules(costs=Costs(restart_s=5)))
    assert stretches(result) == [(0, 0, 4), (1, 4, 7), (0, 7, 9), (2, 9, 10), (0, 10, 24)]
    assert result.lost_s.tolist() == [10, 0, 0]


def test_clean_up_keeps_the_gpus_and_does_not_make_the_job_longer():
    jobs = sim_jobs([0, 0], [10, 5])
    result = run(jobs, ONE_GPU, form(jobs, 0.0), SimRules(costs=Costs(cleanup_s=2)))
    assert result.end_s.tolist() == [10, 17]
    assert stretches(result) == [(0, 0, 12), (1, 12, 19)]


@pytest.mark.parametrize(("gpus", "cost_s"), [(1, 7), (2, 30), (3, 60)])
def test_a_restart_costs_by_the_width_of_the_job(gpus, cost_s):
    jobs = sim_jobs([0, 50], [100, 10], num_gpus=[gpus, 4])
    costs = Costs(restart_s=30, restart_wide_s=60, restart_one_gpu_s=7)
    result = run(jobs, TWO_NODES, srtf(jobs), SimRules(costs=costs))
    assert result.end_s.tolist() == [60 + cost_s + 50, 60]


def test_without_a_figure_of_its_own_one_gpu_costs_what_a_node_costs():
    jobs = sim_jobs([0, 50], [100, 10], num_gpus=[1, 4])
    result = run(jobs, TWO_NODES, srtf(jobs), SimRules(costs=Costs(restart_s=30)))
    assert result.end_s.tolist() == [60 + 30 + 50, 60]


def test_whom_the_nodes_refuse_waits_and_what_it_was_given_stays_free():
    # From 13 on each node has one GPU free; row 4 wants two on one node, row 5 stands last.
    jobs = sim_jobs([0, 1, 2, 3, 14, 15], [100, 10, 100, 10, 5, 500], num_gpus=[1, 1, 1, 1, 2, 1])
    result = run(jobs, TWO_NODES, srtf(jobs))
    assert result.start_s[4:].tolist() == [100, 100]
    assert result.preemptions.sum() == 0


# -- leases -----------------------------------------------------------------------------------


def test_a_lease_is_not_taken_back():
    jobs = sim_jobs([0, 3], [25, 1])
    result = run(jobs, ONE_GPU, srtf(jobs, lease_s=10))
    assert stretches(result) == [(0, 0, 10), (1, 10, 11), (0, 11, 26)]


def test_a_lease_that_ends_while_nobody_waits_is_renewed():
    jobs = sim_jobs([0, 13], [25, 1])
    result = run(jobs, ONE_GPU, srtf(jobs, lease_s=10))
    assert stretches(result) == [(0, 0, 20), (1, 20, 21), (0, 21, 26)]


def test_who_comes_just_when_a_lease_ends_takes_over():
    jobs = sim_jobs([0, 20], [25, 1])
    assert run(jobs, ONE_GPU, srtf(jobs, lease_s=10)).start_s.tolist() == [0, 20]


# -- levels -----------------------------------------------------------------------------------


def test_jobs_sink_when_they_have_received_so_much():
    jobs = sim_jobs([0, 1], [10, 4], num_gpus=2)
    order = form(jobs, [0.0, 1.0], level_bounds_gpu_s=(6.0,), discipline=PREEMPTING)
    # At 3 row 0 has had 6 GPU-seconds; at 6 row 1 has, and is behind row 0 again.
    assert stretches(run(jobs, TWO_GPUS, order)) == [(0, 0, 3), (1, 3, 6), (0, 6, 13), (1, 13, 14)]


def test_each_bound_is_a_level_of_its_own():
    jobs = sim_jobs([0, 0], [6, 6])
    order = form(jobs, [0.0, 1.0], level_bounds_gpu_s=(2.0, 4.0), discipline=PREEMPTING)
    ends = stretches(run(jobs, ONE_GPU, order))
    assert ends == [(0, 0, 2), (1, 2, 4), (0, 4, 6), (1, 6, 8), (0, 8, 10), (1, 10, 12)]


# -- who waits behind whom --------------------------------------------------------------------


@pytest.mark.parametrize(("misfit", "start_s"), [(Misfit.BLOCK, 10), (Misfit.SKIP, 2)])
def test_behind_one_that_does_not_fit(misfit, start_s):
    jobs = sim_jobs([0, 1, 2], [10, 10, 5], num_gpus=[3, 2, 1])
    order = form(jobs, jobs.submit_s, discipline=Discipline(misfit=misfit))
    cluster = SimCluster.uniform({"p": 1}, gpus_a_node=4)
    assert run(jobs, cluster, order).start_s.tolist() == [0, 10, start_s]


def test_one_that_blocks_lets_those_run_who_run():
    # Row 2 stands behind row 1, which wants more than row 0 leaves: it is not started, but row 0
    # behind both keeps what it has.
    jobs = sim_jobs([0, 1, 1], [10, 10, 5], num_gpus=[2, 3, 1])
    order = form(jobs, [0.0, 1.0, 2.0], discipline=Discipline(True, Misfit.BLOCK))
    cluster = SimCluster.uniform({"p": 1}, gpus_a_node=4)
    result = run(jobs, cluster, order)
    assert result.start_s.tolist() == [0, 10, 10]
    assert result.preemptions.sum() == 0


def test_pools_do_not_wait_for_each_other():
    jobs = sim_jobs([0, 1, 2], [10, 10, 5], pool=[0, 0, 1])
    cluster = SimCluster.uniform({"a": 1, "b": 1}, gpus_a_node=1)
    assert run(jobs, cluster, form(jobs, jobs.submit_s)).start_s.tolist() == [0, 10, 2]


def test_jobs_without_a_place_come_last_in_order_of_submission():
    jobs = sim_jobs([0, 1, 2, 3], [10, 1, 1, 1])
    order = form(jobs, [0.0, np.nan, np.nan, 9.0], level_bounds_gpu_s=(1.0,))
    assert run(jobs, ONE_GPU, order).start_s.tolist() == [0, 11, 12, 10]


# -- keys that move with time -----------------------------------------------------------------


@pytest.mark.parametrize(("busy_s", "first"), [(25, 1), (26, 2)])
def test_the_age_counts_up_to_its_cap(busy_s, first):
    # At 25 both keys are 90; a second later the younger one's has gone on falling.
    jobs = sim_jobs([0, 0, 20], [busy_s, 1, 1])
    order = form(jobs, [0.0, 100.0, 95.0], per_elapsed_s=-1.0, elapsed_cap_s=10.0)
    assert int(np.argsort(run(jobs, ONE_GPU, order).start_s)[1]) == first


@pytest.mark.parametrize(("busy_s", "first"), [(4, 1), (6, 2)])
def test_keys_that_move_at_their_own_speeds_pass_each_other(busy_s, first):
    jobs = sim_jobs([0, 0, 0], [busy_s, 1, 1])
    order = form(jobs, [-99.0, 0.0, 10.0], per_elapsed_s=[0.0, -1.0, -3.0])
    assert int(np.argsort(run(jobs, ONE_GPU, order).start_s)[1]) == first


def test_age_without_cap_is_as_good_as_a_static_key():
    jobs = sim_jobs([0, 1, 2, 3], [10, 1, 1, 1])
    order = form(jobs, [0.0, 5.0, 5.5, 3.0], per_elapsed_s=-1.0)
    # 5 + 1, 5.5 + 2, 3 + 3: rows 1 and 3 are equal, and the first of them is first
    assert run(jobs, ONE_GPU, order).start_s.tolist() == [0, 10, 12, 11]


# -- tenants ----------------------------------------------------------------------------------


def tenants(jobs: SimJobs, shares: tuple[float, ...] = (1.0, 1.0), **told: Any) -> OrderForm:
    term = TenantTerm(np.array(shares), **told)
    return form(jobs, np.arange(len(jobs)), tenants=term)


def test_what_a_pass_gives_counts_at_once():
    jobs = sim_jobs([0, 0, 0, 0], [10, 10, 10, 10], tenant=[0, 0, 0, 1])
    result = run(jobs, TWO_GPUS, tenants(jobs, use=TenantUse.ALLOCATED))
    assert result.start_s.tolist() == [0, 10, 10, 0]


def test_the_tenant_that_has_received_least_is_next():
    jobs = sim_jobs([0, 0, 0, 0], [10, 10, 4, 4], tenant=[0, 0, 1, 1])
    assert run(jobs, ONE_GPU, tenants(jobs)).start_s.tolist() == [0, 18, 10, 14]


def test_a_greater_share_may_receive_more():
    jobs = sim_jobs([0, 0, 0, 0], [10, 10, 4, 4], tenant=[0, 0, 1, 1])
    # At 14: 10 / 0.75 against 4 / 0.25
    assert run(jobs, ONE_GPU, tenants(jobs, (3.0, 1.0))).start_s.tolist() == [0, 14, 10, 24]


@pytest.mark.parametrize(("half_life_s", "second"), [(np.inf, 3), (4.0, 1)])
def test_what_was_received_long_ago_counts_less(half_life_s, second):
    # At 16 row 0's tenant has had 10 GPU-seconds before 10 (decayed: 1.7), the other 6 (3.7).
    jobs = sim_jobs([0, 0, 0, 0], [10, 10, 6, 6], tenant=[0, 0, 1, 1])
    starts = run(jobs, ONE_GPU, tenants(jobs, half_life_s=half_life_s)).start_s
    assert starts[second] == 16


def test_a_band_of_all_tenants_leaves_the_keys_alone():
    jobs = sim_jobs([0, 0, 0, 0], [10, 10, 4, 4], tenant=[0, 0, 1, 1])
    assert run(jobs, ONE_GPU, tenants(jobs, band=1.0)).start_s.tolist() == [0, 10, 20, 24]


@pytest.mark.parametrize(("points", "first"), [(100.0, 2), (10.0, 1)])
def test_points_are_weighed_against_the_key(points, first):
    # At 10 row 1's tenant has had all: 2^(−1 / 0.5) of the points against all of them.
    jobs = sim_jobs([0, 0, 0], [10, 1, 1], tenant=[0, 0, 1])
    term = TenantTerm(np.ones(2), points=points)
    order = form(jobs, [-999.0, 0.0, 50.0], tenants=term)
    assert int(np.argsort(run(jobs, ONE_GPU, order).start_s)[1]) == first


def test_what_happens_in_another_pool_changes_whose_turn_it_is():
    # Tenant 0's row 0 in the other pool ends at 5; from then on its row 2 blocks nothing any more.
    jobs = sim_jobs([0, 0, 1, 1], [5, 10, 1, 1], pool=[1, 0, 0, 0], tenant=[0, 1, 0, 1])
    cluster = SimCluster.uniform({"a": 1, "b": 1}, gpus_a_node=1)
    result = run(jobs, cluster, tenants(jobs, use=TenantUse.ALLOCATED))
    assert result.start_s.tolist() == [0, 0, 10, 11]


# -- rounds -----------------------------------------------------------------------------------


def test_a_scheduler_with_an_interval_decides_at_its_multiples_only():
    jobs = sim_jobs([3, 3], [12, 1])
    result = run(jobs, ONE_GPU, form(jobs, jobs.submit_s), SimRules(round_s=10))
    assert result.start_s.tolist() == [10, 30]
    assert result.end_s.tolist() == [22, 31]


# -- records ----------------------------------------------------------------------------------


def test_samples_show_the_cluster_after_what_happened():
    jobs = sim_jobs([0, 0, 5], [10, 10, 10], num_gpus=[1, 2, 2])
    result = run(jobs, TWO_NODES, form(jobs, jobs.submit_s), SimRules(sample_s=5))
    samples = result.samples
    assert samples.time_s.tolist() == [0, 5, 10, 15, 20]
    assert samples.gpus_used.tolist() == [3, 3, 2, 2, 0]
    assert samples.gpus_free.tolist() == [1, 1, 2, 2, 4]
    assert samples.gpus_free_whole.tolist() == [0, 0, 2, 2, 4]
    assert samples.gpus_wanted.tolist() == [0, 2, 0, 0, 0]
    assert samples.jobs_waiting.tolist() == [0, 1, 0, 0, 0]
    assert samples.jobs_running.tolist() == [2, 2, 1, 1, 0]


def test_there_is_room_for_more_samples_than_jobs():
    jobs = sim_jobs([0], [100])
    result = run(jobs, ONE_GPU, form(jobs, 0.0), SimRules(sample_s=0.01))
    assert len(result.samples.time_s) in (10_001, 10_002)  # 0.01 is no binary fraction
    assert np.all(result.samples.gpus_used[:-2] == 1)


def test_there_is_room_for_more_stretches_than_jobs():
    many = 5_000
    jobs = sim_jobs([0, *range(1, 3 * many, 3)], [10.0 * many, *[1.0] * many])
    result = run(jobs, ONE_GPU, srtf(jobs))
    assert result.preemptions.tolist() == [many, *[0] * many]
    assert len(result.segments.job) == 2 * many + 1
    assert result.end_s[0] == 11 * many


# -- long and interrupted ---------------------------------------------------------------------


def test_progress_is_told_and_an_interrupt_leaves_what_has_ended():
    many = 30_000
    jobs = sim_jobs(range(many), [0.5] * many)
    heard: list[int] = []

    def told(what: str, count: int) -> None:
        heard.append(count)
        if len(heard) == 2:
            raise KeyboardInterrupt

    result = run_ordered(jobs, ONE_GPU, form(jobs, jobs.submit_s), SimRules(), "x", told)
    assert result.interrupted
    assert 0 < heard[0] < heard[1] < many
    assert np.count_nonzero(result.finished) == heard[1]
    assert np.all(np.isnan(result.end_s[heard[1] + 1 :]))
