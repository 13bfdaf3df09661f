"""Peaks of steps from looks: only what was watched from end to end counts."""

from __future__ import annotations

from gsched.app.ces.steps import KEPT_STEPS, LONGEST_GAP_S, StepPeaks

STEP = 600
T0 = 1_700_000_400 // STEP * STEP


def watched(looks: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Looks as (seconds after T0, busy nodes); the steps likewise."""
    peaks = StepPeaks()
    for at, busy in looks:
        peaks.look(T0 + at, {"a": busy})
    return [(at - T0, peak) for at, peak in peaks.of("a")]


def every(seconds: int, since: int, until: int, busy: int = 1) -> list[tuple[int, int]]:
    return [(at, busy) for at in range(since, until, seconds)]


def test_the_first_step_was_not_watched_from_its_beginning() -> None:
    assert watched(every(30, 30, 1230)) == [(600, 1)]


def test_a_step_has_its_peak_with_what_was_busy_when_it_began() -> None:
    looks = [*every(30, -30, 600, 2), (600, 5), *every(30, 630, 1200, 3), (1200, 0), *every(30, 1230, 1830, 0)]  # fmt: skip  # noqa: E501
    assert watched(looks) == [(0, 2), (600, 5), (1200, 3)]


def test_a_long_gap_leaves_out_the_steps_that_it_touches() -> None:
    looks = [*every(30, -30, 900), *every(30, 900 + LONGEST_GAP_S + 1, 2430)]
    assert watched(looks) == [(0, 1), (1800, 1)]
    just_so = [*every(30, -30, 900), *every(30, 870 + LONGEST_GAP_S, 1830)]
    assert watched(just_so) == [(0, 1), (600, 1), (1200, 1)]


def test_rounds_that_are_further_apart_than_that_watch_nothing() -> None:
    assert watched(every(STEP, 0, 10 * STEP)) == []


def test_a_clock_that_goes_back_begins_anew() -> None:
    looks = [*every(30, -30, 1230), *every(30, 0, 630)]
    assert watched(looks) == []


def test_old_steps_go_and_so_do_pools() -> None:
    peaks = StepPeaks()
    for at in range(-60, (KEPT_STEPS + 5) * STEP + 1, 60):
        peaks.look(T0 + at, {"a": 1, "b": 2})
    assert [at for at, _ in peaks.of("a")] == [T0 + STEP * n for n in range(5, KEPT_STEPS + 5)]
    peaks.look(T0 + (KEPT_STEPS + 5) * STEP + 60, {"a": 1})
    assert peaks.of("b") == ()
    assert peaks.of("never") == ()
