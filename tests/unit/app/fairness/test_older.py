"""Hours of which the jobs are gone, put into a course of wider steps."""

from __future__ import annotations

from dataclasses import fields
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from gsched.app.fairness.older import OlderHours
from gsched.fairness.hours import IntervalSums
from gsched.model.accounts import FairnessEntry

HOUR_S = 3600
T0 = 1000 * HOUR_S
BOOKS: Any = SimpleNamespace(tenants=("a", "b"))


def hour(number: int, received: float, tenant: str = "a") -> FairnessEntry:
    """That of T0 + `number` hours."""
    return FairnessEntry("c", tenant, T0 + number * HOUR_S, HOUR_S, received, 2.0, 3.0, 4.0, 5.0)


def nothing(tenants: int, edges: Any) -> IntervalSums:
    return IntervalSums(*(np.zeros((tenants, len(edges) - 1)) for _ in fields(IntervalSums)))


@pytest.mark.parametrize("step_h", [1, 3, 12])
def test_an_hour_counts_in_the_step_in_which_it_lies(step_h: int) -> None:
    entries = [hour(n, 2.0**n) for n in range(12)]
    older = OlderHours(BOOKS, entries, T0 + 12 * HOUR_S)
    edges = np.arange(T0, T0 + 12 * HOUR_S + 1, step_h * HOUR_S, dtype=np.float64)
    found = older.added(nothing(2, edges), edges)
    steps = [sum(2.0 ** (at + n) for n in range(step_h)) for at in range(0, 12, step_h)]
    assert found.received.tolist() == [steps, [0.0] * len(steps)]
    assert found.due[0].tolist() == [5.0 * step_h] * len(steps)
    assert found.entitled[0].tolist() == [2.0 * step_h] * len(steps)


def test_hours_that_the_window_cuts_count_in_no_step() -> None:
    older = OlderHours(BOOKS, [hour(n, 1.0) for n in range(8)], T0 + 8 * HOUR_S)
    edges = np.array([T0 + HOUR_S / 2, T0 + 3 * HOUR_S, T0 + 5.5 * HOUR_S])
    found = older.added(nothing(2, edges), edges)
    assert found.received[0].tolist() == [2.0, 2.0]


def test_an_hour_of_which_the_books_know_a_part_is_theirs() -> None:
    entries = [hour(0, 8.0), hour(1, 1.0), hour(2, 1.0), hour(1, 4.0, "gone")]
    older = OlderHours(BOOKS, entries, T0 + 1.5 * HOUR_S)
    assert older.tenants == ("a", "b", "gone")
    assert older.faded(T0 + 9 * HOUR_S, 1e12).tolist() == pytest.approx([8.0, 0.0, 0.0])
    older = OlderHours(BOOKS, entries, T0 + 2 * HOUR_S)
    assert older.faded(T0 + 9 * HOUR_S, 1e12).tolist() == pytest.approx([9.0, 0.0, 4.0])
