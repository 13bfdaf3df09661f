"""Free GPUs over time, against a list of seconds."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gsched.policy.chronus_calendar import Calendar, Pieces, joined, rounded_up

T = 1000
END = 40
ANY = Pieces()

takes = st.lists(st.tuples(st.integers(0, END), st.integers(0, END), st.integers(1, 3)), max_size=8)


def made(taken, gpus=8):
    """A calendar and, second by second, what should be free."""
    calendar, free = Calendar(T, gpus), [gpus] * END
    for start, end, held in taken:
        calendar.take([(T + start, T + end)], held)
        for second in range(start, end):
            free[second] -= held
    return calendar, free


@given(taken=takes)
def test_what_is_taken_is_free_no_more_until_it_is_given_back(taken):
    calendar, free = made(taken)
    seen = [calendar.least(T + second, T + second + 1) for second in range(END)]
    assert seen == free
    for start, end, held in taken:
        calendar.give([(T + start, T + end)], held)
    assert {free for _, free in calendar.steps()} == {8}


@given(taken=takes, window=st.tuples(st.integers(0, END), st.integers(0, END)))
def test_gpu_seconds_and_seconds_free_are_counted_in_the_window(taken, window):
    calendar, free = made(taken)
    start, end = min(window), max(window)
    inside = free[start:end]
    assert calendar.gpu_seconds((T + start, T + end)) == sum(max(0, gpus) for gpus in inside)
    enough = sum(1 for gpus in inside if gpus >= 5)
    assert calendar.seconds_free(5, (T + start, T + end)) == enough


@given(taken=takes, need_s=st.integers(1, END), gpus=st.integers(1, 8), due=st.integers(1, END))
def test_the_latest_seconds_are_found(taken, need_s, gpus, due):
    calendar, free = made(taken)
    spans = calendar.latest(gpus, need_s, (T, T + due), ANY)
    fitting = [second for second in range(due) if free[second] >= gpus]
    if len(fitting) < need_s:
        assert spans is None
    else:
        held = [second - T for start, end in spans for second in range(start, end)]
        assert held == fitting[-need_s:]


@given(taken=takes, need_s=st.integers(1, END), gpus=st.integers(1, 8), begin=st.integers(0, 9))
def test_the_earliest_seconds_are_found(taken, need_s, gpus, begin):
    calendar, free = made(taken)
    spans = calendar.earliest(gpus, need_s, T + begin, ANY)
    fitting = [s for s in range(begin, END) if free[s] >= gpus] + [*range(END, 3 * END)]
    held = [second - T for start, end in spans for second in range(start, end)]
    assert held == fitting[:need_s]


def test_a_job_that_is_never_free_of_others_has_no_earliest_time():
    calendar = Calendar(T, 4)
    assert calendar.earliest(5, 10, T, ANY) == ()


def test_a_job_that_cannot_be_cut_is_put_in_in_one_piece():
    calendar, _ = made([(20, 30, 8)])
    whole = Pieces(whole=True)
    assert calendar.latest(1, 15, (T, T + END), whole) == ((T + 5, T + 20),)
    assert calendar.latest(1, 21, (T, T + END), whole) is None
    assert calendar.latest(1, 15, (T, T + END), ANY) == ((T + 15, T + 20), (T + 30, T + 40))
    assert calendar.earliest(1, 21, T, whole) == ((T + 30, T + 51),)


def test_going_on_after_a_break_costs_time_and_short_rooms_are_left():
    calendar, _ = made([(20, 30, 8), (34, 36, 8)])
    cut = Pieces(least_s=5, resume_s=3)
    # 36..40 is too short; 30..34, too
    assert calendar.latest(1, 15, (T, T + END), cut) == ((T + 5, T + 20),)
    calendar, _ = made([(20, 30, 8)])
    assert calendar.latest(1, 15, (T, T + END), cut) == ((T + 12, T + 20), (T + 30, T + 40))


def test_a_copy_is_another_one():
    calendar, _ = made([(0, 5, 1)])
    copy = calendar.copy()
    copy.take([(T, T + 9)], 7)
    assert calendar.least(T, T + 9) == 7
    copy.at_most(2, (T + 9, T + 20))
    assert copy.least(T + 20, T + 30) == 8
    assert copy.least(T + 9, T + 10) == 2
    assert calendar.least(T + 9, T + 10) == 8


def test_spans_are_joined_where_they_touch():
    assert joined([(5, 7), (1, 3), (3, 4)]) == ((1, 4), (5, 7))


@pytest.mark.parametrize(
    ("gpus", "up"), [(1, 1), (2, 2), (3, 4), (4, 4), (5, 8), (8, 8), (9, 16), (16, 16), (17, 24)]
)
def test_gpus_are_rounded_up_to_what_finds_place_side_by_side(gpus, up):
    assert rounded_up(gpus) == up


def test_a_node_of_four_gpus_is_filled_by_three():
    assert [rounded_up(gpus, 4) for gpus in (1, 2, 3, 4, 5)] == [1, 2, 4, 4, 8]
    assert [rounded_up(gpus, 6) for gpus in (3, 5, 6, 7)] == [4, 6, 6, 12]
