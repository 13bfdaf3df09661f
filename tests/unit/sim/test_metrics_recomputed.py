"""Figures of real simulations, computed once more in another way: second by second."""

from __future__ import annotations

from fractions import Fraction
from statistics import fmean

import numpy as np
import pytest
from support.sim_jobs import sim_jobs

from gsched.policy.registry import load
from gsched.sim.cluster import SimCluster
from gsched.sim.job_figures import JobFigures
from gsched.sim.metrics import summarise
from gsched.sim.result import SimResult
from gsched.sim.run import simulate

GPUS = {0: 8, 1: 4}


def simulated(seed: int, policy: str) -> SimResult:
    """Sixty jobs of two tenants on two pools; times are whole seconds."""
    random = np.random.default_rng(seed)
    jobs = sim_jobs(
        np.sort(random.integers(0, 300, 60)),
        random.integers(1, 60, 60),
        num_gpus=random.choice([1, 2, 4], 60),
        pool=random.integers(0, 2, 60),
        tenant=random.integers(0, 2, 60),
    )
    cluster = SimCluster.uniform({"p": 2, "q": 1}, gpus_a_node=4)
    return simulate(jobs, cluster, load(policy))


def active(result: SimResult, second: int, rows: np.ndarray) -> list[int]:
    """Which of the rows are submitted and not ended during this second."""
    submit, end = result.jobs.submit_s, result.end_s
    return [row for row in rows if submit[row] <= second < end[row]]


@pytest.mark.parametrize("policy", ["fifo", "sjf"])
def test_ratios_of_each_job(policy: str) -> None:
    result = simulated(7, policy)
    jobs, figures = result.jobs, JobFigures.of(result)
    contention: dict[int, list[int]] = {row: [] for row in range(60)}
    entitled = dict.fromkeys(range(60), Fraction(0))
    for second in range(int(result.end_s.max())):
        for pool, gpus in GPUS.items():
            there = active(result, second, np.flatnonzero(jobs.pool == pool))
            for row in there:
                contention[row].append(len(there))
                own = sum(jobs.tenant[other] == jobs.tenant[row] for other in there)
                entitled[row] += min(Fraction(gpus, 2 * own), Fraction(int(jobs.num_gpus[row])))
    for row in range(60):
        jct = result.end_s[row] - jobs.submit_s[row]
        needed = jobs.num_gpus[row] * fmean(contention[row]) / GPUS[jobs.pool[row]]
        alone = jobs.duration_s[row] * max(1.0, needed)
        assert figures.finish_time_ratio[row] == pytest.approx(jct / alone)
        received = jobs.duration_s[row] * jobs.num_gpus[row]
        assert figures.share_received[row] == pytest.approx(received / float(entitled[row]))


@pytest.mark.parametrize("policy", ["fifo", "sjf"])
def test_use_of_the_cluster(policy: str) -> None:
    result = simulated(8, policy)
    jobs, found = result.jobs, summarise(result)
    first, last = int(jobs.submit_s.min()), int(result.end_s.max())
    used = [
        sum(
            int(jobs.num_gpus[row])
            for row in range(60)
            if result.start_s[row] <= second < result.end_s[row]
        )
        for second in range(first, last)
    ]
    assert found.whole.utilisation == pytest.approx(fmean(used) / 12)
    till = int(jobs.submit_s.max()) - first
    assert found.submitting.utilisation == pytest.approx(fmean(used[:till]) / 12)
    assert found.makespan_s == last - first


def test_spreads_by_class_are_those_of_its_jobs_alone() -> None:
    result = simulated(9, "fifo")
    jobs, found = result.jobs, summarise(result)
    for told in found.by_tenant:
        rows = np.flatnonzero(jobs.tenant == int(told.name[1:]))
        jct = sorted((result.end_s - jobs.submit_s)[rows].tolist())
        assert told.jobs == len(rows)
        assert told.jct_s.mean == pytest.approx(fmean(jct))
        assert told.jct_s.median == jct[-(-len(jct) // 2) - 1]
        assert told.jct_s.p90 == jct[-(-9 * len(jct) // 10) - 1]
    assert sum(told.gpu_hours for told in found.by_size) == pytest.approx(found.all_jobs.gpu_hours)


def test_another_policy_has_other_figures() -> None:
    """Negative control: the recomputation can tell two simulations apart."""
    fifo, sjf = (summarise(simulated(7, name)).all_jobs for name in ("fifo", "sjf"))
    assert fifo.jct_s.mean != sjf.jct_s.mean
    assert fifo.finish_time_ratio.mean != sjf.finish_time_ratio.mean
    assert fifo.gpu_hours == sjf.gpu_hours
