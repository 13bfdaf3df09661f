"""Corrections of intervals: learnt from what was known, and holding what they say."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from gsched.forecast.calibration import (
    CLASSES_S,
    LEAST,
    NO_CALIBRATION,
    WINDOW,
    Calibration,
    PastForecast,
)
from gsched.forecast.outlook import Interval


def interval(as_of: float, median_s: float, low_s: float, high_s: float) -> Interval:
    return Interval(as_of + median_s, as_of + low_s, as_of + high_s)


def world(
    count: int, seed: int, error: float = 0.0, spread: float = 0.3, every_s: float = 600.0
) -> list[PastForecast]:
    """A forecast every so often. Waits are log-normal (a deviation of 1) about their median, some
    20,000 s; what is said is `error` off on the logarithm and takes the deviation for `spread`.
    """
    chance = np.random.default_rng(seed)
    made = []
    for number in range(count):
        as_of = every_s * number
        centre = math.log(20_000.0) + chance.normal(0, 0.5)
        start = as_of + math.exp(centre + chance.normal())
        said = [math.exp(centre + error + spread * z) for z in (0.0, -1.2816, 1.2816)]
        made.append(PastForecast(as_of, interval(as_of, *said), start))
    return made


def walked(past: list[PastForecast], step: int = 4) -> list[tuple[Interval, float]]:
    """What was told after the first third, by those before as they were known, and the truth."""
    told = []
    for number in range(len(past) // 3, len(past), step):
        one = past[number]
        learnt = Calibration.learn(past[:number], one.as_of)
        assert one.start is not None
        told.append((learnt.apply(one.as_of, one.raw), one.start))
    return told


def coverage(told: list[tuple[Interval, float]]) -> float:
    return float(np.mean([shown.low <= start <= shown.high for shown, start in told]))


class TestCoverage:
    @pytest.mark.parametrize(("error", "spread"), [(0.0, 1.0), (0.0, 3.0), (1.0, 0.3), (-2.0, 1.0)])
    def test_it_comes_out_as_said_however_wrong_the_forecasts_are(
        self, error: float, spread: float
    ) -> None:
        told = walked(world(1_200, seed=2, error=error, spread=spread))
        assert coverage(told) == pytest.approx(0.8, abs=0.06)
        assert np.mean([shown.median <= start for shown, start in told]) == pytest.approx(
            0.5, abs=0.07
        )

    def test_it_does_so_where_thousands_are_made_while_jobs_wait(self) -> None:
        """Of the forecasts made within a job's wait nothing is known yet: by those alone the truth
        would lie in three intervals of ten. A day's experience gives an interval that is rather too
        wide."""
        past = world(10_000, seed=2, every_s=10.0)
        raw = [(one.raw, one.start or 0.0) for one in past]
        assert coverage(raw) < 0.4
        assert 0.74 < coverage(walked(past, 80)) < 0.93

    def test_without_it_they_are_wrong(self) -> None:
        """The negative control: these forecasts do need correction."""
        raw = [(one.raw, one.start or 0.0) for one in world(1_500, seed=2, error=1.0)]
        assert coverage(raw) < 0.35

    def test_it_follows_a_change(self) -> None:
        """From the middle on, waits are three times as long as said: the second half of what
        follows is right again."""
        past = world(1_400, seed=4, spread=1.0)
        later = [replace(one, start=one.as_of + 3 * ((one.start or 0) - one.as_of)) for one in past]
        told = walked(past[:600] + later[600:])
        assert coverage(told[-130:]) == pytest.approx(0.8, abs=0.08)

    def test_waits_that_are_all_alike_get_an_interval_without_width(self) -> None:
        past = [
            PastForecast(600.0 * n, interval(600.0 * n, 100.0, 50.0, 900.0), 600.0 * n + 300.0)
            for n in range(100)
        ]
        shown = Calibration.learn(past, 1e9).apply(1e9, interval(1e9, 100.0, 50.0, 900.0))
        for end in (shown.median, shown.low, shown.high):
            assert end - 1e9 == pytest.approx(300.0)


class TestWhatIsKnown:
    def test_starts_that_lie_ahead_are_not_seen(self) -> None:
        """Whatever happens after `now` changes nothing: a leak would."""
        past = world(300, seed=1)
        now = past[200].as_of
        other = [
            replace(one, start=one.start + 1e6) if one.start and one.start > now else one
            for one in past
        ]
        unknown = [
            replace(one, start=None) if one.start and one.start > now else one for one in past
        ]
        assert other != past
        learnt = Calibration.learn(past, now)
        assert Calibration.learn(other, now) == learnt == Calibration.learn(unknown, now)
        assert Calibration.learn(past, now + 1e5) != learnt

    def test_who_still_waits_is_not_forgotten(self) -> None:
        """Two thirds of the forecasts have come true; the others wait for longer than those did. To
        learn from those that have started would be to expect ten minutes."""
        past = [
            PastForecast(
                600.0 * number,
                interval(600.0 * number, 100.0, 50.0, 500.0),
                600.0 * number + 500.0 + number if number % 3 else None,
            )
            for number in range(100)
        ]
        shown = Calibration.learn(past, 60_000.0).apply(9e4, interval(9e4, 100.0, 50.0, 500.0))
        assert 500 < shown.low - 9e4 < shown.median - 9e4 < 600
        assert shown.high - 9e4 > 20_000

    def test_few_forecasts_teach_nothing(self) -> None:
        past = world(LEAST, seed=1, error=2.0)
        assert Calibration.learn(past[:-1], 1e9).apply(0.0, past[0].raw) == past[0].raw
        assert Calibration.learn(past, 1e9).apply(0.0, past[0].raw) != past[0].raw

    def test_the_latest_count(self) -> None:
        wrong, right = world(WINDOW, seed=1, error=3.0), world(WINDOW, seed=2, spread=1.0)
        later = [
            PastForecast(
                one.as_of + 1e7,
                Interval(*(end + 1e7 for end in (one.raw.median, one.raw.low, one.raw.high))),
                (one.start or 0.0) + 1e7,
            )
            for one in right
        ]
        both = Calibration.learn(wrong + later, 1e9)
        assert both == Calibration.learn(later, 1e9)
        assert both.learnt_from == WINDOW


class TestBursts:
    """One user submits 900 jobs within minutes."""

    def burst(self, as_of: float, start: float | None) -> list[PastForecast]:
        said = (9_000.0, 8_000.0, 10_000.0)
        return [PastForecast(as_of + n, interval(as_of + n, *said), start) for n in range(900)]

    def test_jobs_that_all_wait_move_nobody(self) -> None:
        before = world(600, seed=3, spread=1.0)
        last = before[-1].as_of
        raw = interval(last + 1_500, 20_000.0, 6_000.0, 60_000.0)
        plain = Calibration.learn(before, last + 1_500).apply(last + 1_500, raw)
        both = Calibration.learn([*before, *self.burst(last + 1, None)], last + 1_500)
        shown = both.apply(last + 1_500, raw)
        for name in ("median", "low", "high"):
            now, then = getattr(shown, name), getattr(plain, name)
            assert now - last == pytest.approx(then - last, rel=0.2)

    def test_alone_they_are_no_experience(self) -> None:
        for start in (None, 1_000.0):
            learnt = Calibration.learn(self.burst(0.0, start), 2_000.0)
            assert learnt == NO_CALIBRATION

    @pytest.mark.parametrize("later_s", [60.0, 3_600.0, 40_000.0])
    def test_where_nothing_is_known_no_wait_becomes_shorter(self, later_s: float) -> None:
        """Thousands made over a day, and not one job of theirs has started."""
        waiting = [replace(one, start=None) for one in world(9_000, seed=5, every_s=10.0)]
        now = waiting[-1].as_of + later_s
        learnt = Calibration.learn(waiting, now)
        assert learnt.learnt_from == 9_000
        for said in ((20_000.0, 15_000.0, 25_000.0), (30.0, 10.0, 600.0)):
            raw = interval(now, *said)
            shown = learnt.apply(now, raw)
            assert shown.low >= raw.low - 1e-3
            assert shown.median >= raw.median - 1e-3
            assert shown.high >= raw.high - 1e-3
            assert shown.low < shown.median < shown.high


class TestShown:
    def test_only_the_wait_from_the_begin_time_on_is_corrected(self) -> None:
        """Jobs have started far sooner than said: one that begins in an hour does not before."""
        early = [
            PastForecast(
                600.0 * n, interval(600.0 * n, 9_000.0, 8_000.0, 10_000.0), 600.0 * n + 60.0
            )
            for n in range(100)
        ]
        begin = 1e6 + 3_600.0
        shown = Calibration.learn(early, 1e6).apply(begin, interval(begin, 9_000.0, 0.0, 10_000.0))
        assert begin <= shown.low <= shown.median < begin + 120

    def test_nothing_learnt_changes_nothing(self) -> None:
        raw = interval(50.0, 100.0, 0.0, 1e6)
        shown = NO_CALIBRATION.apply(50.0, raw)
        for name in ("median", "low", "high"):
            assert getattr(shown, name) == pytest.approx(getattr(raw, name))
        assert NO_CALIBRATION.learnt_from == 0

    def test_classes_of_waits_are_learnt_apart(self) -> None:
        """What is to start at once waits ten minutes; what is to start in hours starts then."""
        at_once = [
            PastForecast(600.0 * n, interval(600.0 * n, 0.0, 0.0, 0.0), 600.0 * n + 600.0)
            for n in range(100)
        ]
        hours = [
            PastForecast(
                600.0 * n, interval(600.0 * n, 9_000.0, 8_000.0, 10_000.0), 600.0 * n + 9_000.0
            )
            for n in range(100)
        ]
        learnt = Calibration.learn(at_once + hours, 1e9)
        assert learnt.apply(0.0, interval(0.0, 0.0, 0.0, 0.0)).median == pytest.approx(600.0)
        assert learnt.apply(0.0, interval(0.0, 9_000.0, 8_000.0, 10_000.0)).median == pytest.approx(
            9_000.0
        )
        assert len(learnt.by_class) == len(CLASSES_S) + 1

    def test_a_class_of_which_little_is_known_is_corrected_as_all_are(self) -> None:
        late = [
            PastForecast(
                600.0 * n, interval(600.0 * n, 9_000.0, 8_000.0, 10_000.0), 600.0 * n + 18_060.0
            )
            for n in range(100)
        ]
        learnt = Calibration.learn(late, 1e9)
        assert learnt.apply(0.0, interval(0.0, 0.0, 0.0, 0.0)).median == pytest.approx(60.0)

    def test_it_is_never_before_now_nor_out_of_order(self) -> None:
        early = [
            PastForecast(
                600.0 * n, interval(600.0 * n, 9_000.0, 1_000.0, 10_000.0), 600.0 * n + 1.0
            )
            for n in range(100)
        ]
        learnt = Calibration.learn(early, 1e9)
        for median_s, low_s, high_s in ((0, 0, 0), (5_000, 10, 90_000), (4_000, 3_900, 4_100)):
            shown = learnt.apply(7.0, interval(7.0, median_s, low_s, high_s))
            assert 7.0 <= shown.low <= shown.median <= shown.high
