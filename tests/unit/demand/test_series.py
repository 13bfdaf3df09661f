"""A demand over time: what is known when, longer steps, gaps."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gsched.demand.series import DemandSeries

NAN = float("nan")


def series(values: list[float], start: int = 0, step_s: int = 60) -> DemandSeries:
    return DemandSeries(start, step_s, np.array(values))


def test_a_value_is_known_when_its_step_has_ended():
    told = series([1, 2, 3], start=120)
    assert [told.row_before(moment) for moment in (0, 179, 180, 299, 300, 9999)] == [
        -1, -1, 0, 1, 2, 2,
    ]  # fmt: skip
    assert told.known_at(240).values.tolist() == [1, 2]
    assert told.known_at(239).values.tolist() == [1]
    assert told.end == 300


def test_longer_steps_tell_the_peak_of_what_is_known():
    told = series([5, 1, NAN, 2, NAN, NAN, 7, 3])
    assert told.coarser(120).values[[0, 1, 3]].tolist() == [5, 2, 7]
    assert np.isnan(told.coarser(120).values[2])
    assert told.coarser(240).values.tolist() == [5, 7]
    assert len(series([]).coarser(120)) == 0


def test_longer_steps_begin_at_whole_multiples_and_leave_out_one_that_has_not_ended():
    told = series([4, 9, 1, 2, 3], start=180)  # minutes 3 to 7
    longer = told.coarser(300)
    assert (longer.start, longer.values.tolist()) == (0, [9])
    assert series([4, 9, 1, 2, 3, 8, 8], start=180).coarser(300).values.tolist() == [9, 8]


def test_steps_that_do_not_fit_are_refused():
    with pytest.raises(ValueError, match="do not fit"):
        series([1, 2]).coarser(90)
    with pytest.raises(ValueError, match="step"):
        series([1], step_s=0)


def test_a_gap_is_filled_by_the_value_before_it():
    filled = series([NAN, 3, NAN, NAN, 0, NAN]).filled()
    assert np.isnan(filled[0])
    assert filled[1:].tolist() == [3, 3, 3, 0, 0]


@given(
    st.lists(st.integers(0, 50), min_size=1, max_size=60),
    st.integers(0, 20).map(lambda n: n * 60),
    st.integers(0, 5000),
)
def test_what_is_known_in_longer_steps_does_not_depend_on_what_comes(values, start, moment):
    whole = series([float(v) for v in values], start)
    early = whole.known_at(moment).coarser(300)
    late = whole.coarser(300).known_at(moment)
    assert early.values.tolist() == late.values.tolist()
