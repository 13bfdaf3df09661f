"""A loss curve stays small, keeps the mean, and forgets steps that are trained again."""

from __future__ import annotations

from math import isclose

from hypothesis import given
from hypothesis import strategies as st

from gsched.telemetry.loss_curve import MAX_ATTEMPTS, MAX_POINTS, Attempt, LossCurve


def attempt(restart=0, first_step=0):
    return Attempt(restart, first_step, first_step, 0.0, 0.0)


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=3000))
def test_every_loss_counts_once_however_many_there_are(losses):
    curve = LossCurve()
    for step, loss in enumerate(losses, 1):
        curve.add(step, loss)
    assert len(curve.points) <= MAX_POINTS
    assert sum(point.num for point in curve.points) == len(losses)
    assert [p.step for p in curve.points] == sorted({p.step for p in curve.points})
    assert curve.points[-1].step == len(losses)
    total = sum(point.loss * point.num for point in curve.points)
    assert isclose(total, sum(losses), rel_tol=1e-6, abs_tol=1e-3)
    assert len(curve.points) >= min(len(losses), MAX_POINTS // 2)


def test_all_points_but_the_last_stand_for_equally_many():
    curve = LossCurve()
    for step in range(1, 4 * MAX_POINTS + 4):
        curve.add(step, 1.0)
    assert {point.num for point in curve.points[:-1]} == {curve.stride} == {8}


def test_an_attempt_that_goes_on_from_a_checkpoint_takes_back_what_came_after():
    curve = LossCurve()
    curve.begin(attempt())
    for step in range(1, 11):
        curve.add(step, float(step))
    curve.reached(10, 99.0)
    curve.begin(attempt(1, first_step=6))
    assert curve.points[-1].step == 6
    curve.add(7, 70.0)
    assert [(p.step, p.loss) for p in curve.points][-2:] == [(6, 6.0), (7, 70.0)]
    assert curve.attempts[0] == Attempt(0, 0, 10, 0.0, 99.0)
    assert (curve.attempts[1].first_step, curve.attempts[1].restart) == (6, 1)


def test_steps_that_go_back_replace_what_was_seen_of_them():
    curve = LossCurve()
    for step, loss in ((1, 1.0), (2, 2.0), (3, 3.0), (2, 20.0)):
        curve.add(step, loss)
    assert [(p.step, p.loss) for p in curve.points] == [(1, 1.0), (2, 20.0)]


def test_only_the_latest_attempts_are_kept():
    curve = LossCurve()
    for restart in range(MAX_ATTEMPTS + 3):
        curve.begin(attempt(restart))
    assert [a.restart for a in curve.attempts] == list(range(3, MAX_ATTEMPTS + 3))
