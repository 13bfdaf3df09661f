"""Figures of a simulation against values worked out by hand."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from support.sim_jobs import sim_jobs
from support.sim_results import samples, sim_result

from gsched.policy.registry import load
from gsched.sim.cluster import SimCluster
from gsched.sim.curves import POINTS, curves
from gsched.sim.job_figures import LOSS_BELOW, JobFigures
from gsched.sim.jobs import SimJobs
from gsched.sim.metrics import Metrics, summarise
from gsched.sim.result import Segments
from gsched.sim.rules import Costs, SimRules, Sleep
from gsched.sim.run import simulate

NAN = float("nan")


def three_jobs() -> SimJobs:
    """On 4 GPUs: a takes all from 0 to 100; b and c wait for it."""
    return sim_jobs([0, 10, 20], [100, 50, 5], num_gpus=[4, 2, 2])


def three() -> Metrics:
    return summarise(sim_result(three_jobs(), [0, 100, 100], [100, 150, 105]))


def test_times_of_jobs() -> None:
    found = three().all_jobs
    assert (found.jobs, found.started, found.finished) == (3, 3, 3)
    assert found.jct_s.mean == pytest.approx((100 + 140 + 85) / 3)
    assert (found.jct_s.median, found.jct_s.p90, found.jct_s.p99_9) == (100, 140, 140)
    assert found.queueing_s.mean == pytest.approx((0 + 90 + 80) / 3)
    assert found.waiting_s.mean == pytest.approx((0 + 90 + 80) / 3)
    assert found.bounded_slowdown.mean == pytest.approx((1 + 140 / 50 + 85 / 10) / 3)
    assert found.gpu_hours == pytest.approx((400 + 100 + 10) / 3600)


def test_a_short_job_is_never_faster_than_alone() -> None:
    found = summarise(sim_result(sim_jobs([0], [3]), [0], [3])).all_jobs
    assert found.bounded_slowdown.mean == 1.0  # 3 s are 0.3 of the bound


def test_the_cluster() -> None:
    found = three()
    assert found.makespan_s == 150
    assert found.whole.length_s == 150
    assert found.whole.utilisation == pytest.approx(510 / 600)
    assert (found.submitting.length_s, found.submitting.utilisation) == (20, 1.0)
    assert found.offered_load == pytest.approx(510 / (4 * 20))
    assert (found.first_submit, found.last_submit) == (1_000, 1_020)


def test_finish_time_ratios() -> None:
    """In a's life 1, 2, 3 jobs are active for 10, 10, 80 s: 2.7 on average, and it takes all 4."""
    found = three().all_jobs
    a = 100 / (100 * 4 * 2.7 / 4)
    b = 140 / (50 * 2 * (20 + 240 + 10 + 45) / 140 / 4)
    c = 85 / (5 * 2 * (240 + 10) / 85 / 4)
    assert found.finish_time_ratio.mean == pytest.approx((a + b + c) / 3)
    assert found.unfair_share == pytest.approx(2 / 3)


def test_shares_received() -> None:
    """One tenant with 4 GPUs: a job is entitled to 4, 2, 4/3 GPUs beside 0, 1, 2 others."""
    found = three()
    entitled = {
        "a": 10 * 4 + 10 * 2 + 80 * 4 / 3,
        "b": 10 * 2 + 80 * 4 / 3 + 5 * 2 + 45 * 2,
        "c": 80 * 4 / 3 + 5 * 2,
    }
    ratios = [400 / entitled["a"], 100 / entitled["b"], 10 / entitled["c"]]
    assert [ratio < 0.95 for ratio in ratios] == [False, True, True]
    assert found.all_jobs.sharing_loss_share == pytest.approx(2 / 3)
    assert found.tenant_shares == {"t0": pytest.approx(510 / (100 * 4 + 5 * 4 + 45 * 2))}


def test_a_share_at_the_bound_is_no_loss() -> None:
    figures = JobFigures.of(sim_result(sim_jobs([0, 0], [9, 9]), [0, 0], [9, 9]))
    shares = np.array([LOSS_BELOW, np.nextafter(LOSS_BELOW, 0)])
    assert replace(figures, share_received=shares).has_loss.tolist() == [False, True]


def test_a_tenant_is_entitled_to_an_equal_part_of_its_pool() -> None:
    jobs = sim_jobs([0, 0], [100, 100], num_gpus=[4, 4], tenant=[0, 1])
    found = summarise(sim_result(jobs, [0, 100], [100, 200]))
    assert found.tenant_shares == {"t0": 400 / 200, "t1": 400 / 400}
    assert found.all_jobs.sharing_loss_share == 0


def test_a_job_alone_is_neither_unfair_nor_at_a_loss() -> None:
    jobs = sim_jobs([0.1, 1000.3], [100.7, 0.9], num_gpus=[4, 1])
    start = jobs.submit_s
    found = summarise(sim_result(jobs, start, start + jobs.duration_s)).all_jobs
    assert (found.unfair_share, found.sharing_loss_share) == (0.0, 0.0)
    assert found.finish_time_ratio.mean == pytest.approx(1.0)


def test_pools_do_not_contend() -> None:
    cluster = SimCluster.uniform({"p": 1, "q": 2}, gpus_a_node=4)
    jobs = sim_jobs([0, 0, 0], [100, 100, 100], num_gpus=[4, 4, 8], pool=[0, 0, 1])
    found = summarise(sim_result(jobs, [0, 100, 0], [100, 200, 100], cluster))
    by_pool = {told.name: told for told in found.by_pool}
    assert by_pool["q"].finish_time_ratio.mean == 1.0
    assert by_pool["p"].finish_time_ratio.mean == pytest.approx((100 / 200 + 200 / 150) / 2)
    assert [by_pool[name].jobs for name in ("p", "q")] == [2, 1]


def test_classes_of_size_and_duration() -> None:
    sizes = [1, 2, 4, 5, 8, 9, 16, 17, 64, 65]
    durations = [599, 600, 3599, 3600, 21_599, 21_600, 86_399, 86_400, 1, 1]
    jobs = sim_jobs([0] * 10, durations, num_gpus=sizes)
    cluster = SimCluster.uniform({"p": 20})
    found = summarise(sim_result(jobs, [0] * 10, durations, cluster))
    assert [(told.name, told.jobs) for told in found.by_size] == [
        ("1", 1), ("2-4", 2), ("5-8", 2), ("9-16", 2), ("17-64", 2), ("over 64", 1),
    ]  # fmt: skip
    assert [(told.name, told.jobs) for told in found.by_duration] == [
        ("under 10 min", 3), ("10 min-1 h", 2), ("1-6 h", 2), ("6-24 h", 2), ("from 1 day", 1),
    ]  # fmt: skip
    assert found.by_duration[1].jct_s.mean == (600 + 3599) / 2


def test_classes_of_tenants_add_up_and_jobs_without_one_are_told() -> None:
    jobs = sim_jobs([0, 0, 0], [10, 20, 30], tenant=[1, -1, 1])
    found = summarise(sim_result(jobs, [0, 0, 0], [10, 20, 30]))
    assert [(told.name, told.jobs, told.jct_s.mean) for told in found.by_tenant] == [
        ("t1", 2, 20), ("-", 1, 20),
    ]  # fmt: skip


def test_preemptions_failures_and_lost_time() -> None:
    jobs = sim_jobs([0, 0], [100, 100], num_gpus=[2, 4])
    found = summarise(
        sim_result(
            jobs,
            [0, 50],
            [300, 200],
            segments=Segments(
                job=np.array([0, 1, 0, 0], dtype=np.int32),
                start_s=np.array([0.0, 50.0, 150.0, 250.0]),
                end_s=np.array([70.0, 200.0, 180.0, 300.0]),
                node=np.zeros(4, dtype=np.int32),
                shared=np.full(4, -1, dtype=np.int32),
            ),
            run_s=np.array([150.0, 150.0]),
            lost_s=np.array([50.0, 50.0]),
            preemptions=np.array([2, 1], dtype=np.int32),
            failures=np.array([0, 3], dtype=np.int32),
        )
    ).all_jobs
    assert (found.preemptions, found.preempted_jobs, found.failures) == (3, 2, 3)
    assert found.lost_gpu_hours == pytest.approx((100 + 200) / 3600)
    assert found.waiting_s.mean == pytest.approx((150 + 50) / 2)
    assert found.queueing_s.mean == 25


def test_the_clean_up_after_the_end_is_no_part_of_the_job() -> None:
    """Two jobs of all 4 GPUs, 30 s of clean-up: the second waits from 0 to 130, and ends at 180."""
    jobs = sim_jobs([0, 0], [100, 50], num_gpus=[4, 4])
    cluster = SimCluster.uniform({"p": 1}, gpus_a_node=4)
    rules = SimRules(costs=Costs(cleanup_s=30))
    for policy in ("fifo", "fair-tree"):
        result = simulate(jobs, cluster, load(policy), rules)
        assert result.end_s.tolist() == [100, 180]
        figures = JobFigures.of(result)
        assert figures.queueing_s.tolist() == [0, 130]
        assert figures.waiting_s.tolist() == [0, 130]
        entitled = (100 * 2, 100 * 2 + 80 * 4)
        assert figures.share_received.tolist() == [400 / entitled[0], 200 / entitled[1]]
        assert figures.tenant_share[0] == 600 / (180 * 4)


def test_waiting_is_never_less_than_queueing() -> None:
    """Not where nodes must wake up first, and with preemption it is more."""
    random = np.random.default_rng(3)
    jobs = sim_jobs(
        np.sort(random.integers(0, 9000, 80)),
        random.integers(1, 900, 80),
        num_gpus=random.choice([1, 2, 4], 80),
    )
    cluster = SimCluster.uniform({"p": 2}, gpus_a_node=4)
    rules = SimRules(
        costs=Costs(launch_s=3, cleanup_s=20, checkpoint_s=5), sleep=Sleep(60, wake_s=100)
    )
    figures = JobFigures.of(simulate(jobs, cluster, load("srtf"), rules))
    assert (figures.waiting_s >= figures.queueing_s).all()
    assert figures.waiting_s.sum() > figures.queueing_s.sum() > 0


def test_deadlines() -> None:
    """Met at the very moment, missed, missed by one that never ended, none, and not known yet."""
    jobs = sim_jobs(
        [0, 0, 0, 0, 0],
        [10, 10, 10, 10, 10],
        deadline_s=[10, 19, 50, NAN, 150],
        weight=[1, 2, 3, 9, 9],
    )
    seen = samples([0, 100])
    result = sim_result(
        jobs, [0, 10, NAN, 0, NAN], [10, 20, NAN, 10, NAN], samples=seen, interrupted=True
    )
    found = summarise(result).deadlines
    assert (found.jobs, found.missed, found.unknown) == (4, 2, 1)
    assert found.miss_rate == pytest.approx(2 / 3)
    assert found.weighted_miss_rate == pytest.approx(5 / 6)


def test_no_deadlines_no_rate() -> None:
    found = three().deadlines
    assert (found.jobs, found.miss_rate, found.weighted_miss_rate) == (0, None, None)


def test_samples() -> None:
    """The last sample lies beyond the last submission: it counts for the whole alone."""
    jobs = sim_jobs([0, 10], [100, 20], num_gpus=[1, 1])
    seen = samples(
        [0, 10, 20],
        gpus_free=[6, 2, 4],
        gpus_free_whole=[4, 0, 4],
        gpus_wanted=[0, 8, 0],
        jobs_waiting=[0, 2, 0],
        nodes_asleep=[1, 0, 2],
    )
    cluster = SimCluster.uniform({"p": 2}, gpus_a_node=4)
    found = summarise(sim_result(jobs, [0, 10], [100, 30], cluster, samples=seen))
    assert found.submitting.fragmented_share == pytest.approx((2 + 2) / 2 / 8)
    assert found.submitting.fragmented_share_of_free == pytest.approx(4 / 8)
    assert found.submitting.free_while_wanted_share == pytest.approx((0 + 2) / 2 / 8)
    assert (found.submitting.gpus_wanted, found.submitting.jobs_waiting) == (4, 1)
    assert found.whole.fragmented_share == pytest.approx(4 / 3 / 8)
    assert found.whole.nodes_asleep == pytest.approx(1)
    assert found.document()["over_time"]["gpus_free"] == [6, 2, 4]


def test_a_point_of_a_curve_is_the_mean_of_its_samples() -> None:
    """Of POINTS points every other one stands for two samples here."""
    number = POINTS * 3 // 2
    seen = samples(range(number), gpus_used=[5] * number)
    found = curves(seen, {}).over_time
    assert found["gpus_used"].tolist() == [5.0] * POINTS
    assert found["time_s"][:4].tolist() == [0.0, 1.5, 3.0, 4.5]


def test_a_shared_gpu_is_in_use_once() -> None:
    """b joins a from 20 to 60; c joins b, which has a's GPUs by then, and outlives it."""
    jobs = sim_jobs([0, 0, 0], [50, 40, 40], num_gpus=[2, 2, 2])
    segments = Segments(
        job=np.array([0, 1, 2], dtype=np.int32),
        start_s=np.array([0.0, 20.0, 55.0]),
        end_s=np.array([50.0, 60.0, 95.0]),
        node=np.zeros(3, dtype=np.int32),
        shared=np.array([-1, 0, 1], dtype=np.int32),
    )
    found = summarise(sim_result(jobs, [0, 20, 55], [50, 60, 95], segments=segments))
    assert found.whole.utilisation == pytest.approx(95 * 2 / (95 * 4))


def test_a_partner_of_an_earlier_attempt_is_not_counted() -> None:
    """b joins a's second attempt; c joins b's GPUs after a has left them for good."""
    jobs = sim_jobs([0, 0], [30, 40], num_gpus=[2, 2])
    segments = Segments(
        job=np.array([0, 0, 1], dtype=np.int32),
        start_s=np.array([0.0, 20.0, 25.0]),
        end_s=np.array([10.0, 40.0, 65.0]),
        node=np.zeros(3, dtype=np.int32),
        shared=np.array([-1, -1, 0], dtype=np.int32),
    )
    found = summarise(sim_result(jobs, [0, 25], [40, 65], segments=segments))
    assert found.whole.utilisation == pytest.approx((10 + 45) * 2 / (65 * 4))


def test_an_interrupted_simulation_tells_what_it_knows() -> None:
    jobs = sim_jobs([0, 0, 5], [10, 100, 10], num_gpus=[2, 2, 4])
    seen = samples([0, 20], gpus_free=[0, 2])
    result = sim_result(
        jobs, [0, 0, NAN], [10, NAN, NAN], samples=seen, interrupted=True,
        run_s=np.array([10.0, 20.0, 0.0]),
    )  # fmt: skip
    found = summarise(result)
    assert found.interrupted
    assert found.makespan_s is None
    assert (found.all_jobs.started, found.all_jobs.finished) == (2, 1)
    assert (found.all_jobs.jct_s.jobs, found.all_jobs.queueing_s.jobs) == (1, 2)
    assert found.whole.utilisation == pytest.approx((20 + 40) / (20 * 4))
    assert found.all_jobs.finish_time_ratio.jobs == 1
    json.dumps(found.document(), allow_nan=False)


def test_what_was_not_submitted_when_it_stopped_asked_for_nothing() -> None:
    """Of 20 s a tenant wanted 2 GPUs for 10 s and 4 for 10 s, and got 2 all the time."""
    jobs = sim_jobs([0, 10, 1000], [100, 10, 10], num_gpus=[2, 2, 4])
    result = sim_result(
        jobs, [0, NAN, NAN], [NAN, NAN, NAN], samples=samples([0, 20]), interrupted=True,
        run_s=np.array([20.0, 0.0, 0.0]),
    )  # fmt: skip
    assert summarise(result).tenant_shares == {"t0": pytest.approx(40 / (20 + 40))}


def test_nothing_ended_nothing_told() -> None:
    result = sim_result(sim_jobs([0], [10]), [NAN], [NAN], interrupted=True)
    found = summarise(result)
    assert found.all_jobs.jct_s.mean is None
    assert found.all_jobs.unfair_share is None
    document = json.loads(json.dumps(found.document(), allow_nan=False))
    assert document["jct_s"] == {
        "jobs": 0, "mean": None, "median": None, "p90": None, "p99": None, "p99_9": None,
    }  # fmt: skip


def test_a_simulation_without_jobs_has_no_figures() -> None:
    with pytest.raises(ValueError, match="without jobs"):
        summarise(sim_result(sim_jobs([], []), [], []))


def test_quantiles_are_values_that_occur() -> None:
    """Of 1,000 jobs the 999th is the p99.9, and the 500th the median."""
    durations = np.arange(1, 1001)
    found = summarise(sim_result(sim_jobs([0] * 1000, durations), [0] * 1000, durations)).all_jobs
    told = found.jct_s
    assert (told.median, told.p90, told.p99, told.p99_9) == (500, 900, 990, 999)


def test_keys_of_the_document_are_stable() -> None:
    assert list(three().document()) == [
        "policy", "path", "seed", "interrupted", "first_submit", "last_submit", "offered_load",
        "jobs", "started", "finished", "gpu_hours", "lost_gpu_hours", "jct_s", "queueing_s",
        "waiting_s", "bounded_slowdown", "finish_time_ratio", "unfair_share",
        "sharing_loss_share", "preemptions", "preempted_jobs", "failures", "makespan_s", "gpus",
        "deadlines", "energy_kwh", "wakes", "by_size", "by_duration", "by_tenant", "by_pool",
        "over_time", "unfair_intervals",
    ]  # fmt: skip


def test_energy_is_told_in_kwh() -> None:
    found = summarise(sim_result(three_jobs(), [0, 100, 100], [100, 150, 105], energy_wh=1500.0))
    assert found.document()["energy_kwh"] == 1.5
