"""Sleeping nodes: when they sleep, whom they keep waiting, and what that saves."""

from __future__ import annotations

import numpy as np
import pytest
from support.sim_effects import first_come
from support.sim_jobs import columns_of, sim_jobs

from gsched.policy.registry import load
from gsched.sim.cluster import SimCluster
from gsched.sim.rules import Power, Scheduler, SimRules, Sleep
from gsched.sim.run import simulate

POWER = Power(asleep_w=20, idle_w=500, gpu_w=100)
ONE_NODE = SimCluster.uniform({"p": 1}, 8)


def asleep(timeout_s: float = 60, wake_s: float = 30, keep_awake: int = 0) -> SimRules:
    return SimRules(sleep=Sleep(timeout_s, wake_s, keep_awake), power=POWER, sample_s=50)


def test_a_job_waits_until_its_node_is_awake() -> None:
    jobs = sim_jobs([0, 400], [100, 100], num_gpus=8)
    result = first_come(jobs, ONE_NODE, asleep())
    assert result.start_s.tolist() == [0, 430]
    assert result.end_s.tolist() == [100, 530]
    assert result.segments.start_s.tolist() == [0, 400]  # the GPUs are held while it wakes up
    assert result.run_s.tolist() == [100, 130]
    assert result.lost_s.tolist() == [0, 30]
    assert result.wakes == 1
    assert result.samples.nodes_asleep.tolist() == [0, 0, 0, 0, 1, 1, 1, 1, 0, 0, 0, 0]
    joules = 240 * 20 + (530 - 240) * 500 + 8 * (100 + 130) * 100
    assert result.energy_wh == pytest.approx(joules / 3600)


@pytest.mark.parametrize(("gap_s", "wait_s"), [(59, 0), (61, 30)])
def test_only_after_the_timeout(gap_s: int, wait_s: int) -> None:
    jobs = sim_jobs([0, 100 + gap_s], [100, 10], num_gpus=8)
    assert first_come(jobs, ONE_NODE, asleep()).start_s[1] == 100 + gap_s + wait_s


def test_nodes_that_are_to_stay_awake_do() -> None:
    jobs = sim_jobs([0, 1000, 1001], [10, 10, 10], num_gpus=8)
    result = first_come(jobs, SimCluster.uniform({"p": 4}, 8), asleep(keep_awake=1))
    assert result.samples.nodes_asleep.max() == 3
    assert result.start_s.tolist() == [0, 1000, 1031]
    assert result.wakes == 1


def test_no_more_nodes_wake_up_than_a_job_needs_beside_those_that_are_awake() -> None:
    jobs = sim_jobs([0, 500, 501, 502], [10, 300, 50, 50], num_gpus=[1, 4, 20, 4])
    result = first_come(jobs, SimCluster.uniform({"p": 5}, 8), asleep())
    # one wakes for the job of 4, two more beside its half free node for 20, one for the last
    assert result.wakes == 4
    assert result.segments.node.tolist() == [0, 0, 1, 3]
    assert result.start_s.tolist() == [0, 530, 531, 532]


def test_the_seconds_of_waking_up_are_counted_once_however_many_jobs_wait() -> None:
    jobs = sim_jobs([0, 500, 520], [10, 100, 100], num_gpus=4)
    result = first_come(jobs, ONE_NODE, asleep())
    assert result.start_s.tolist() == [0, 530, 530]
    assert result.wakes == 1


def test_a_job_of_which_nodes_sleep_is_not_too_large_for_a_reservation() -> None:
    rules = SimRules(scheduler=Scheduler.SLURM, sleep=Sleep(60, 30))
    jobs = sim_jobs(
        [0, 490, 500, 501],
        [10, 100, 10, 50],
        num_gpus=[1, 8, 16, 8],
        time_limit_s=[10, 100, 10, 50],
    )
    result = first_come(jobs, SimCluster.uniform({"p": 2}, 8), rules)
    # the job of 490 wakes node 0 until 620; that of 16 is due then, and the last one, which wakes
    # node 1 until 531 and leaves by 581, delays nobody
    assert result.start_s.tolist() == [0, 520, 620, 531]


def test_nodes_that_never_sleep_give_the_plain_result() -> None:
    draw = np.random.default_rng(2)
    jobs = sim_jobs(
        np.sort(draw.integers(0, 5000, 100)).tolist(),
        draw.integers(1, 300, 100).tolist(),
        num_gpus=draw.choice([1, 2, 8], 100),
    )
    cluster = SimCluster.uniform({"p": 2}, 8)
    rules = SimRules(power=POWER, sample_s=50)
    plain = columns_of(first_come(jobs, cluster, rules))
    for name, column in columns_of(first_come(jobs, cluster, asleep(timeout_s=1e12))).items():
        np.testing.assert_array_equal(column, plain[name], err_msg=name)
    free = first_come(jobs, cluster, asleep(timeout_s=10, wake_s=0))
    np.testing.assert_array_equal(free.end_s, plain["end_s"])  # waking up costs no time here
    assert free.wakes > 3
    assert free.energy_wh < plain["energy_wh"]


def test_who_is_preempted_while_a_node_wakes_up_does_not_wait_for_that_again() -> None:
    jobs = sim_jobs([0, 1000, 1010], [1, 100, 10], num_gpus=8)
    result = simulate(jobs, ONE_NODE, load("srtf"), asleep(timeout_s=10))
    assert result.end_s.tolist() == [1, 1140, 1040]  # awake at 1030: the short one, then the other
