"""Jobs that share GPUs: who joins whom, how fast both are, and who keeps the GPUs."""

from __future__ import annotations

import numpy as np
import pytest
from support.shared import SHARED, needs_shared
from support.sim_effects import first_come
from support.sim_jobs import columns_of, sim_jobs

from gsched.policy.fifo import Fifo
from gsched.sim.cluster import SimCluster
from gsched.sim.colocation import drawn_classes, read_colocation
from gsched.sim.replay import run_rounds
from gsched.sim.rules import Costs, Failures, Power, Sharing, SimRules
from gsched.sim.run import simulate

ONE_GPU = SimCluster.uniform({"p": 1}, 1)
A, B, C = 0, 1, 2


def sharing(*rows: list[float], min_speed: float = 0.5) -> SimRules:
    names = tuple("abc"[: len(rows)])
    return SimRules(sharing=Sharing(names, np.array(rows), min_speed))


PAIR = sharing([np.nan, 0.5], [0.8, np.nan])


def test_both_run_at_their_measured_speeds_while_they_are_together() -> None:
    jobs = sim_jobs([0, 10], [100, 60], share_class=[A, B])
    result = first_come(jobs, ONE_GPU, PAIR)
    assert result.start_s.tolist() == [0, 10]
    # b does 60 at 0.8 in 75 s; a has done 10 + 75 · 0.5 by then, and the rest alone
    assert result.end_s.tolist() == [85 + 52.5, 85]
    assert result.run_s.tolist() == [137.5, 75]
    assert result.lost_s.tolist() == [37.5, 15]
    assert result.segments.shared.tolist() == [-1, 0]


def test_who_stays_keeps_the_gpus() -> None:
    jobs = sim_jobs([0, 10, 20], [20, 100, 5], share_class=[A, B, -1])
    result = first_come(jobs, ONE_GPU, PAIR)
    # a: 10 alone, 10 at 0.5 until 30; b: 16 by then, 84 alone until 114; only then the third
    assert result.end_s.tolist() == [30, 114, 119]
    assert result.start_s.tolist() == [0, 10, 114]


def test_a_pair_that_is_too_slow_or_does_not_fit_is_none() -> None:
    jobs = sim_jobs([0, 10], [100, 60], share_class=[A, B])
    plain = columns_of(first_come(jobs, ONE_GPU))
    assert plain["start_s"].tolist() == [0, 100]
    slow = sharing([np.nan, 0.5], [0.8, np.nan], min_speed=0.6)
    unfit = sharing([np.nan, np.nan], [0.8, np.nan])
    for rules in (slow, unfit):
        for name, column in columns_of(first_come(jobs, ONE_GPU, rules)).items():
            np.testing.assert_array_equal(column, plain[name], err_msg=name)


def test_free_gpus_come_before_shared_ones_and_the_best_pair_before_others() -> None:
    rules = sharing([1, 1, 0.7], [1, 1, 0.6], [0.6, 0.9, 1])
    two = SimCluster.uniform({"p": 1}, 2)
    jobs = sim_jobs([0, 0, 1], [10, 10, 9], share_class=[A, B, C])
    result = first_come(jobs, two, rules)
    assert result.segments.shared.tolist() == [-1, -1, 1]  # 0.9 + 0.6 > 0.6 + 0.7
    assert result.start_s.tolist() == [0, 0, 1]


def test_at_most_two_and_only_of_the_same_size() -> None:
    rules = sharing([0.9])
    jobs = sim_jobs([0, 1, 2, 3], [10, 10, 10, 10], num_gpus=[2, 1, 2, 2], share_class=A)
    result = first_come(jobs, SimCluster.uniform({"p": 1}, 2), rules)
    started = dict(zip(result.segments.job.tolist(), result.segments.shared.tolist(), strict=True))
    # the job of one GPU finds none of its size and blocks the others until the first has ended
    assert started == {0: -1, 1: -1, 2: -1, 3: 2}
    assert result.start_s.tolist() == [0, 10, 20, 20]


def test_gpus_of_a_pair_count_once() -> None:
    jobs = sim_jobs([0, 10], [100, 60], share_class=[A, B])
    rules = SimRules(sharing=PAIR.sharing, sample_s=20, power=Power(0, 100, 10))
    result = first_come(jobs, ONE_GPU, rules)
    assert result.samples.gpus_used[:-1].tolist() == [1] * 7
    assert result.samples.jobs_running[:-1].tolist() == [1, 2, 2, 2, 2, 1, 1]
    assert result.energy_wh == pytest.approx(137.5 * 110 / 3600)


def test_costs_come_before_progress_of_the_guest_and_slow_the_host_at_once() -> None:
    jobs = sim_jobs([0, 10], [100, 60], share_class=[A, B])
    rules = SimRules(sharing=PAIR.sharing, costs=Costs(launch_s=5, cleanup_s=2))
    result = first_come(jobs, ONE_GPU, rules)
    # b begins at 15 and is done at 90, without clean-up: the GPU stays in use; a has done 5 and 40
    assert result.end_s.tolist() == [90 + 55, 90]
    assert result.segments.end_s.tolist() == [147, 90]


def test_a_failure_hits_both() -> None:
    failures = Failures(node_mtbf_s=1000, repair_s=100, checkpoint_every_s=1)
    rules = SimRules(seed=5, sharing=PAIR.sharing, failures=failures)
    jobs = sim_jobs([0, 1], [5000, 5000], share_class=[A, B])
    result = first_come(jobs, ONE_GPU, rules)
    assert result.finished.all()
    assert result.failures[0] > 1
    segments = result.segments
    first_ends = [segments.end_s[segments.job == row][0] for row in (0, 1)]
    assert first_ends[0] == first_ends[1]
    np.testing.assert_allclose(result.run_s - result.lost_s, 5000, atol=1e-6)


def test_rounds_give_the_same_as_the_loop() -> None:
    rules = sharing([0.9, 0.5, 0.7], [0.8, np.nan, 0.6], [0.6, 0.9, 1])
    draw = np.random.default_rng(4)
    jobs = sim_jobs(
        np.sort(draw.integers(0, 300, 60)).tolist(),
        draw.integers(1, 60, 60).tolist(),
        num_gpus=draw.choice([1, 1, 2], 60),
        share_class=draw.choice([A, B, C, -1], 60),
    )
    nodes = SimCluster.uniform({"p": 2}, 2)
    loop, rounds = simulate(jobs, nodes, Fifo(), rules), run_rounds(jobs, nodes, Fifo(), rules)
    assert (loop.path, rounds.path) == ("ordered", "rounds")
    assert (loop.segments.shared >= 0).sum() > 10
    for name, column in columns_of(loop).items():
        np.testing.assert_array_equal(columns_of(rounds)[name], column, err_msg=name)


@needs_shared
def test_with_measured_pairs_a_crowd_is_served_sooner_and_nothing_is_lost() -> None:
    measured = read_colocation(str(SHARED / "traces/gavel/simulation_throughputs.json.gz"))
    draw = np.random.default_rng(3)
    num_gpus = draw.choice([1, 1, 2, 4, 8], 300).astype(np.int32)
    classes = drawn_classes(measured, num_gpus, 1)
    jobs = sim_jobs(
        np.sort(draw.integers(0, 20_000, 300)).tolist(),
        draw.integers(60, 3600, 300).tolist(),
        num_gpus=num_gpus,
        share_class=classes,
    )
    cluster = SimCluster.uniform({"p": 2})
    plain = first_come(jobs, cluster)
    shared = first_come(jobs, cluster, SimRules(sharing=measured))
    assert shared.finished.all()
    pairs = int((shared.segments.shared >= 0).sum())
    assert pairs > 20
    np.testing.assert_allclose(shared.run_s - shared.lost_s, jobs.duration_s, atol=1e-6)
    assert (shared.run_s >= jobs.duration_s - 1e-6).all()
    assert shared.samples.gpus_used.max() <= 16
    assert shared.start_s.mean() < plain.start_s.mean()
    assert (shared.run_s <= jobs.duration_s / measured.min_speed + 1e-6).all()
