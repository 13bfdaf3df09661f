"""Failing nodes: requeues, checkpoints, repairs, and jobs that come to no end."""

from __future__ import annotations

import math

import numpy as np
import pytest
from support.sim_checks import check_capacity, check_times
from support.sim_effects import first_come
from support.sim_jobs import columns_of, sim_jobs

from gsched.policy.order_form import Misfit
from gsched.sim.cluster import SimCluster
from gsched.sim.core.failures import seconds_to_failure
from gsched.sim.rules import Costs, Failures, SimRules, Sleep

SEED = 13
MTBF_S = 1000.0


def failing(**told: float) -> SimRules:
    failures = Failures(node_mtbf_s=MTBF_S, repair_s=100, **told)  # type: ignore[arg-type]
    return SimRules(seed=SEED, failures=failures)


def by_hand(duration_s: float, checkpoint_every_s: float) -> tuple[float, int]:
    """End and failures of a job that is alone on node 0 from 0 on."""
    now_s, kept_s, failures = 0.0, 0.0, 0
    while True:
        up_s = seconds_to_failure(SEED, 0, failures, MTBF_S)
        if kept_s + up_s >= duration_s:
            return now_s + duration_s - kept_s, failures
        if checkpoint_every_s:
            kept_s += up_s // checkpoint_every_s * checkpoint_every_s
        now_s += up_s + 100
        failures += 1


@pytest.mark.parametrize("checkpoint_every_s", [0.0, 50.0, 300.0])
def test_a_job_goes_back_to_its_last_checkpoint(checkpoint_every_s: float) -> None:
    duration_s = 2000.0
    expected_s, failures = by_hand(duration_s, checkpoint_every_s)
    assert failures > 1
    result = first_come(
        sim_jobs([0], [duration_s], num_gpus=8),
        SimCluster.uniform({"p": 1}),
        failing(checkpoint_every_s=checkpoint_every_s),
    )
    assert result.end_s[0] == pytest.approx(expected_s, abs=1e-6)
    assert result.failures[0] == failures
    assert result.start_s[0] == 0
    held_s = expected_s - 100 * failures
    assert result.run_s[0] == pytest.approx(held_s)
    assert result.lost_s[0] == pytest.approx(held_s - duration_s)
    assert len(result.segments.job) == failures + 1


def test_a_restart_costs_what_it_costs() -> None:
    costs = Costs(launch_s=5, restart_s=20)
    rules = SimRules(seed=SEED, costs=costs, failures=Failures(MTBF_S, 100, 1.0))
    up_s = seconds_to_failure(SEED, 0, 0, MTBF_S)
    duration_s = up_s + 50
    result = first_come(sim_jobs([0], [duration_s]), SimCluster.uniform({"p": 1}), rules)
    kept_s = math.floor(up_s - 5)  # work began 5 s after the start
    assert result.failures[0] == 1
    assert result.end_s[0] == pytest.approx(up_s + 100 + 25 + duration_s - kept_s)


def test_a_job_on_two_nodes_fails_with_either_and_others_do_not_notice() -> None:
    first_s = [seconds_to_failure(SEED, node, 0, MTBF_S) for node in range(3)]
    assert sorted(first_s)[0] in first_s[:2]
    jobs = sim_jobs([0, 0], [min(first_s) + 1, max(first_s[2] - 1, 1)], num_gpus=[16, 8])
    result = first_come(jobs, SimCluster.uniform({"p": 3}), failing(checkpoint_every_s=1))
    assert result.failures.tolist() == [1, 0]
    assert result.segments.end_s[0] == min(first_s)
    # the other node is free at once, and the job, which needs two, waits for the repair
    assert result.segments.start_s[-1] == min(first_s) + 100


def test_who_comes_first_takes_the_gpus_of_who_comes_last_when_its_own_node_fails() -> None:
    first_s = seconds_to_failure(SEED, 0, 0, MTBF_S)
    jobs = sim_jobs([0, 0], [first_s + 100, first_s + 200], num_gpus=8)
    two = SimCluster.uniform({"p": 2})
    result = first_come(jobs, two, failing(checkpoint_every_s=1), Misfit.SKIP, preempts=True)
    assert result.failures.tolist() == [1, 0]
    assert result.preemptions.tolist() == [0, 1]
    segments = result.segments
    assert segments.start_s[segments.job == 0].tolist() == [0, first_s]
    assert segments.node[segments.job == 0].tolist() == [0, 1]


def test_a_node_that_is_down_takes_no_jobs_and_is_counted() -> None:
    up_s = seconds_to_failure(SEED, 0, 0, MTBF_S)
    jobs = sim_jobs([0, up_s + 10], [up_s / 2, 10], num_gpus=8)
    rules = SimRules(seed=SEED, failures=Failures(MTBF_S, 100), sample_s=10)
    result = first_come(jobs, SimCluster.uniform({"p": 1}), rules)
    assert result.failures.tolist() == [0, 0]
    assert result.start_s[1] == up_s + 100
    down = (result.samples.time_s >= up_s) & (result.samples.time_s < up_s + 100)
    assert down.sum() == 10
    np.testing.assert_array_equal(result.samples.nodes_down, down)
    assert result.samples.gpus_free[down].max() == 0
    awake_s = result.end_s.max() - 100  # a node under repair draws nothing
    busy_gpu_s = 8 * jobs.duration_s.sum()
    assert result.energy_wh == pytest.approx((800 * awake_s + 300 * busy_gpu_s) / 3600)


def crowd(seed: int = 1) -> tuple[list[float], list[float], list[int]]:
    draw = np.random.default_rng(seed)
    submit_s = np.sort(draw.integers(0, 3000, 60)).tolist()
    return submit_s, draw.integers(1, 400, 60).tolist(), draw.choice([1, 2, 4, 8, 12], 60).tolist()


def test_nothing_is_lost_and_nothing_given_twice_while_nodes_fail() -> None:
    submit_s, duration_s, num_gpus = crowd()
    jobs = sim_jobs(submit_s, duration_s, num_gpus=num_gpus)
    for misfit in Misfit:
        result = first_come(
            jobs, SimCluster.uniform({"p": 4}), failing(checkpoint_every_s=60), misfit
        )
        assert result.finished.all()
        assert result.failures.sum() > 5
        check_times(result)
        check_capacity(result)
        np.testing.assert_allclose(result.run_s - result.lost_s, jobs.duration_s, atol=1e-6)
        again = first_come(
            jobs, SimCluster.uniform({"p": 4}), failing(checkpoint_every_s=60), misfit
        )
        for name, column in columns_of(result).items():
            np.testing.assert_array_equal(columns_of(again)[name], column)


def test_nodes_that_never_fail_give_the_plain_result() -> None:
    submit_s, duration_s, num_gpus = crowd()
    jobs = sim_jobs(submit_s, duration_s, num_gpus=num_gpus)
    cluster = SimCluster.uniform({"p": 3})
    rules = SimRules(seed=SEED, failures=Failures(node_mtbf_s=1e15, repair_s=100))
    plain, never = first_come(jobs, cluster), first_come(jobs, cluster, rules)
    for name, column in columns_of(plain).items():
        np.testing.assert_array_equal(columns_of(never)[name], column, err_msg=name)


def test_the_nodes_fail_at_the_same_times_under_every_order() -> None:
    submit_s, duration_s, num_gpus = crowd()
    jobs = sim_jobs(submit_s, duration_s, num_gpus=num_gpus)
    down = [
        first_come(jobs, SimCluster.uniform({"p": 4}), failing(), misfit).samples.nodes_down
        for misfit in (Misfit.BLOCK, Misfit.SKIP)
    ]
    common = min(map(len, down)) - 1
    assert down[0][:common].any()
    np.testing.assert_array_equal(down[0][:common], down[1][:common])


def test_a_job_that_outlasts_its_nodes_is_given_up_and_the_others_go_on() -> None:
    jobs = sim_jobs([0, 1], [1e6, 10], num_gpus=8)
    result = first_come(jobs, SimCluster.uniform({"p": 1}), failing(max_requeues=3))
    assert result.failures.tolist() == [4, 0]
    assert np.isnan(result.end_s[0])
    assert result.finished.tolist() == [False, True]


def test_a_job_for_which_there_are_never_nodes_enough_is_left_waiting() -> None:
    rules = SimRules(seed=1, failures=Failures(node_mtbf_s=10, repair_s=10_000))
    jobs = sim_jobs([0, 50_000], [1, 1], num_gpus=[8, 8 * 12])
    result = first_come(jobs, SimCluster.uniform({"p": 12}), rules)
    assert result.finished.tolist() == [True, False]
    assert np.isnan(result.start_s[1])


def test_a_sleeping_node_can_fail_too() -> None:
    up_s = seconds_to_failure(SEED, 0, 0, MTBF_S)
    rules = SimRules(
        seed=SEED, failures=Failures(MTBF_S, 100), sleep=Sleep(up_s / 10, 30), sample_s=up_s / 20
    )
    jobs = sim_jobs([0, up_s + 10], [1, 1])
    result = first_come(jobs, SimCluster.uniform({"p": 1}), rules)
    assert result.samples.nodes_asleep.max() == 1
    assert result.samples.nodes_asleep.min() == 0
    both = (result.samples.nodes_asleep > 0) & (result.samples.nodes_down > 0)
    assert not both.any()
    assert result.start_s[1] == up_s + 100  # it comes back awake
    assert result.wakes == 0
