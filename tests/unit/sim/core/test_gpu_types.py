"""GPUs of several types: who gets which, and how fast a job is there."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from support.sim_effects import first_come
from support.sim_jobs import columns_of, sim_jobs

from gsched.policy.registry import load
from gsched.sim.cluster import SimCluster
from gsched.sim.jobs import ANY
from gsched.sim.rules import Costs, Scheduler, SimRules
from gsched.sim.run import simulate

SLOW, FAST = 0, 1


def mixed(*types: int, speeds: tuple[float, float] = (1.0, 2.0)) -> SimCluster:
    cluster = SimCluster.uniform({"p": len(types)}, 8)
    return replace(
        cluster,
        node_type=np.array(types, dtype=np.int32),
        gpu_types=("slow", "fast"),
        type_speed=np.array(speeds),
    )


def test_a_job_takes_the_fastest_gpus_and_runs_at_their_speed() -> None:
    jobs = sim_jobs([0, 1], [100, 100], num_gpus=8)
    result = first_come(jobs, mixed(SLOW, FAST))
    assert result.segments.node.tolist() == [1, 0]
    assert result.end_s.tolist() == [50, 101]
    assert result.lost_s.tolist() == [0, 0]


def test_a_job_that_asks_for_a_type_waits_for_it() -> None:
    jobs = sim_jobs([0, 1, 2], [100, 100, 10], num_gpus=8, gpu_type=[ANY, FAST, SLOW])
    result = first_come(jobs, mixed(SLOW, FAST), SimRules(scheduler=Scheduler.SLURM))
    assert result.segments.node.tolist() == [1, 0, 1]
    assert result.start_s.tolist() == [0, 50, 2]
    assert result.end_s.tolist() == [50, 100, 12]


def test_the_slowest_gpu_of_a_job_sets_its_speed() -> None:
    jobs = sim_jobs([0, 0], [100, 100], num_gpus=[16, 24])
    result = first_come(jobs, mixed(SLOW, FAST, FAST))
    assert result.end_s.tolist() == [50, 150]  # two fast ones; then all three


def test_a_slower_gpu_than_the_reference_loses_time() -> None:
    result = first_come(sim_jobs([0], [100], gpu_type=SLOW), mixed(SLOW, FAST, speeds=(0.5, 1.0)))
    assert result.end_s.tolist() == [200]
    assert result.lost_s.tolist() == [100]


def test_types_of_equal_speed_give_the_result_of_one_type() -> None:
    draw = np.random.default_rng(2)
    jobs = sim_jobs(
        np.sort(draw.integers(0, 3000, 200)).tolist(),
        draw.integers(1, 300, 200).tolist(),
        num_gpus=draw.choice([1, 2, 4, 8], 200),
    )
    plain = first_come(jobs, SimCluster.uniform({"p": 3}, 8))
    alike = replace(mixed(SLOW, SLOW, SLOW), type_speed=np.ones(2))
    for name, column in columns_of(first_come(jobs, alike)).items():
        np.testing.assert_array_equal(column, columns_of(plain)[name], err_msg=name)


def test_the_rest_of_a_launch_is_seconds_whatever_the_speed() -> None:
    jobs = sim_jobs([0, 10], [100, 5], num_gpus=8)
    rules = SimRules(costs=Costs(launch_s=20))
    result = simulate(jobs, mixed(SLOW, speeds=(0.5, 1.0)), load("srtf"), rules)
    assert result.end_s.tolist() == [40 + 20 + 10 + 200, 10 + 20 + 10]
