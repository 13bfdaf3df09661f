"""EASY backfill and Slurm mode: by hand, and against a second implementation."""

from __future__ import annotations

import numpy as np
import pytest
from support.sim_checks import check
from support.sim_effects import PlainEasy, first_come
from support.sim_jobs import columns_of, sim_jobs

from gsched.errors import UsageError
from gsched.model.progress import silent
from gsched.policy.order_form import Discipline, Misfit, OrderForm
from gsched.sim.cluster import SimCluster
from gsched.sim.core.effects import check_effects
from gsched.sim.core.ordered_loop import run_ordered
from gsched.sim.jobs import SimJobs
from gsched.sim.rules import Costs, Scheduler, Sharing, SimRules

SLURM = SimRules(scheduler=Scheduler.SLURM)


def test_a_job_that_ends_in_time_starts_before_the_first_and_a_longer_one_does_not() -> None:
    jobs = sim_jobs(
        [0, 1, 2, 3], [10, 10, 5, 9], num_gpus=[4, 8, 2, 2], time_limit_s=[10, 10, 5, 9]
    )
    node = SimCluster.uniform({"p": 1}, 8)
    assert first_come(jobs, node, SLURM).start_s.tolist() == [0, 10, 2, 20]
    assert first_come(jobs, node).start_s.tolist() == [0, 10, 20, 20]


def test_reservations_are_on_nodes() -> None:
    jobs = sim_jobs(
        [0, 0, 0, 1, 2, 3, 4],
        [100, 50, 80, 10, 500, 500, 40],
        num_gpus=[4, 3, 2, 4, 2, 1, 1],
        time_limit_s=[100, 50, 80, 10, 500, 500, 40],
    )
    # job 3 gets node 1, where job 1 leaves at 50; job 4 fits beside it on node 2 for as long as it
    # likes; job 5 finds a GPU on node 1 alone, and would hold it too long; job 6 is gone by 44
    result = first_come(jobs, SimCluster.uniform({"p": 3}, 4), SLURM)
    assert result.start_s.tolist() == [0, 0, 0, 50, 2, 60, 4]
    assert result.segments.node[result.segments.job == 4].tolist() == [2]


def test_limits_count_not_durations_and_who_ends_early_lets_the_first_go_early() -> None:
    jobs = sim_jobs([0, 1, 2], [10, 10, 3], num_gpus=[6, 8, 2], time_limit_s=[40, 10, 100])
    node = SimCluster.uniform({"p": 1}, 8)
    assert first_come(jobs, node, SLURM).start_s.tolist() == [0, 10, 20]  # 3 s, but 100 allowed
    short = sim_jobs([0, 1, 2], [10, 10, 3], num_gpus=[6, 8, 2], time_limit_s=[40, 10, 38])
    assert first_come(short, node, SLURM).start_s.tolist() == [0, 10, 2]


def test_a_job_beyond_its_limit_may_end_at_any_moment() -> None:
    jobs = sim_jobs([0, 20, 21], [50, 10, 5], num_gpus=[6, 8, 2], time_limit_s=[10, 10, 5])
    assert first_come(jobs, SimCluster.uniform({"p": 1}, 8), SLURM).start_s.tolist() == [0, 50, 60]


def test_without_limits_nobody_is_known_to_end_in_time() -> None:
    told = {"num_gpus": [6, 8, 2]}
    node = SimCluster.uniform({"p": 1}, 8)
    unlimited = sim_jobs([0, 1, 2], [10, 10, 3], **told)
    assert first_come(unlimited, node, SLURM).start_s.tolist() == [0, 10, 20]


def random_jobs(seed: int, count: int, num_nodes: int) -> SimJobs:
    draw = np.random.default_rng(seed)
    duration_s = draw.integers(1, 60, count)
    limit_s = duration_s + draw.integers(0, 60, count) * draw.integers(0, 2, count)
    return sim_jobs(
        np.sort(draw.integers(0, 12 * count // num_nodes, count)).tolist(),
        duration_s.tolist(),
        num_gpus=draw.choice([1, 1, 2, 3, 4, 6, 8, 4 * num_nodes], count),
        time_limit_s=np.where(draw.random(count) < 0.1, np.nan, limit_s),
    )


@pytest.mark.parametrize("seed", range(12))
def test_every_start_is_that_of_a_second_implementation(seed: int) -> None:
    num_nodes = 2 + seed % 4
    jobs = random_jobs(seed, 120, num_nodes)
    cluster = SimCluster.uniform({"p": num_nodes}, 4)
    plain = PlainEasy(jobs, cluster)
    result = first_come(jobs, cluster, SLURM)
    check(result)
    assert result.start_s.tolist() == [plain.starts[row] for row in range(len(jobs))]
    assert len(plain.promised) > 10
    for row, promised_s in plain.promised.items():  # nobody has delayed who was first
        assert result.start_s[row] <= promised_s
    assert result.start_s.sum() < first_come(jobs, cluster).start_s.sum()


def test_slurm_mode_preempts_nobody_whatever_the_order() -> None:
    jobs = sim_jobs([0, 5], [100, 10], num_gpus=8)
    node = SimCluster.uniform({"p": 1}, 8)
    form = OrderForm.static(jobs.duration_s, Discipline(preempts=True, misfit=Misfit.SKIP))
    live = run_ordered(jobs, node, form, SLURM, "shortest", silent)
    assert live.start_s.tolist() == [0, 100]
    assert live.preemptions.tolist() == [0, 0]
    free = run_ordered(jobs, node, form, SimRules(), "shortest", silent)
    assert free.start_s.tolist() == [0, 5]
    assert free.preemptions.tolist() == [1, 0]


def test_launch_and_clean_up_hold_the_gpus() -> None:
    jobs = sim_jobs([0, 1], [10, 10], num_gpus=8)
    rules = SimRules(scheduler=Scheduler.SLURM, costs=Costs(launch_s=2, cleanup_s=3))
    result = first_come(jobs, SimCluster.uniform({"p": 1}, 8), rules)
    assert result.start_s.tolist() == [0, 15]
    assert result.end_s.tolist() == [12, 27]  # of the work, as Slurm's EndTime
    assert result.run_s.tolist() == [15, 15]
    assert result.lost_s.tolist() == [5, 5]


def test_slurm_mode_without_misfits_is_the_plain_result() -> None:
    jobs = random_jobs(3, 200, 3)
    cluster = SimCluster.uniform({"p": 400}, 4)
    plain, slurm = first_come(jobs, cluster), first_come(jobs, cluster, SLURM)
    for name, column in columns_of(plain).items():
        np.testing.assert_array_equal(columns_of(slurm)[name], column, err_msg=name)


def test_sharing_with_preemption_is_refused() -> None:
    sharing = SimRules(sharing=Sharing(("a",), np.ones((1, 1))))
    with pytest.raises(UsageError, match="preempts"):
        check_effects(True, sharing)
    check_effects(False, sharing)
    check_effects(True, SimRules())
