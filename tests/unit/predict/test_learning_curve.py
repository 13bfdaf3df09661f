"""Learning curves: what they say of a target, and what they do not say."""

from __future__ import annotations

import math
import random
from collections.abc import Callable

import pytest

from gsched.predict.learning_curve import FEWEST, fit_curves

CURVES: dict[str, tuple[Callable[[float], float], Callable[[float], float]]] = {
    # the curve, and the step at which it comes to a value
    "exponential": (
        lambda x: 0.9 - 0.8 * math.exp(-x / 300),
        lambda v: -300 * math.log((0.9 - v) / 0.8),
    ),
    "power": (
        lambda x: 0.95 - 0.85 * (1 + x / 50) ** -0.8,
        lambda v: 50 * (((0.95 - v) / 0.85) ** (-1 / 0.8) - 1),
    ),
    "mmf": (
        lambda x: 0.9 - 0.8 / (1 + (x / 200) ** 1.5),
        lambda v: 200 * (0.8 / (0.9 - v) - 1) ** (1 / 1.5),
    ),
}


def told(
    curve: Callable[[float], float], last: int, noise: float = 0.0, seed: int = 1
) -> list[tuple[float, float]]:
    rng = random.Random(seed)
    return [(float(x), curve(x) + rng.gauss(0.0, noise)) for x in range(0, last + 1, last // 40)]


@pytest.mark.parametrize("name", CURVES)
def test_a_curve_without_noise_is_gone_on_with(name: str) -> None:
    curve, when = CURVES[name]
    fitted = fit_curves(told(curve, 400))
    assert fitted is not None
    truth = when(curve(800))
    reach = fitted.reach(curve(800), rises=True)
    assert reach.middle is not None
    assert abs(reach.middle - truth) < 0.1 * truth
    assert fitted.at([100.0])[0] == pytest.approx(curve(100), abs=0.01)


def test_a_loss_falls_to_its_target() -> None:
    fitted = fit_curves(told(lambda x: 0.2 + 2.0 * math.exp(-x / 300), 400))
    assert fitted is not None
    reach = fitted.reach(0.2 + 2.0 * math.exp(-2), rises=False)
    assert reach.middle == pytest.approx(600, rel=0.1)


@pytest.mark.parametrize("name", CURVES)
def test_the_interval_holds_the_truth_about_as_often_as_it_says(name: str) -> None:
    curve, when = CURVES[name]
    truth = when(curve(800))
    held = 0
    for seed in range(30):
        fitted = fit_curves(told(curve, 400, 0.01, seed))
        assert fitted is not None
        reach = fitted.reach(curve(800), rises=True)
        held += (reach.low or math.inf) <= truth <= (reach.high or math.inf)
    assert held >= 20  # nominal 24 of 30


def test_what_a_plateau_does_not_reach_is_told_as_never() -> None:
    fitted = fit_curves(told(lambda x: 0.7 - 0.6 * math.exp(-x / 50), 1000, 0.003))
    assert fitted is not None
    reach = fitted.reach(0.9, rises=True)
    assert reach.never > 0.95
    assert reach.middle is None
    assert reach.high is None
    assert not reach.reached


def test_what_gets_worse_never_reaches_its_target() -> None:
    fitted = fit_curves(told(lambda x: 0.1 + 0.6 * math.exp(-x / 200), 1000))
    assert fitted is not None
    assert fitted.reach(0.9, rises=True).never > 0.99


def test_what_was_reached_is_told_with_its_step() -> None:
    fitted = fit_curves([(x, x / 100) for x in range(0, 100, 10)])
    assert fitted is not None
    reach = fitted.reach(0.45, rises=True)
    assert reach.reached
    assert reach.low == reach.middle == reach.high == 50.0
    assert reach.never == 0.0


def test_it_is_never_said_to_be_reached_before_the_last_step() -> None:
    fitted = fit_curves(told(lambda x: 0.7 - 0.6 * math.exp(-x / 50), 1000))
    assert fitted is not None
    reach = fitted.reach(max(v for _, v in fitted.samples) + 1e-9, rises=True)
    assert reach.low is not None
    assert reach.low >= fitted.last_step


@pytest.mark.parametrize(
    "samples",
    [
        [],
        [(float(x), x / 10) for x in range(FEWEST - 1)],
        [(3.0, x / 10) for x in range(100)],
        [(float(x), 0.5) for x in range(100)],
        [(float(x), math.nan) for x in range(100)],
        [(float(x), math.inf) for x in range(100)],
        [(-1.0 - x, x / 10) for x in range(100)],
        [(math.nan, x / 10) for x in range(100)],
        [(1e300 * (x + 1), x / 10) for x in range(100)],
    ],
)
def test_what_says_nothing_stays_unknown(samples: list[tuple[float, float]]) -> None:
    assert fit_curves(samples) is None


def test_samples_that_are_none_change_nothing() -> None:
    clean = told(CURVES["power"][0], 400, 0.01)
    dirty = [
        *clean[:20],
        (5.5, math.nan),
        (math.inf, 0.3),
        (7.5, -math.inf),
        (8.5, 1e30),
        *clean[20:],
    ]
    one, other = fit_curves(clean), fit_curves(dirty)
    assert one is not None
    assert other is not None
    assert one.samples == other.samples
    assert one.reach(0.85, rises=True) == other.reach(0.85, rises=True)


@pytest.mark.parametrize("size", [1e-9, 1e9])
def test_sizes_do_not_matter(size: float) -> None:
    plain = fit_curves(told(CURVES["power"][0], 400, 0.01))
    sized = fit_curves([(x, v * size) for x, v in told(CURVES["power"][0], 400, 0.01)])
    assert plain is not None
    assert sized is not None
    one, other = plain.reach(0.85, rises=True), sized.reach(0.85 * size, rises=True)
    assert one.middle is not None
    assert one.middle == pytest.approx(other.middle, rel=1e-3)


def test_shuffled_values_say_less() -> None:
    values = told(CURVES["exponential"][0], 400, 0.01)
    mixed = [v for _, v in values]
    random.Random(3).shuffle(mixed)
    right, wrong = (
        fit_curves(values),
        fit_curves([(x, v) for (x, _), v in zip(values, mixed, strict=True)]),
    )
    assert right is not None
    assert wrong is not None
    assert right.reach(0.82, rises=True).never < 0.5 < wrong.reach(0.82, rises=True).never
