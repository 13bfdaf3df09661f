"""What no simulation may break, whatever the jobs, the policy and the path that runs it."""

from __future__ import annotations

import functools
import itertools
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.sim_checks import busy_gpus, check
from support.sim_jobs import columns_of, sim_jobs
from support.sim_strategies import placements, workloads

from gsched.policy.registry import POLICIES, load
from gsched.sim.cluster import SimCluster
from gsched.sim.jobs import SimJobs
from gsched.sim.result import SimResult
from gsched.sim.rules import Costs, Failures, Placement, Scheduler, Sharing, SimRules
from gsched.sim.run import simulate

FREE = SimRules()
COSTLY = SimRules(costs=Costs(2.0, 3.0, 4.0, 5.0, 6.0))
FAILING = SimRules(seed=3, failures=Failures(400.0, 20.0, 7.0))
SLURM = SimRules(scheduler=Scheduler.SLURM)
EVERY = pytest.mark.parametrize("name", POLICIES)


@EVERY
@given(work=workloads(), placement=placements, rules=st.sampled_from([FREE, COSTLY, SLURM]))
@settings(max_examples=40)
def test_no_job_is_lost_and_no_gpu_given_twice(
    name: str, work: tuple[SimJobs, SimCluster], placement: Placement, rules: SimRules
) -> None:
    check(simulate(*work, load(name), replace(rules, placement=placement)))


@EVERY
@given(work=workloads())
@settings(max_examples=10)
def test_failures_lose_work_and_no_job(name: str, work: tuple[SimJobs, SimCluster]) -> None:
    check(simulate(*work, load(name), FAILING))


@pytest.mark.parametrize("name", ["fifo", "qssf", "multifactor", "yarn-cs"])
@given(work=workloads(sizes=(1, 2, 8)), seed=st.integers(0, 9))
@settings(max_examples=25)
def test_jobs_that_share_lose_speed_and_no_work(
    name: str, work: tuple[SimJobs, SimCluster], seed: int
) -> None:
    jobs, cluster = work
    draw = np.random.default_rng(seed)
    speeds = draw.uniform(0.3, 1.0, (2, 2))
    sharing = SimRules(sharing=Sharing(("a", "b"), speeds, min_speed=0.5))
    classes = draw.integers(-1, 2, len(jobs)).astype(np.int32)
    check(simulate(replace(jobs, share_class=classes), cluster, load(name), sharing))


@EVERY
@given(work=workloads(sizes=(1,)))
@settings(max_examples=15)
def test_no_gpu_idles_while_a_job_waits_that_needs_just_one(
    name: str, work: tuple[SimJobs, SimCluster]
) -> None:
    jobs, _ = work
    one_pool = replace(jobs, pool=np.zeros_like(jobs.pool))
    small = SimCluster.uniform({"p": 1}, 3)
    result = simulate(one_pool, small, load(name), FREE)
    for at_s in np.unique(np.concatenate((jobs.submit_s, result.end_s))):
        there = int(((jobs.submit_s <= at_s) & (at_s < result.end_s)).sum())
        assert busy_gpus(result, at_s) == min(3, there)


@pytest.mark.parametrize("name", ["fifo", "sjf", "qssf", "fewest-gpus"])
@given(work=workloads())
@settings(max_examples=25)
def test_only_a_head_that_does_not_fit_blocks(name: str, work: tuple[SimJobs, SimCluster]) -> None:
    """On one node that is large enough for each: counts tell what fits."""
    jobs = replace(work[0], pool=np.zeros_like(work[0].pool))
    node = SimCluster.uniform({"p": 1}, 16)
    result = simulate(jobs, node, load(name), FREE)
    keys = {
        "fifo": jobs.submit_s,
        "sjf": jobs.duration_s,
        "qssf": jobs.predicted_duration_s * jobs.num_gpus,
        "fewest-gpus": jobs.num_gpus,
    }[name]
    for at_s in np.unique(np.concatenate((jobs.submit_s, result.end_s))):
        waiting = np.flatnonzero((jobs.submit_s <= at_s) & (at_s < result.start_s))
        if len(waiting):
            head = waiting[np.lexsort((waiting, keys[waiting]))[0]]
            assert jobs.num_gpus[head] > 16 - busy_gpus(result, at_s)


@given(work=workloads())
@settings(max_examples=40)
def test_srtf_leaves_nothing_idle_that_somebody_could_use(
    work: tuple[SimJobs, SimCluster],
) -> None:
    jobs = replace(work[0], pool=np.zeros_like(work[0].pool))
    result = simulate(jobs, SimCluster.uniform({"p": 1}, 16), load("srtf"), FREE)
    segments = result.segments
    for at_s in np.unique(np.concatenate((jobs.submit_s, segments.end_s))):
        runs = segments.job[(segments.start_s <= at_s) & (at_s < segments.end_s)]
        there = (jobs.submit_s <= at_s) & (at_s < result.end_s)
        waiting = np.setdiff1d(np.flatnonzero(there), runs)
        assert (jobs.num_gpus[waiting] > 16 - busy_gpus(result, at_s)).all()


@EVERY
@given(work=workloads(), rules=st.sampled_from([FREE, COSTLY, SLURM]))
@settings(max_examples=10)
def test_what_pools_and_tenants_are_called_and_how_they_are_numbered_changes_nothing(
    name: str, work: tuple[SimJobs, SimCluster], rules: SimRules
) -> None:
    jobs, cluster = work
    pools, tenants = len(cluster.pools), len(jobs.tenants)
    turned = replace(
        jobs,
        pool=pools - 1 - jobs.pool,
        tenant=(jobs.tenant + 1) % tenants,
        tenants=tuple(f"x{(code - 1) % tenants}" for code in range(tenants)),
    )
    one = simulate(jobs, cluster, load(name), rules)
    other = simulate(turned, cluster, load(name), rules)
    np.testing.assert_array_equal(one.start_s, other.start_s)
    np.testing.assert_array_equal(one.end_s, other.end_s)


@EVERY
@pytest.mark.parametrize("rules", [FREE, COSTLY, FAILING, SLURM])
def test_a_rerun_is_the_same_to_the_byte(name: str, rules: SimRules) -> None:
    jobs, cluster = crowd()
    runs = [columns_of(simulate(jobs, cluster, load(name), rules)) for _ in range(2)]
    assert {k: v.tobytes() for k, v in runs[0].items()} == {
        k: v.tobytes() for k, v in runs[1].items()
    }


@EVERY
def test_another_seed_gives_other_failures(name: str) -> None:
    jobs, cluster = crowd()
    ends = [
        simulate(jobs, cluster, load(name), replace(FAILING, seed=seed)).end_s for seed in (1, 2)
    ]
    assert not np.array_equal(*ends)


def crowd() -> tuple[SimJobs, SimCluster]:
    """Sixty jobs that do not fit together."""
    draw = np.random.default_rng(7)
    jobs = sim_jobs(
        np.sort(draw.integers(0, 300, 60)),
        durations := draw.integers(1, 90, 60),
        num_gpus=draw.choice([1, 1, 2, 4, 8, 16], 60),
        tenant=draw.integers(0, 3, 60),
        pool=draw.integers(0, 2, 60),
        predicted_duration_s=durations * draw.uniform(0.5, 2.0, 60),
        deadline_s=draw.integers(100, 900, 60),
        time_limit_s=2.0 * durations,
    )
    return jobs, SimCluster.uniform({"a": 2, "b": 2})


# -- shortest remaining time first is the best that can be done --------------------------------


@given(
    st.lists(st.tuples(st.integers(0, 4), st.integers(1, 4)), min_size=1, max_size=4).map(sorted)
)
@settings(max_examples=150)
def test_srtf_has_the_least_mean_jct_that_any_schedule_has(work: list[tuple[int, int]]) -> None:
    """One-GPU jobs, one GPU, preemption that costs nothing; every schedule is tried."""
    jobs = sim_jobs([submit for submit, _ in work], [duration for _, duration in work])
    result = simulate(jobs, SimCluster.uniform({"p": 1}, 1), load("srtf"), FREE)
    total_jct_s = float((result.end_s - jobs.submit_s).sum())
    assert total_jct_s == least_total_jct(tuple(s for s, _ in work), tuple(d for _, d in work), 0)


@functools.cache
def least_total_jct(submits: tuple[int, ...], left: tuple[int, ...], now: int) -> float:
    """The least sum of JCTs over all ways to give each second to one of the jobs."""
    if not any(left):
        return 0.0
    there = [n for n, rest in enumerate(left) if rest and submits[n] <= now]
    if not there:
        return least_total_jct(submits, left, now + 1)
    best = float("inf")
    for chosen in there:
        rest = tuple(seconds - (n == chosen) for n, seconds in enumerate(left))
        ends = now + 1 - submits[chosen] if rest[chosen] == 0 else 0
        best = min(best, ends + least_total_jct(submits, rest, now + 1))
    return best


def test_the_search_finds_what_is_known() -> None:
    """Two jobs of 1 s and 3 s together: 1 + 4; and one that is overtaken by a shorter one."""
    assert least_total_jct((0, 0), (1, 3), 0) == 5
    assert least_total_jct((0, 1), (3, 1), 0) == 4 + 1


@pytest.mark.parametrize("name", ["fifo", "sjf"])
def test_without_preemption_it_can_be_missed(name: str) -> None:
    """The control: what the search judges is not true of every order."""
    jobs = sim_jobs([0, 1], [4, 1])
    result = simulate(jobs, SimCluster.uniform({"p": 1}, 1), load(name), FREE)
    assert float((result.end_s - jobs.submit_s).sum()) > least_total_jct((0, 1), (4, 1), 0)


def test_sjf_is_the_best_order_of_jobs_that_come_together() -> None:
    durations = [5, 1, 4, 2]
    jobs = sim_jobs([0] * 4, durations)
    result = simulate(jobs, SimCluster.uniform({"p": 1}, 1), load("sjf"), FREE)
    sums = [sum(itertools.accumulate(order)) for order in itertools.permutations(durations)]
    assert float(result.end_s.sum()) == min(sums)


# -- what judges all of this must be able to fail ----------------------------------------------


def run_of_crowd() -> SimResult:
    return simulate(*crowd(), load("srtf"), COSTLY)


@pytest.mark.parametrize(
    ("name", "row", "by"),
    [("start_s", 5, -400.0), ("end_s", 5, -400.0), ("end_s", 5, np.nan), ("run_s", 5, 1.0)],
)
def test_a_wrong_column_is_noticed(name: str, row: int, by: float) -> None:
    result = run_of_crowd()
    check(result)
    getattr(result, name)[row] += by
    with pytest.raises(AssertionError):
        check(result)


@pytest.mark.parametrize(
    ("name", "by"), [("start_s", -1.0), ("end_s", 1.0), ("node", 2), ("job", 1)]
)
def test_a_wrong_segment_is_noticed(name: str, by: float) -> None:
    result = run_of_crowd()
    full = int(np.argmax(result.segments.start_s > 50))
    getattr(result.segments, name)[full] += by
    with pytest.raises((AssertionError, IndexError)):
        check(result)


def test_a_gpu_too_many_is_noticed() -> None:
    result = run_of_crowd()
    smaller = SimCluster.uniform({"a": 2, "b": 2}, 7)
    with pytest.raises(AssertionError):
        check(replace(result, cluster=smaller))
