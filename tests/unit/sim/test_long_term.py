"""Long-term fairness over time: tenants with quotas, by hand and against the books."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.sim_jobs import columns_of, sim_jobs
from support.sim_strategies import workloads

from gsched.fairness.books import Quotas
from gsched.fairness.metric import metric_account, tenant_intervals
from gsched.policy.base import Policy
from gsched.policy.ltgf import Ltgf
from gsched.policy.registry import SiteFacts, load
from gsched.sim.cluster import SimCluster
from gsched.sim.jobs import ANY, SimJobs
from gsched.sim.long_term import books_of
from gsched.sim.metrics import summarise
from gsched.sim.replay import run_rounds
from gsched.sim.result import SimResult
from gsched.sim.rules import Costs, SimRules
from gsched.sim.run import simulate

HOUR_S, DAY_S = 3600, 86400
EQUAL = Quotas.fixed([1.0, 1.0, 0.0])
SIX_GPUS = SimCluster.uniform({"p": 1}, gpus_a_node=6)
RULES = SimRules(sample_s=DAY_S)
COSTLY = replace(RULES, round_s=10.0, costs=Costs(0.0, 0.0, 10.0, 30.0, 50.0))


def received(result: SimResult, until_s: float) -> list[float]:
    """GPUs of each tenant, on average from 0 on."""
    quotas = Quotas.fixed(np.full(len(result.jobs.tenants), 1.0))
    books = books_of(result, quotas, float(np.nanmax(result.end_s)))
    return (metric_account(books, 0, until_s).tenant_received / until_s)[:2].tolist()


# -- the paper's example: six GPUs, two tenants, one of which asks for more than it needs -----


def asks(honest_gpus: int, other_gpus: int) -> SimJobs:
    """Two tenants with a job for days each. Three of the six GPUs are each one's quota."""
    return sim_jobs([0, 0], [30 * DAY_S] * 2, num_gpus=[honest_gpus, other_gpus], tenant=[0, 1])


@pytest.mark.parametrize("name", ["themis", "ltgf"])
def test_who_asks_for_its_quota_has_it(name: str) -> None:
    assert received(simulate(asks(3, 3), SIX_GPUS, load(name), RULES), DAY_S) == [3, 3]


def test_finish_time_fairness_rewards_inflated_demand() -> None:
    """The same time for each: who asks for six has twice as much as who asks for three."""
    result = simulate(asks(3, 6), SIX_GPUS, load("themis"), RULES)
    honest, inflated = received(result, 10 * DAY_S)
    assert inflated == pytest.approx(2 * honest, rel=0.02)
    assert honest == pytest.approx(1.5, rel=0.02)


def test_long_term_fairness_does_not() -> None:
    """The same GPU-time for each: inflating the demand is a loss for who does it."""
    result = simulate(asks(3, 6), SIX_GPUS, load("ltgf"), RULES)
    honest, inflated = received(result, 10 * DAY_S)
    assert inflated == pytest.approx(honest, rel=0.02)
    assert inflated < 3.0


# -- quotas -----------------------------------------------------------------------------------


def greedy(policy: Policy) -> SimResult:
    """Three tenants; the first has many more jobs than the others."""
    jobs = sim_jobs([0] * 40, [5 * DAY_S] * 40, num_gpus=1, tenant=[0] * 28 + [1] * 6 + [2] * 6)
    return simulate(jobs, SIX_GPUS, policy, COSTLY)


def test_shares_come_to_the_quotas_whoever_asks_for_more() -> None:
    quotas = {"t0": 1.0, "t1": 2.0, "t2": 3.0}
    result = greedy(Ltgf(quotas))
    assert result.path == "ordered"
    assert result.preemptions.sum() > 0
    books = books_of(result, Quotas.fixed([1.0, 2.0, 3.0, 0.0]), float(np.nanmax(result.end_s)))
    told = tenant_intervals(books, np.arange(0, 10 * DAY_S + 1, DAY_S))
    np.testing.assert_allclose(told.received[:3] / DAY_S, [[1] * 10, [2] * 10, [3] * 10], rtol=0.03)
    fifo = greedy(load("fifo"))
    books = books_of(fifo, books.quotas, float(np.nanmax(fifo.end_s)))
    assert metric_account(books, 0, 5 * DAY_S).r_tenant[:3].tolist() == [6.0, 0.0, 0.0]


def test_a_lent_quota_comes_back_within_a_lease() -> None:
    jobs = sim_jobs([0] * 6 + [DAY_S] * 3, [9 * DAY_S] * 9, num_gpus=1, tenant=[0] * 6 + [1] * 3)
    result = simulate(jobs, SIX_GPUS, Ltgf(), RULES)
    assert (result.start_s[6:] - DAY_S).max() <= 900


def test_the_jobs_of_a_tenant_share_what_it_has() -> None:
    """Six jobs on three GPUs of the quota, of one and of two GPUs: none gets more than its part."""
    jobs = sim_jobs(
        [0] * 6 + [0], [9 * DAY_S] * 7, num_gpus=[1, 1, 1, 1, 1, 1, 6], tenant=[0] * 6 + [1]
    )
    result = simulate(jobs, SIX_GPUS, Ltgf({"t0": 1, "t1": 1}), RULES)
    books = books_of(result, Quotas.fixed([3.0, 3.0, 0.0]), float(np.nanmax(result.end_s)))
    account = metric_account(books, 0, 4 * DAY_S)
    np.testing.assert_allclose(account.r_job, 1.0, rtol=0.03)


OLD, NEW = 0, 1


def mixed(cluster: SimCluster, *types: int, speed: float = 1.0) -> SimCluster:
    return replace(
        cluster,
        node_type=np.array(types, dtype=np.int32),
        gpu_types=("old", "new"),
        type_speed=np.array([1.0, speed]),
    )


# -- the books --------------------------------------------------------------------------------


def test_the_clean_up_is_neither_asked_for_nor_held() -> None:
    jobs = sim_jobs([0, 10], [100, 100], num_gpus=6)
    rules = replace(RULES, costs=Costs(launch_s=5.0, cleanup_s=20.0))
    result = simulate(jobs, SIX_GPUS, load("fifo"), rules)
    assert result.end_s.tolist() == [105, 230]
    account = metric_account(books_of(result, Quotas.fixed([6.0, 0.0]), 230.0), 0, 300)
    assert account.job_received.tolist() == [6 * 105, 6 * 105]
    assert account.tenant_received[0] == 12 * 105
    assert account.tenant_entitled[0] == 6 * 230


@given(work=workloads(most=12), lease_s=st.sampled_from([7.0, 900.0]))
@settings(max_examples=25, derandomize=True)
def test_what_was_held_is_in_the_books(work: tuple[SimJobs, SimCluster], lease_s: float) -> None:
    result = simulate(*work, load("ltgf", lease_s=lease_s), RULES)
    end_s = float(np.nanmax(result.end_s))
    quotas = Quotas.fixed(np.ones(len(result.jobs.tenants) + 1))
    account = metric_account(books_of(result, quotas, end_s), 0, end_s)
    np.testing.assert_allclose(account.job_received, result.run_s * result.jobs.num_gpus)


@pytest.mark.parametrize(
    ("quotas", "unfair", "share"),
    [
        (None, 0.5, 6 / 3),
        ({"t0": 1, "t1": 5}, 0.5, 6 / 1),  # on any scale
        ({"t0": 5, "t1": 1, "other": 6}, 0.5, 6 / 2.5),
        ({"t0": 3}, 0.0, 1.0),  # who has no quota is wronged by nobody
    ],
)
def test_tenants_are_judged_by_their_quotas(
    quotas: dict[str, float] | None, unfair: float, share: float
) -> None:
    """For ten hours t0 has all GPUs and t1 waits for three of them."""
    jobs = sim_jobs([0, 0, 10 * HOUR_S], [10 * HOUR_S, 1, 1], num_gpus=[6, 3, 6], tenant=[0, 1, 0])
    found = summarise(simulate(jobs, SIX_GPUS, load("fifo"), RULES), SiteFacts(quotas))
    assert found.unfair_intervals == {"tenant_hours": unfair, "tenant_days": None}
    assert found.tenant_shares["t0"] == pytest.approx(share, rel=1e-3)


def test_a_pool_that_lends_pays_for_no_other() -> None:
    """t1 has all of q, of which half is its, and nothing of what is its in p."""
    cluster = SimCluster.uniform({"p": 1, "q": 1}, gpus_a_node=6)
    jobs = sim_jobs(
        [0, 0, 0, 10 * HOUR_S], [10 * HOUR_S] * 4, num_gpus=[6, 6, 6, 6],
        pool=[0, 0, 1, 1], tenant=[0, 1, 1, 0],
    )  # fmt: skip
    found = summarise(simulate(jobs, cluster, load("fifo"), RULES), SiteFacts({"t0": 1, "t1": 1}))
    assert found.unfair_intervals["tenant_hours"] == 0.0  # 6 of 6 for each
    assert found.tenant_shares["t1"] > 1.0


def test_books_and_figures_count_gpus_by_their_worth() -> None:
    """Of 24 in all t0 has 12 and t1, who waits for one, nothing: a new GPU is worth three."""
    cluster = mixed(SimCluster.uniform({"p": 2}, gpus_a_node=6), NEW, OLD)
    jobs = sim_jobs(
        [0, 0, 0, 10 * HOUR_S], [10 * HOUR_S] * 4, num_gpus=[6, 6, 1, 1],
        gpu_type=[NEW, OLD, ANY, ANY], tenant=[0, 0, 1, 1],
    )  # fmt: skip
    result = simulate(jobs, cluster, load("fifo"), RULES)
    site = SiteFacts({"t0": 3, "t1": 1}, {"new": 3.0})
    books = books_of(result, EQUAL, float(result.end_s.max()), site.gpu_weights)
    account = metric_account(books, 0, HOUR_S)
    assert account.job_received.tolist() == [18 * HOUR_S, 6 * HOUR_S, 0, 0]
    assert account.tenant_received.tolist() == [24 * HOUR_S, 0, 0]
    found = summarise(result, site)
    assert found.unfair_intervals["tenant_hours"] == 0.5
    assert found.tenant_shares["t0"] == pytest.approx(24 / 18)


# -- the daemon's rounds and the compiled loop ------------------------------------------------


@given(
    work=workloads(most=10, shortest_s=2),
    quotas=st.lists(st.integers(0, 3), min_size=4, max_size=4).filter(any),
    rules=st.sampled_from([RULES, replace(RULES, costs=Costs(2.0, 3.0, 4.0, 5.0, 6.0)), COSTLY]),
    lease_s=st.sampled_from([60.0, 900.0]),
)
@settings(max_examples=40, derandomize=True)
def test_quotas_do_in_rounds_what_they_do_in_the_loop(
    work: tuple[SimJobs, SimCluster], quotas: list[int], rules: SimRules, lease_s: float
) -> None:
    told = {f"t{number}": float(quota) for number, quota in enumerate(quotas)}
    assert_the_same(*work, Ltgf(told, lease_s=lease_s), rules)


def assert_the_same(jobs: SimJobs, cluster: SimCluster, policy: Policy, rules: SimRules) -> None:
    ordered = columns_of(simulate(jobs, cluster, policy, rules))
    rounds = columns_of(run_rounds(jobs, cluster, policy, rules))
    for name, column in ordered.items():
        np.testing.assert_array_equal(rounds[name], column, err_msg=name)


# -- GPUs of different worth ------------------------------------------------------------------


@given(
    work=workloads(most=10, shortest_s=2),
    kinds=st.lists(st.sampled_from([ANY, OLD, NEW]), min_size=10, max_size=10),
    worth=st.sampled_from([0.0, 0.5, 4.0]),
    rules=st.sampled_from([RULES, replace(RULES, costs=Costs(2.0, 3.0, 4.0, 5.0, 6.0)), COSTLY]),
    speed=st.sampled_from([1.0, 2.0]),
)
@settings(max_examples=40, derandomize=True)
def test_worth_does_in_rounds_what_it_does_in_the_loop(
    work: tuple[SimJobs, SimCluster],
    kinds: list[int],
    worth: float,
    rules: SimRules,
    speed: float,
) -> None:
    jobs, cluster = work
    cluster = mixed(cluster, *([OLD, NEW] * 2)[: cluster.num_nodes], speed=speed)
    asked = np.where(jobs.num_gpus > 8, ANY, kinds[: len(jobs)]).astype(np.int32)
    policy = Ltgf({"t0": 1, "t1": 2, "t2": 1}, {"new": worth}, lease_s=60.0)
    assert_the_same(replace(jobs, gpu_type=asked), cluster, policy, rules)


def test_who_has_the_better_gpus_gets_fewer_of_them() -> None:
    """t1 alone runs on six old GPUs, as two of the new ones are worth: of these it gets two."""
    cluster = mixed(SimCluster.uniform({"new": 1, "old": 1}, gpus_a_node=6), NEW, OLD)
    pool, tenant = [0] * 6 + [0] * 6 + [1] * 6, [0] * 6 + [1] * 12
    jobs = sim_jobs([0] * 18, [30 * DAY_S] * 18, pool=pool, tenant=tenant)
    for weights, gpus in ((None, [6, 6]), ({"new": 3.0}, [4, 8])):
        result = simulate(jobs, cluster, Ltgf(None, weights), RULES)
        assert received(result, 10 * DAY_S) == pytest.approx(gpus, rel=0.02)
