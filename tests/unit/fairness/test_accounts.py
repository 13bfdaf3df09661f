"""Both accounts against their definitions, told second by second, and what must hold of them."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.fairness_books import END_S, Past, books, pasts, second_by_second

from gsched.fairness.books import Books, Quotas, Stretches
from gsched.fairness.metric import metric_account, tenant_intervals
from gsched.fairness.rule import rule_account

windows = st.tuples(st.integers(0, END_S), st.integers(0, END_S)).map(sorted)


def floats(values) -> list[float]:
    return [float(value) for value in values]


@given(past=pasts(), window=windows)
def test_they_are_what_the_definitions_say(past: Past, window: list[int]) -> None:
    plain, of = second_by_second(past, *window), books(past)
    metric, rule = metric_account(of, *window), rule_account(of, *window)
    assert metric.tenant_received.tolist() == floats(plain.received)
    assert metric.job_received.tolist() == floats(plain.job_received)
    np.testing.assert_allclose(metric.tenant_entitled, floats(plain.entitled), atol=1e-9)
    np.testing.assert_allclose(metric.job_entitled, floats(plain.job_entitled), atol=1e-9)
    assert rule.received.tolist() == floats(plain.received)
    assert rule.due.tolist() == floats(plain.due)


@given(past=pasts(), window=windows)
def test_nothing_is_lost_or_made(past: Past, window: list[int]) -> None:
    of = books(past)
    metric, rule = metric_account(of, *window), rule_account(of, *window)
    for tenant in range(past.tenants):
        mine = of.tenant == tenant
        assert metric.job_received[mine].sum() == metric.tenant_received[tenant]
        within = metric.tenant_entitled[tenant] + 1e-9  # caps of jobs leave some of it to nobody
        assert metric.job_entitled[mine].sum() <= within
    assert (metric.tenant_entitled <= rule.due + 1e-9).all()
    assert (rule.owed_gpu_s == rule.due - metric.tenant_received).all()


@given(past=pasts(), seed=st.integers(0, 2**32 - 1))
def test_which_row_comes_first_changes_no_bit(past: Past, seed: int) -> None:
    one, other = books(past), books(past, np.random.default_rng(seed))
    for account in (metric_account, rule_account):
        told, again = account(one, 0, END_S), account(other, 0, END_S)
        for name in told.__dataclass_fields__:
            assert getattr(told, name).tobytes() == getattr(again, name).tobytes()


@given(past=pasts())
def test_what_is_told_twice_counts_once(past: Past) -> None:
    of = books(past)
    twice = Books(of.tenants, of.tenant, of.weight, doubled(of.asked), doubled(of.held), of.quotas)
    for account in (metric_account, rule_account):
        told, again = account(of, 0, END_S), account(twice, 0, END_S)
        for name in told.__dataclass_fields__:
            np.testing.assert_array_equal(getattr(told, name), getattr(again, name))


def doubled(of: Stretches) -> Stretches:
    return Stretches(*(np.tile(column, 2) for column in vars(of).values()))


@given(past=pasts(), cut=st.integers(0, END_S))
def test_two_windows_make_one(past: Past, cut: int) -> None:
    of = books(past)
    for account in (metric_account, rule_account):
        first, then, whole = account(of, 0, cut), account(of, cut, END_S), account(of, 0, END_S)
        for name in whole.__dataclass_fields__:
            together = getattr(first, name) + getattr(then, name)
            np.testing.assert_allclose(together, getattr(whole, name), atol=1e-9)


@given(past=pasts(), edges=st.sets(st.integers(0, END_S), min_size=2))
def test_intervals_are_windows(past: Past, edges: set[int]) -> None:
    of, cuts = books(past), sorted(edges)
    told = tenant_intervals(of, np.array(cuts, dtype=float))
    for number, (begin, end) in enumerate(pairwise(cuts)):
        one = metric_account(of, begin, end)
        np.testing.assert_allclose(told.received[:, number], one.tenant_received, atol=1e-9)
        np.testing.assert_allclose(told.entitled[:, number], one.tenant_entitled, atol=1e-9)


def stretches(*rows: tuple[int, float, float, float]) -> Stretches:
    """Of (job, begin, end, GPUs)."""
    table = np.array(rows, dtype=np.float64).reshape(-1, 4)
    return Stretches(table[:, 0].astype(np.int64), *table[:, 1:].T.copy())


def one_tenant(asked: Stretches, held: Stretches, quota: float = 4.0, jobs: int = 1) -> Books:
    return Books(
        ("lab",), np.zeros(jobs, np.int64), np.ones(jobs), asked, held, Quotas.fixed([quota])
    )


def test_a_lone_small_job_that_runs_all_the_time_is_in_no_loss() -> None:
    always = stretches((0, 0, 100, 1))
    account = metric_account(one_tenant(always, always), 0, 100)
    assert (account.r_job[0], account.r_tenant[0]) == (1.0, 1.0)


def test_the_two_accounts_differ_where_a_quota_is_not_asked_for() -> None:
    """It has lent 300 GPU-seconds: no loss, and yet they are due."""
    always = stretches((0, 0, 100, 1))
    of = one_tenant(always, always)
    assert metric_account(of, 0, 100).r_tenant[0] == 1.0
    assert rule_account(of, 0, 100).r_quota[0] == 0.25
    assert rule_account(of, 0, 100).owed_gpu_s[0] == 300.0


def test_who_asks_for_nothing_has_no_ratio_and_no_unfair_interval() -> None:
    nothing = stretches()
    of = one_tenant(nothing, nothing)
    assert np.isnan(metric_account(of, 0, 10).r_tenant[0])
    assert tenant_intervals(of, np.array([0.0, 5.0, 10.0])).unfair_share is None
    assert np.isnan(rule_account(one_tenant(nothing, nothing, 0.0), 0, 10).r_quota[0])


@pytest.mark.parametrize(("held_until", "share"), [(94.0, 1.0), (95.0, 0.0)])
def test_an_interval_is_unfair_below_95_percent(held_until: float, share: float) -> None:
    of = one_tenant(stretches((0, 0, 100, 1)), stretches((0, 0, held_until, 1)))
    assert tenant_intervals(of, np.array([0.0, 100.0])).unfair_share == share


def test_a_clock_that_went_back_books_no_second_twice() -> None:
    """The second attempt claims to have begun before the first had ended."""
    held = stretches((0, 0, 60, 2), (0, 50, 80, 1))
    account = metric_account(one_tenant(held, held), 0, 100)
    assert account.job_received[0] == 2 * 60 + 20


@pytest.mark.parametrize("rows", [(0, 1), (1, 0)])
def test_of_two_attempts_that_begin_at_once_the_shorter_comes_first(rows: tuple[int, int]) -> None:
    told = [(0, 0, 60, 1), (0, 0, 80, 3)]
    held = stretches(*(told[row] for row in rows))
    assert metric_account(one_tenant(held, held), 0, 100).job_received[0] == 60 + 20 * 3


@pytest.mark.parametrize("rows", [(0, 1, 2), (2, 1, 0)])
def test_a_quota_that_changes_holds_from_then_on(rows: tuple[int, ...]) -> None:
    always = stretches((0, 0, 100, 8))
    since, gpus = np.array([0.0, 40.0, 40.0]), np.array([2.0, 1.0, 6.0])
    quotas = Quotas(np.zeros(3, np.int64), since[list(rows)], gpus[list(rows)])
    of = Books(("lab",), np.zeros(1, np.int64), np.ones(1), always, always, quotas)
    due = 40 * 2 + 60 * 6  # of two at once the greater
    assert rule_account(of, 0, 100).due[0] == due
    assert metric_account(of, 0, 100).tenant_entitled[0] == due
