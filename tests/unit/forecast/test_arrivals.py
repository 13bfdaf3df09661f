"""Jobs to come are those of past days, at the same hours."""

from __future__ import annotations

import numpy as np
import pytest

from gsched.forecast.arrivals import DAY_S, PastDays

MONDAY = 4 * DAY_S + 700 * 7 * DAY_S
"""Midnight (UTC) of a Monday."""
NOW = MONDAY + 9 * 3_600.0


def days(submitted_at: np.ndarray, begin: float, as_of: float = NOW) -> PastDays:
    return PastDays(as_of, np.asarray(submitted_at, dtype=np.float64), begin)


def test_they_come_at_the_hours_at_which_they_came() -> None:
    past = NOW - np.array([3_600.0, DAY_S + 7_200.0, 2 * DAY_S])
    for sample in days(past, NOW - 3 * DAY_S).draw(20, 2 * DAY_S, seed=1):
        hours = (NOW + sample.submit_s - past[sample.rows]) / DAY_S
        assert hours == pytest.approx(np.round(hours))
        assert (sample.submit_s >= 0).all()
        assert (np.diff(sample.submit_s) >= 0).all()
        assert (sample.submit_s < 2 * DAY_S).all()


def test_a_day_comes_whole() -> None:
    """Three days with ten, no and two jobs: each day ahead is one of them."""
    now = NOW + 3 * DAY_S
    past = np.concatenate((now - np.linspace(1, 80_000, 10), now - 2 * DAY_S - np.array([5, 6])))
    drawn = days(past, now - 3 * DAY_S, as_of=now).draw(40, DAY_S, seed=1)
    sets = {tuple(sorted(sample.rows.tolist())) for sample in drawn}
    assert sets == {tuple(range(10)), (), (10, 11)}


def test_days_are_drawn_as_often_as_there_are() -> None:
    """Five working days, in 100 samples twenty times each; the first of each sample told apart."""
    past = NOW - DAY_S * np.arange(14) - 60.0
    drawn = days(past, NOW - 14 * DAY_S).draw(100, DAY_S, seed=3)
    counts = np.bincount([int(sample.rows[0]) for sample in drawn], minlength=14)
    working = [n for n in range(14) if _weekday(NOW - (n + 1) * DAY_S) < 5]
    assert counts.sum() == 100
    assert set(np.flatnonzero(counts)) == set(working)
    assert counts[working].tolist() == pytest.approx([10] * 10, abs=1)


def _weekday(at: float) -> int:
    return int((at // DAY_S + 3) % 7)


def test_a_weekend_is_drawn_from_weekends() -> None:
    friday = NOW + 4 * DAY_S
    past = friday - DAY_S * np.arange(14) - 60.0
    drawn = days(past, friday - 14 * DAY_S, as_of=friday).draw(50, 3 * DAY_S, seed=3)
    for sample in drawn:
        begins = friday - (sample.rows + 1) * DAY_S
        assert [_weekday(at) >= 5 for at in begins] == [False, True, True]


def test_without_a_weekend_in_the_past_any_day_will_do() -> None:
    drawn = days(NOW - np.array([60.0]), NOW - DAY_S).draw(3, 7 * DAY_S, seed=0)
    assert [len(sample.rows) for sample in drawn] == [7, 7, 7]


def test_less_than_a_day_comes_again_and_again() -> None:
    """Six hours are known: they are repeated four times a day."""
    drawn = days(NOW - np.array([3_600.0]), NOW - 6 * 3_600).draw(1, DAY_S, seed=0)[0]
    assert (drawn.submit_s / 3_600).tolist() == [5.0, 11.0, 17.0, 23.0]
    assert len(set(drawn.numbers.tolist())) == 4


def test_the_part_of_a_day_that_is_left_over_is_not_used() -> None:
    """1.5 days: the jobs of the first half day came in no whole one."""
    past = NOW - np.array([60.0, 1.2 * DAY_S])
    drawn = days(past, NOW - 1.5 * DAY_S).draw(9, 5 * DAY_S, seed=0)
    assert {row for sample in drawn for row in sample.rows.tolist()} == {0}


def test_nobody_comes_where_nobody_came() -> None:
    for begin in (NOW - DAY_S, NOW, None):
        drawn = PastDays(NOW, np.zeros(0), begin).draw(2, DAY_S, seed=0)
        assert [len(sample.rows) for sample in drawn] == [0, 0]


def test_the_seed_decides() -> None:
    past = NOW - DAY_S * np.arange(14) - 60.0
    made = days(past, NOW - 14 * DAY_S)

    def rows(seed: int) -> list[list[int]]:
        return [sample.rows.tolist() for sample in made.draw(8, 7 * DAY_S, seed)]

    assert rows(5) == rows(5)
    assert rows(5) != rows(6)
    assert rows(5)[0] != rows(5)[1]
