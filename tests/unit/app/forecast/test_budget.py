"""Processor time comes at a share, is saved up to a bound, and may be owed up to the same bound."""

from __future__ import annotations

import pytest

from gsched.app.forecast.budget import CpuBudget


class Purse:
    """A budget of a tenth of a processor, with at most 20 s saved; `now` is its clock."""

    def __init__(self) -> None:
        self.now = 100.0
        self.budget = CpuBudget(0.1, 20.0, lambda: self.now)

    def after(self, seconds: float) -> float:
        self.now += seconds
        return self.budget.left_s


@pytest.fixture
def purse() -> Purse:
    return Purse()


def test_it_begins_with_all_saved_and_saves_no_more(purse: Purse) -> None:
    assert purse.after(0) == 20
    assert purse.after(100_000) == 20
    purse.budget.spend(5)
    assert purse.after(0) == 15
    assert purse.after(10) == pytest.approx(16)
    assert purse.after(100_000) == 20


def test_what_is_saved_may_be_spent_and_what_takes_longer_waits_until_all_is_saved(
    purse: Purse,
) -> None:
    assert purse.budget.allows(50)
    purse.budget.spend(12)
    assert purse.budget.allows(8)
    assert not purse.budget.allows(8.1)
    assert not purse.budget.allows(50)
    purse.after(119)
    assert not purse.budget.allows(50)
    purse.after(2)
    assert purse.budget.allows(50)


def test_the_debt_is_as_large_as_the_savings_at_most(purse: Purse) -> None:
    purse.budget.spend(39)
    assert purse.after(0) == -19
    assert not purse.budget.allows(0.1)
    assert purse.budget.allows(0.1, on_credit=True)
    purse.budget.spend(2)
    assert not purse.budget.allows(0.1, on_credit=True)
    purse.after(11)
    assert purse.budget.allows(0.1, on_credit=True)


def test_in_the_long_run_no_more_than_the_share_is_spent(purse: Purse) -> None:
    spent_s = 0.0
    for _ in range(10_000):
        purse.now += 1
        if purse.budget.allows(7):
            purse.budget.spend(7)
            spent_s += 7
    assert 0.1 * 10_000 - 7 <= spent_s <= 0.1 * 10_000 + 20
