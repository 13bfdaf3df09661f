"""Orders that never change: the tight loop against the rules written plainly, and by hand."""

from __future__ import annotations

import dataclasses
import random

import numpy as np
import pytest
from support.plain_sim import plain_starts
from support.sim_jobs import columns_of, sim_jobs

from gsched.model.progress import silent
from gsched.policy.order_form import OrderForm
from gsched.sim.cluster import SimCluster
from gsched.sim.core.static_run import run_static
from gsched.sim.rules import Costs, Placement, Power, SimRules


def simulated(jobs, cluster, keys, told=silent, **rules):
    form = OrderForm.static(np.asarray(keys, dtype=float))
    return run_static(jobs, cluster, form, SimRules(**rules), "by-hand", told)


def random_case(seed):
    """Many jobs at few times, so that all kinds of ties occur."""
    chance = random.Random(seed)
    count = 120
    nodes = {"a": chance.randrange(1, 4), "b": chance.randrange(1, 4)}
    pool = [chance.randrange(2) for _ in range(count)]
    gpus = [min(chance.choice([1, 1, 1, 2, 4, 8, 12, 16]), 8 * nodes["ab"[one]]) for one in pool]
    parts = [chance.choice([0, 0, 2]) if nodes["ab"[one]] > 1 else 0 for one in pool]
    jobs = sim_jobs(
        sorted(float(chance.randrange(60)) for _ in range(count)),
        [float(chance.randrange(1, 30)) for _ in range(count)],
        num_gpus=gpus,
        num_nodes=parts,
        pool=pool,
    )
    keys = [float(chance.randrange(9)) for _ in range(count)]
    return jobs, SimCluster.uniform(nodes), np.array(keys)


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("tick_s", [0.0, 1.0])
def test_every_start_and_node_is_as_the_plain_rules_have_it(seed, tick_s):
    jobs, cluster, keys = random_case(seed)
    placement = (Placement.CONSOLIDATED, Placement.SPREAD)[seed % 2]
    expected = plain_starts(jobs, cluster, keys, placement, tick_s)
    result = simulated(jobs, cluster, keys, placement=placement, size_first_tick_s=tick_s)
    assert result.start_s.tolist() == [expected[row][0] for row in range(len(jobs))]
    by_job = np.argsort(result.segments.job)
    assert result.segments.node[by_job].tolist() == [expected[row][1] for row in range(len(jobs))]
    assert (result.end_s == result.start_s + jobs.duration_s).all()
    assert result.path == "static"
    again = columns_of(
        simulated(jobs, cluster, keys, placement=placement, size_first_tick_s=tick_s)
    )
    for name, column in columns_of(result).items():
        assert column.tobytes() == again[name].tobytes(), name


def test_the_first_that_does_not_fit_blocks_its_pool_and_no_other():
    jobs = sim_jobs([0, 1, 2, 2], [10, 5, 1, 1], num_gpus=[6, 8, 1, 1], pool=[0, 0, 0, 1])
    result = simulated(jobs, SimCluster.uniform({"a": 1, "b": 1}), jobs.submit_s)
    assert result.start_s.tolist() == [0, 10, 15, 2]


def test_keys_order_the_queue_and_rows_break_ties():
    jobs = sim_jobs([0, 0, 0, 0, 0], [5] * 5, num_gpus=[8] * 5)
    result = simulated(jobs, SimCluster.uniform({"a": 1}), [3, np.nan, 1, 3, np.nan])
    assert result.start_s.tolist() == [5, 15, 0, 10, 20]


def test_in_the_first_tick_size_counts_and_the_key_from_the_next_on():
    """Job 0 is alone and starts; 1 to 3 find an empty queue, 4 comes when they have keys."""
    jobs = sim_jobs([0, 2, 2, 2, 2.5], [10, 4, 4, 4, 4], num_gpus=[4, 6, 4, 3, 1])
    keys = [9, 0, 7, 8, 5]
    cluster = SimCluster.uniform({"a": 1})
    plain = simulated(jobs, cluster, keys)
    assert plain.start_s.tolist() == [0, 10, 14, 14, 10]
    ticking = simulated(jobs, cluster, keys, size_first_tick_s=1.0)
    assert ticking.start_s.tolist() == [0, 10, 14, 2, 10]
    jobs = dataclasses.replace(jobs, num_gpus=np.array([4, 2, 1, 3, 1], dtype=np.int32))
    ticking = simulated(jobs, cluster, [9, 8, 7, 0, 5], size_first_tick_s=1.0)
    assert ticking.start_s.tolist() == [0, 2, 2, 6, 6]
    ticking = simulated(jobs, cluster, [9, 8, 7, 6, 5], size_first_tick_s=1.0)
    assert ticking.start_s.tolist() == [
        0,
        2,
        2,
        6,
        3,
    ]  # after the tick, with nothing else happening


def test_launch_and_clean_up_hold_gpus():
    jobs = sim_jobs([0, 0], [10, 10], num_gpus=[8, 8])
    costs = Costs(launch_s=3, cleanup_s=2)
    power = Power(idle_w=36, gpu_w=18)
    result = simulated(jobs, SimCluster.uniform({"a": 1}), [0, 1], costs=costs, power=power)
    assert result.start_s.tolist() == [0, 15]
    assert result.end_s.tolist() == [13, 28]
    assert result.run_s.tolist() == [15, 15]
    assert result.lost_s.tolist() == [5, 5]
    assert result.segments.end_s.tolist() == [15, 30]
    assert result.energy_wh == pytest.approx((30 * 36 + 30 * 8 * 18) / 3600)


def test_samples_show_the_cluster_right_after_what_happens():
    jobs = sim_jobs([10, 12, 13, 20], [20, 10, 10, 40], num_gpus=[6, 8, 8, 2])
    result = simulated(jobs, SimCluster.uniform({"a": 2}), jobs.submit_s, sample_s=10)
    samples = result.samples
    assert result.start_s.tolist() == [10, 12, 22, 22]
    assert samples.time_s.tolist() == [10, 20, 30, 40, 50, 60, 70]
    assert samples.gpus_used.tolist() == [6, 14, 10, 2, 2, 2, 0]
    assert samples.gpus_free.tolist() == [10, 2, 6, 14, 14, 14, 16]
    assert samples.gpus_free_whole.tolist() == [8, 0, 0, 8, 8, 8, 16]
    assert samples.gpus_wanted.tolist() == [0, 10, 0, 0, 0, 0, 0]
    assert samples.jobs_waiting.tolist() == [0, 2, 0, 0, 0, 0, 0]
    assert samples.jobs_running.tolist() == [1, 2, 2, 1, 1, 1, 0]
    assert not samples.nodes_down.any()
    assert not samples.nodes_asleep.any()


@pytest.mark.parametrize("seed", range(4))
def test_samples_agree_with_the_segments(seed):
    jobs, cluster, keys = random_case(seed)
    result = simulated(jobs, cluster, keys, sample_s=0.7)
    for number, time_s in enumerate(result.samples.time_s):
        runs = (result.start_s <= time_s) & (time_s < result.segments.end_s[_back(result)])
        waits = (jobs.submit_s <= time_s) & (time_s < result.start_s)
        assert result.samples.gpus_used[number] == jobs.num_gpus[runs].sum()
        assert result.samples.jobs_running[number] == runs.sum()
        assert result.samples.gpus_wanted[number] == jobs.num_gpus[waits].sum()
        assert result.samples.jobs_waiting[number] == waits.sum()


def _back(result):
    """Where each job's only segment is."""
    return np.argsort(result.segments.job)


def test_no_jobs_are_no_trouble():
    result = simulated(sim_jobs([], []), SimCluster.uniform({"a": 1}), [])
    assert len(result.start_s) == len(result.samples.time_s) == len(result.segments.job) == 0
    assert result.energy_wh == 0


def test_progress_is_told_and_ctrl_c_leaves_the_part_so_far():
    count = 300_000
    jobs = sim_jobs(range(count), [3.0] * count, num_gpus=[4] * count, pool=[0, 1] * (count // 2))
    cluster = SimCluster.uniform({"a": 1, "b": 1})
    heard = []
    whole = simulated(jobs, cluster, jobs.submit_s, lambda what, rows: heard.append((what, rows)))
    assert {what for what, _ in heard} == {"jobs ended"}
    assert len(heard) > 4
    assert sorted(heard) == heard
    assert heard[-1][1] == count

    def interrupt(_what, rows):
        if rows > 100_000:
            raise KeyboardInterrupt

    part = simulated(jobs, cluster, jobs.submit_s, interrupt)
    assert part.interrupted
    assert not whole.interrupted
    done = part.finished
    assert 100_000 < done.sum() < 200_000
    assert (part.end_s[done] == whole.end_s[done]).all()
    until = np.nanmax(part.start_s)
    assert (np.isnan(part.start_s) == (whole.start_s > until)).all()
    running = ~np.isnan(part.start_s) & ~done
    assert running.any()
    assert (part.run_s[running] < 3.0).all()
    assert np.isnan(part.segments.end_s).sum() == running.sum()
    assert part.samples.jobs_running[-1] == running.sum()
