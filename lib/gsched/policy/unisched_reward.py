"""What a lease is worth to a job now: one step reward for every kind of job (UniSched).

The end of each job counts 100 points, and a lease brings it as much nearer as it is long of what
the job still needs. So a short job earns its points in few leases and a long one in many; jobs of
fixed iterations and jobs that stop at a target metric differ in how their remainder is known alone.
What is added: a deadline that was not promised, but can still be met, counts so many times the end
of a best-effort job, the more of the time left the run takes; a profile run is a job of `profile_s`
that counts more the longer it waits, up to ten times; and whoever does not run yet loses the start.

GPUs count by their root, as in the order of ``chronus``: by time alone wide jobs would come too
early, by GPU-time too late. Values are whole thousandths of points in steps of about a tenth, so
that jobs of equal worth can be counted together.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from gsched.model.targets import FULL_REWARD, LATE_REWARD, Steps

STEPS_AN_OCTAVE = 8
_UNIT = 1000.0
_SHORTEST_S = 30.0
_MOST = 10**9
LEAST = 1
"""Of a job of which nothing is known, and of one that would be in a target's way."""

MOST_LONGER = 9.0
"""So many times, at most, is added to what a first run counts for its wait."""


@dataclass(frozen=True, slots=True)
class Prices:
    """What a site's knobs say: length of a lease and cost of a start (s), how many best-effort
    ends a deadline that is at stake counts, and the wait (s) at which a profile run counts double.
    """

    lease_s: float
    start_s: float
    deadline_worth: float
    profile_wait_s: float


def best_effort(remaining_s: float, gpus: int, prices: Prices, runs: bool) -> float:
    """Points of a lease for a job that needs so many seconds more."""
    rate = FULL_REWARD * math.sqrt(max(1, gpus)) / max(_SHORTEST_S, remaining_s)
    return rate * prices.lease_s * _kept(prices, runs)


def with_deadline(
    steps: Steps, remaining_s: float, now: int, gpus: int, prices: Prices, runs: bool
) -> float:
    """Of a job that asks for a deadline that nobody has promised: more while it can be met.

    Of soft ones what its next reachable step counts beyond being late.
    """
    points = best_effort(remaining_s, gpus, prices, runs)
    ends = now + remaining_s + (0 if runs else prices.start_s)
    due = next((time for time in steps.times if ends <= time), None)
    if due is None:
        return points
    stake = (steps.reward(due) - LATE_REWARD) / (FULL_REWARD - LATE_REWARD)
    tight = (ends - now) / max(1.0, due - now)
    return points * (1.0 + prices.deadline_worth * stake * tight**2)


def profile(profile_s: float, waited_s: float, gpus: int, prices: Prices) -> float:
    """Of a first short run, in which a job of which nothing is known is measured."""
    longer = max(0.0, waited_s) / max(1.0, prices.profile_wait_s)
    return best_effort(profile_s, gpus, prices, runs=False) * (1.0 + min(MOST_LONGER, longer**2))


def _kept(prices: Prices, runs: bool) -> float:
    """The part of a lease in which there is progress."""
    return 1.0 if runs else prices.lease_s / max(1.0, prices.lease_s + prices.start_s)


def value(points: float) -> int:
    """Points as the model counts them: thousandths, rounded down to a step."""
    if not points * _UNIT > LEAST:
        return LEAST
    step = math.floor(math.log2(points * _UNIT) * STEPS_AN_OCTAVE + 1e-9)
    return max(LEAST, min(_MOST, round(math.pow(2.0, step / STEPS_AN_OCTAVE))))


def points_of(own: int) -> float:
    """A value as points."""
    return own / _UNIT
