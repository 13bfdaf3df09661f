"""For how long a job still needs its GPUs, as a distribution: what deadlines are judged by.

Three sources. What the job tells of itself: iterations to the end and their speed
(``PredictionKind.ITERATIONS`` and SPEED). What jobs before it took: the predicted duration, less
what it has run, given that it has not ended yet. And its time limit, where nothing else is known.

What a job tells is its owner's word. It may make the remainder longer; shorter only where the
caller says so (`may_lower`), which is for what harms nobody else: to give back what was promised.
A promise, and a place among others, go by the history and the time limit.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from statistics import NormalDist

from gsched.model.job import (
    Capability,
    JobState,
    JobView,
    Prediction,
    PredictionKind,
    finite_limit_s,
)

LEVELS = (0.02, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.98, 0.99)
"""The probabilities at which a distribution is known; between them it is interpolated."""

TOLD, PROFILE, HISTORY, LIMIT, DEFAULT = "heartbeat", "profile", "history", "limit", "default"
"""Where a remainder comes from: see ``Remaining.source``."""

NO_HISTORY = frozenset({"time-limit", "site-default"})
"""Sources of predicted durations that no job before is behind."""

_MEDIAN = LEVELS.index(0.5)
_NORMAL = {level: NormalDist().inv_cdf(level) for level in LEVELS}
_LEAST_PART = 0.1  # a duration is predicted as no less than this part of the true one
_STEEPEST, _FLATTEST = 20.0, 0.5  # exponents of the tail beyond the last quantile
_LEAST_S = 1.0
_SPREAD = 0.2  # of a speed that comes without quantiles

_RUNS = frozenset({JobState.RUNNING, JobState.SUSPENDED})


@dataclass(frozen=True, slots=True)
class Remaining:
    """Seconds on its GPUs until a job ends, from now on or, if it waits, from when it has them.

    `safe_s` is enough with the probability that was asked for. `source`: ``heartbeat``,
    ``profile`` (a run of a few iterations before), ``history`` (jobs before it), ``limit`` (its
    time limit), ``default`` (the site's guess; nothing is known). `at_levels_s` are the seconds at
    LEVELS, rising; `most_s` is what the time limit leaves, infinite without one.
    """

    mean_s: float
    safe_s: float
    source: str
    at_levels_s: tuple[float, ...]
    most_s: float = math.inf

    def probability_within(self, seconds: float) -> float:
        """That it has ended after so many seconds; never more than the last of LEVELS, unless the
        time limit ends it by then.
        """
        if seconds >= self.most_s:
            return 1.0
        return _level_of(self.at_levels_s, seconds)

    def at(self, level: float) -> float:
        """Seconds that are enough with this probability; see `probability_within`."""
        return min(self.most_s, _interpolated(LEVELS, self.at_levels_s, level))


def remaining(
    view: JobView,
    now: int,
    quantile: float = 0.9,
    relative_error: float = 0.0,
    resume_s: float = 0.0,
    may_lower: bool = False,
) -> Remaining | None:
    """What a job that waits or runs still needs at `now` (epoch); None where nothing is known.

    `relative_error` is the standard deviation, as a part of the true duration, of predictions that
    come without quantiles. `resume_s` is what an interruption has cost and will cost: work that was
    not saved, and starting again. With `may_lower` the job's own word alone counts; without it, a
    remainder is no shorter at any level than the history, or the time limit, has it. A profile run
    is believed only where there is no history.
    """
    known = _known(view, now, relative_error, resume_s)
    found = _believed(
        known,
        _told(view, now, resume_s, of_profile=True),
        _told(view, now, resume_s, of_profile=False),
        may_lower,
    )
    if found is None:
        return None
    most_s = _most_s(view, now)
    levels = tuple([min(most_s, max(_LEAST_S, seconds)) for seconds in found.at_levels_s])
    safe = replace(found, at_levels_s=levels, most_s=most_s)
    mean_s = min(most_s, max(_LEAST_S, found.mean_s))
    return replace(safe, mean_s=mean_s, safe_s=safe.at(quantile))


def run_so_far_s(view: JobView, now: int, resume_s: float = 0.0) -> float:
    """For how long a job has made progress: over all attempts where it saves, else in this one.

    Each of its restarts that it has been through is taken to have cost `resume_s`.
    """
    present_s = _present_s(view, now)
    gpus = view.request.gpus.minimum
    if not _keeps(view) or view.attained_gpu_s is None or gpus == 0:
        return present_s
    waits = view.state not in _RUNS
    paid_s = resume_s * max(0, view.restarts - waits)
    return max(0.0, max(present_s, view.attained_gpu_s / gpus) - paid_s)


def _believed(
    known: Remaining | None, profile: Remaining | None, told: Remaining | None, may_lower: bool
) -> Remaining | None:
    """What counts of all; see `remaining`."""
    has_history = known is not None and known.source not in (LIMIT, DEFAULT)
    ground = known if has_history or profile is None else profile
    if told is None or may_lower:
        return told or ground
    return None if ground is None else _longer(ground, told)


def _known(view: JobView, now: int, relative_error: float, resume_s: float) -> Remaining | None:
    """By the predicted duration, else by the time limit."""
    run_s = run_so_far_s(view, now, resume_s)
    again_s = resume_s if run_s > 0 and view.state not in _RUNS else 0.0
    prediction = view.prediction(PredictionKind.DURATION)
    if prediction is None or prediction.source in NO_HISTORY:
        return _by_limit(view, prediction, run_s, again_s)
    total = _total(prediction, relative_error)
    left = tuple([seconds + again_s for seconds in total.given_not_ended(run_s)])
    mean_s = max(prediction.mean - run_s + again_s, left[_MEDIAN])
    return Remaining(mean_s, 0.0, HISTORY, left)


def _by_limit(
    view: JobView, guess: Prediction | None, run_s: float, again_s: float
) -> Remaining | None:
    """Where nothing but the limit is known the job is taken to need all of it."""
    limit_s = finite_limit_s(view.time_limit_s)
    if limit_s is not None:
        left_s, source = limit_s - run_s, LIMIT
        if left_s <= 0:  # over several attempts: each may take as long
            left_s = float(limit_s)
    elif guess is not None:
        left_s, source = max(guess.mean - run_s, run_s), DEFAULT  # it goes on as it has
    else:
        return None
    return Remaining(left_s + again_s, 0.0, source, (left_s + again_s,) * len(LEVELS))


def _told(view: JobView, now: int, resume_s: float, of_profile: bool) -> Remaining | None:
    """By the iterations that are left, and how many a second there are: its own, or `of_profile`
    those of its profile runs.
    """
    by = {p.kind: p for p in view.predictions if (p.source == PROFILE) is of_profile}
    left, speed = by.get(PredictionKind.ITERATIONS), by.get(PredictionKind.SPEED)
    if left is None or speed is None or speed.mean <= 0:
        return None
    per_s = _speeds(speed)
    runs = view.state in _RUNS
    passed_s = max(0, now - left.as_of) if runs else 0
    again_s = resume_s if not runs and view.restarts else 0.0
    one_s = 1.0 / speed.mean  # who is not done yet has one more to do

    def seconds(rate: float) -> float:
        return max(one_s, left.mean / rate - passed_s) + again_s

    levels = tuple([seconds(rate) for rate in per_s])
    return Remaining(seconds(speed.mean), 0.0, PROFILE if of_profile else TOLD, levels)


def _speeds(speed: Prediction) -> list[float]:
    """Iterations a second at 1 − LEVELS, each more than 0: the slower, the longer it takes."""
    if speed.quantiles:
        levels, values = zip(*speed.quantiles, strict=True)
        found = [_interpolated(levels, values, 1.0 - level) for level in LEVELS]
    else:
        found = [speed.mean * (1.0 - _SPREAD * _NORMAL[level]) for level in LEVELS]
    return [max(value, speed.mean * 1e-3) for value in found]


def _longer(one: Remaining, other: Remaining) -> Remaining:
    """At each level the longer of both; the source is that of the longer mean."""
    levels = tuple(map(max, one.at_levels_s, other.at_levels_s))
    longer = one if one.mean_s >= other.mean_s else other
    return replace(longer, at_levels_s=levels)


# -- a predicted duration as a distribution -------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Total:
    """Durations at rising levels, and the exponent of the tail beyond the last of them."""

    levels: tuple[float, ...]
    values_s: tuple[float, ...]
    exponent: float

    def given_not_ended(self, run_s: float) -> tuple[float, ...]:
        """Seconds beyond `run_s` at LEVELS, of those jobs that have run for so long."""
        still = self._part_beyond(run_s)
        return tuple([max(0.0, self._left_by((1.0 - p) * still) - run_s) for p in LEVELS])

    def _left_by(self, part: float) -> float:
        """The duration that so large a part of the jobs exceeds."""
        last = 1.0 - self.levels[-1]
        if part >= last:
            return _interpolated(self.levels, self.values_s, 1.0 - part)
        return float(self.values_s[-1] * (last / part) ** (1.0 / self.exponent))

    def _part_beyond(self, seconds: float) -> float:
        """The part of the jobs that takes longer; never 0."""
        last_s = self.values_s[-1]
        if seconds < last_s:
            return 1.0 - _interpolated(self.values_s, self.levels, seconds)
        return (1.0 - self.levels[-1]) * float((last_s / seconds) ** self.exponent)


def _total(prediction: Prediction, relative_error: float) -> _Total:
    """With the owner's caution in it; without quantiles by `_normal_shape`."""
    if not prediction.quantiles:
        shape, mean_s = _normal_shape(relative_error), max(_LEAST_S, prediction.mean)
        values_s = tuple([mean_s * part for part in shape.values_s])
        return _Total(shape.levels, values_s, shape.exponent)
    factor = max(1.0, prediction.caution)
    levels = tuple([level for level, _ in prediction.quantiles])
    values_s = tuple([max(_LEAST_S, seconds * factor) for _, seconds in prediction.quantiles])
    return _begun_at_nothing(levels, values_s)


@lru_cache(maxsize=16)
def _normal_shape(relative_error: float) -> _Total:
    """Of a predicted duration of 1 that is the true one times a normal number of mean 1: so the
    true one is the predicted one over such a number.
    """
    parts = [max(_LEAST_PART, 1.0 - relative_error * _NORMAL[level]) for level in LEVELS]
    return _begun_at_nothing(LEVELS, tuple([1.0 / part for part in parts]))


def _begun_at_nothing(levels: tuple[float, ...], values_s: tuple[float, ...]) -> _Total:
    return _Total((0.0, *levels), (0.0, *values_s), _tail(levels, values_s))


def _tail(levels: Sequence[float], values_s: Sequence[float]) -> float:
    """How steeply the rest falls, as the two last quantiles that differ have it."""
    last_level, last_s = levels[-1], values_s[-1]
    for level, seconds in zip(reversed(levels), reversed(values_s), strict=True):
        if 0 < seconds < last_s and last_level < 1.0:
            steep = math.log((1.0 - level) / (1.0 - last_level)) / math.log(last_s / seconds)
            return min(_STEEPEST, max(_FLATTEST, steep))
    return _STEEPEST


# -- one job ---------------------------------------------------------------------------------------


def _keeps(view: JobView) -> bool:
    """Whether what it has done outlives an interruption."""
    return view.wants.checkpoint or view.exclusion(Capability.PREEMPT) is None


def _present_s(view: JobView, now: int) -> float:
    """For how long the present attempt runs."""
    if view.state not in _RUNS or view.allocation is None:
        return 0.0
    return float(max(0, now - view.allocation.start_time))


def _most_s(view: JobView, now: int) -> float:
    """What Slurm leaves the present attempt, or the next one; starting again is within it."""
    limit_s = finite_limit_s(view.time_limit_s)
    if limit_s is None:
        return math.inf
    return max(_LEAST_S, limit_s - _present_s(view, now))


# -- interpolation ---------------------------------------------------------------------------------


def _level_of(levels_s: Sequence[float], seconds: float) -> float:
    """The probability of having ended within so many seconds."""
    if seconds < levels_s[0]:
        return LEVELS[0] * max(0.0, seconds) / levels_s[0]
    beyond = next((n for n, s in enumerate(levels_s) if s > seconds), len(levels_s))
    if beyond == len(levels_s):
        return LEVELS[-1]
    low, high = levels_s[beyond - 1], levels_s[beyond]
    part = (seconds - low) / (high - low)
    return LEVELS[beyond - 1] + part * (LEVELS[beyond] - LEVELS[beyond - 1])


def _interpolated(xs: Sequence[float], ys: Sequence[float], x: float) -> float:
    """On rising `xs`; outside of them the first and the last of `ys`."""
    if x <= xs[0]:
        return ys[0]
    if x >= xs[-1]:
        return ys[-1]
    right = bisect_left(xs, x)
    left = right - 1
    width = xs[right] - xs[left]
    return ys[right] if width == 0 else ys[left] + (ys[right] - ys[left]) * (x - xs[left]) / width
