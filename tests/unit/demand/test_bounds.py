"""Bounds and judgement of forecasts, by errors that are known by hand."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest
from support.demand import A_DAY, MONDAY, STEP_S, daily, random_walk

from gsched.demand.forecaster import (
    MADE,
    NO_ERRORS,
    NOT_JUDGED,
    WORSE,
    DemandForecaster,
    ForecastOptions,
)
from gsched.demand.naive import LastValue, SeasonalNaive
from gsched.demand.series import DemandSeries
from gsched.demand.walk import WalkOptions, walk_forward

HOUR_S = 3600
LAST = (LastValue(),)
OPTIONS = ForecastOptions(level=0.9, judged_s=(HOUR_S, 3 * HOUR_S), least_errors=24)


@dataclass(frozen=True)
class Told:
    """Says so many, whatever was; nothing while the latest value is not known."""

    by_step: tuple[float, ...]
    name: str = "told"

    def fit(self, history, num_steps):
        return self

    def predict(self, series, rows):
        found = np.tile(np.array(self.by_step), (len(rows), 1))
        found[np.isnan(series.values[rows])] = np.nan
        return found


def observed(method, series, options=OPTIONS, *, steps=1, first_row=0, rivals=LAST):
    made = DemandForecaster(method, WalkOptions(steps), first_row, options, rivals)
    made.observe(series)
    return made


def hours(values) -> DemandSeries:
    return DemandSeries(MONDAY, STEP_S, np.asarray(values, dtype=float))


def lax(**other) -> ForecastOptions:
    """Whatever the rivals do, there is a forecast."""
    return replace(OPTIONS, tolerance=1e9, **other)


def test_the_bounds_are_the_errors_of_their_rank():
    """39 errors of 1 to 39: of 40, 5 % are 2, so two at most lie below the low one, two above."""
    came = np.random.default_rng(0).permutation(np.arange(1.0, 40.0))
    series = hours([0.0, *(1000 + came)])
    told = observed(Told((1000.0,)), series, lax(renew_s=STEP_S)).latest().forecast
    assert (told.low[0], told.high[0], told.peak[0]) == (1000, 1038, 1036)
    below = observed(Told((1100.0,)), series, lax(renew_s=STEP_S)).latest().forecast
    assert (below.low[0], below.high[0]) == (1002, 1100)


def test_with_too_few_errors_for_the_level_there_are_no_bounds():
    options = lax(level=0.9, least_errors=1, renew_s=STEP_S)
    assert options.needed_errors == 19  # one of twenty lies beyond
    series = hours([5.0] * 30)
    made = observed(Told((5.0,)), series, options)
    assert made.outlook(18).reason.code == NO_ERRORS
    assert made.outlook(18).reason.params == {"needed": 19}
    assert made.outlook(19).reason.code == MADE
    for level in (0.0, 1.0, -0.5):
        with pytest.raises(ValueError, match="between 0 and 1"):
            ForecastOptions(level=level)


def test_every_distance_needs_its_errors():
    """Three hours ahead the 24th truth comes two hours later than one hour ahead."""
    made = observed(Told((5.0,) * 3), hours([5.0] * 60), lax(renew_s=STEP_S), steps=3)
    codes = [made.outlook(row).reason.code for row in (23, 24, 25, 26)]
    assert codes == [NO_ERRORS, NO_ERRORS, NO_ERRORS, MADE]


def test_peaks_need_errors_of_their_own():
    """With a gap every third hour no three hours are ever known in a row."""
    values = np.full(200, 5.0)
    values[1::3] = np.nan
    made = observed(Told((5.0,) * 3), hours(values), lax(renew_s=STEP_S), steps=3)
    assert made.outlook(197).reason.code == NO_ERRORS
    values[100:] = 5.0
    assert observed(Told((5.0,) * 3), hours(values), lax(), steps=3).latest().reason.code == MADE


def highest(*last: float) -> float:
    """The upper bound after four days 50 above what is told, two as told, and these at the end."""
    values = np.where(np.arange(6 * A_DAY) < 4 * A_DAY, 150.0, 100.0)
    values[len(values) - len(last) :] = last
    options = lax(errors_s=2 * 86400, renew_s=STEP_S)
    return observed(Told((100.0,)), hours(values), options).latest().forecast.high[0]


def test_errors_are_forgotten_and_the_latest_one_counts():
    """Of 48 errors, and one to come, one may lie above."""
    assert highest() == 100
    assert highest(170.0, 100.0) == 100
    assert highest(170.0, 170.0, 100.0) == 170
    assert highest(170.0, 100.0, 170.0) == 170


def test_a_peak_bounds_all_the_steps_up_to_it_as_often_as_it_says():
    """On a random walk, without the share that a bound of each step alone would lose."""
    series = random_walk(400)
    made = observed(LastValue(), series, lax(errors_s=180 * 86400), steps=12)
    inside = []
    for row in range(60 * A_DAY, 399 * A_DAY):
        told = made.outlook(row).forecast
        came = series.values[row + 1 : row + 13]
        inside.append([came[: k + 1].max() <= told.peak[k] for k in (0, 5, 11)])
    assert np.mean(inside, axis=0) == pytest.approx(0.9, abs=0.02)


def test_the_peak_of_a_forecast_that_falls_is_that_of_its_beginning():
    """It tells 100 and then 40, and both come true every time."""
    values = np.full(100, 100.0)
    values[1::2] = 40.0
    odd = observed(_Saw(), hours(values), lax(renew_s=STEP_S), steps=2)
    told = odd.outlook(97).forecast  # the next is 100
    assert (told.mean, told.peak) == ((100, 40), (100, 100))


@dataclass(frozen=True)
class _Saw:
    """Knows which of the two comes."""

    name: str = "saw"

    def fit(self, history, num_steps):
        return self

    def predict(self, series, rows):
        return np.where((rows % 2 == 1)[:, None], (100.0, 40.0), (40.0, 100.0))


def test_the_bound_of_a_peak_adds_to_the_peak_that_is_told():
    """Every twelfth is ten above: within one step of a hundred that is rare, within two not."""
    values = np.full(400, 100.0)
    values[::12] = 110.0
    made = observed(Told((100.0, 40.0)), hours(values), lax(), steps=2, rivals=())
    told = made.latest().forecast
    assert (told.mean, told.peak) == ((100, 40), (100, 110))


def test_no_bound_lies_below_nothing():
    """It told 50 each time and nothing came; now it tells 3."""
    values = np.zeros(60)
    low = observed(Told((50.0,)), hours(values), lax(), rivals=()).latest().forecast
    assert (low.low[0], low.peak[0]) == (0, 0)
    changed = observed(Told((50.0,)), hours(values), lax(), rivals=())
    changed.walk.predicted[-1] = 3.0
    told = changed.latest().forecast
    assert (told.low[0], told.peak[0], told.mean[0]) == (0, 0, 3)


# judgement


def alternating(days: int = 20) -> DemandSeries:
    return hours([100.0, 110.0] * (12 * days))


def test_an_error_that_is_just_tolerated_is():
    """Persistence errs by ten each hour; eleven is a tenth worse."""
    series = alternating()
    just = observed(_Off(11.0), series, replace(OPTIONS, tolerance=0.1, judged_s=(HOUR_S,)))
    assert just.latest().reason.params["error_ratio"] == pytest.approx(1.1)
    assert just.latest().reason.code == MADE
    more = observed(_Off(11.1), series, replace(OPTIONS, tolerance=0.1, judged_s=(HOUR_S,)))
    assert more.latest().reason.code == WORSE


@dataclass(frozen=True)
class _Off:
    """The truth of `alternating` and so many more, at each step."""

    by: float
    steps: int = 1
    name: str = "off"

    def fit(self, history, num_steps):
        return self

    def predict(self, series, rows):
        ahead = np.arange(1, self.steps + 1)
        return np.where((rows[:, None] + ahead) % 2 == 1, 110.0, 100.0) + self.by


def test_the_best_rival_counts_wherever_it_stands():
    """Of three rivals the middle one is the best."""
    rivals = (
        replace(LastValue(), name="last"), _Off(2.0, name="two off"), _Off(30.0, name="far off")
    )  # fmt: skip
    told = observed(_Off(5.0), alternating(), rivals=rivals).latest()
    assert (told.reason.code, told.reason.params["rival"]) == (WORSE, "two off")
    assert told.reason.params["error_ratio"] == pytest.approx(2.5)


@dataclass(frozen=True)
class _OffAt:
    """Exact, but for the steps `wrong`, where it is a hundred off."""

    wrong: tuple[int, ...]
    steps: int
    name: str = "off-at"

    def fit(self, history, num_steps):
        return self

    def predict(self, series, rows):
        told = np.full((len(rows), self.steps), 100.0)
        told[:, [each - 1 for each in self.wrong]] = 200.0
        return told


@pytest.mark.parametrize(
    ("judged_h", "wrong", "code"),
    [
        ((2,), (2,), WORSE),
        ((2,), (1, 3, 4), MADE),
        ((2, 4), (4,), WORSE),
        ((2, 99), (1, 3, 4), MADE),  # what it does not look ahead is left out
        ((2, 99), (2,), WORSE),
        ((99,), (4,), WORSE),  # it looks less far than any: the furthest
        ((99,), (1, 2, 3), MADE),
    ],
)
def test_a_method_is_judged_at_the_distances_that_count(judged_h, wrong, code):
    options = replace(OPTIONS, judged_s=tuple(HOUR_S * each for each in judged_h))
    rival = _OffAt((), 4, name="exact")
    noisy = Told((100.1,) * 4, name="rival")
    told = observed(
        _OffAt(wrong, 4), hours([100.0] * 100), options, steps=4, rivals=(rival, noisy)
    ).latest()
    assert told.reason.code == code


def test_what_could_not_be_judged_is_no_forecast():
    """For two weeks nothing is known; the errors that give bounds are older."""
    values = np.concatenate([np.full(5 * A_DAY, 100.0), np.full(15 * A_DAY, np.nan), [100.0]])
    told = observed(Told((100.0,)), hours(values)).latest()
    assert (told.forecast, told.reason.code) == (None, NOT_JUDGED)
    alone = observed(Told((100.0,)), hours([100.0] * 100), rivals=()).latest()
    assert alone.reason.code == MADE  # nobody to be worse than was asked for


def test_a_method_and_its_rival_are_judged_by_the_same_truths():
    """The rival knows only the second half, when the method was right."""
    series = hours([100.0] * (4 * A_DAY))
    late = Told((101.0,), name="late")
    made = DemandForecaster(_Improving(), WalkOptions(1), 0, OPTIONS, (_Only(late, 2 * A_DAY),))
    made.observe(series)
    assert made.latest().reason.params["error_ratio"] == pytest.approx(0.0)


@dataclass(frozen=True)
class _Improving:
    name: str = "improving"

    def fit(self, history, num_steps):
        return self

    def predict(self, series, rows):
        return np.where(rows < 2 * A_DAY, 900.0, 100.0)[:, None]


@dataclass(frozen=True)
class _Only:
    """A method that knows nothing before a row."""

    method: Told
    since: int

    @property
    def name(self):
        return self.method.name

    def fit(self, history, num_steps):
        return self

    def predict(self, series, rows):
        told = self.method.predict(series, rows)
        told[rows < self.since] = np.nan
        return told


# walks


def test_what_was_told_of_the_newest_step_is_found():
    series = daily(3)
    walk = walk_forward(series, LastValue(), WalkOptions(2), 0)
    last = len(series) - 1
    assert walk.told_of(np.array([last, last + 1]), 1).tolist() == series.values[-2:].tolist()
    assert np.isnan(walk.told_of(np.array([last + 2]), 1)).all()


def test_only_what_was_learnt_counts_as_a_fit():
    walk = walk_forward(daily(4), SeasonalNaive(), WalkOptions(2), 0)
    assert walk.num_fits == 3  # on the first day there is no day before
