"""Caution: whoever's jobs outrun their predictions by far is believed less, for a while.

A user who runs short jobs under a name and then a long one under the same gets the long one to the
front. What that cost is measured by GPU-time (CPU-time of jobs without GPUs): the *overrun* is the
geometric mean of actual / announced, weighted by the square of the actual GPU-time and by age (half
of it is forgotten after HALF_LIFE_S). So the largest jobs of a user count: ten thousand jobs of a
second, which together take as long as one of three hours, weigh a ten-thousandth of it. Announced
is the rolling estimate when the job was submitted, which is the part of a prediction that a user's
own jobs make.

Where run times have heavy tails, a GPU-second of an honest user belongs to a job that ran several
times its estimate, too. So a user's overrun counts relative to that of all others, and up to
TOLERATED times theirs nothing happens. Beyond, the user's predicted means (not the quantiles) are
multiplied by what is beyond, at most by MAX_CAUTION, for jobs of that kind. They do not become
longer than the jobs that make the overrun were (the geometric mean by the same weights): who is
predicted to run as long as that has not announced too little.
"""

from __future__ import annotations

import bisect
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from gsched.model.times import DAY_S
from gsched.predict.attributes import KINDS, SHORTEST_S, JobAttributes

HALF_LIFE_S = 7 * DAY_S
TOLERATED = 20.0
"""An overrun up to so many times that of all other users is ordinary. Chosen on Pozidriv, ITP and
Philly: there caution is in 0.1, 0.5 and 30 % of the rolling estimates, and changes the rank
correlation of GPU-time by 0.000, 0.000 and +0.002. (Philly tells no users: its virtual clusters,
each with jobs of all lengths, stand for them.)"""

MAX_CAUTION = 1000.0

BELIEVED_S = 600.0
"""A user counts as having run the job's GPUs for so long just as announced: overruns of jobs that
took less tell little, and old ones are forgotten."""

_KEPT = 16
"""Latest states kept, so that a moment a little earlier can be asked about."""


class Distrust(NamedTuple):
    """By what factor a predicted mean is multiplied, and up to how many seconds at most."""

    factor: float
    up_to_s: float


NONE = Distrust(1.0, 0.0)


class _State(NamedTuple):
    """After a job ended, as at `time`: Σ weights; Σ weights · ln(actual / announced); Σ weights ·
    ln(actual GPU-time).
    """

    time: int
    weight: float
    overrun: float
    length: float


class Overruns(NamedTuple):
    """Of one user and of everybody, at one moment."""

    own: _State
    everybody: _State


class Caution:
    """Overruns of every user and of all together, for jobs with GPUs and without."""

    def __init__(self) -> None:
        self._users: dict[str, dict[str, list[_State]]] = {kind: {} for kind in KINDS}
        self._all: dict[str, list[_State]] = {kind: [] for kind in KINDS}

    def observe(
        self, job: JobAttributes, end_time: int, actual_s: float, announced_s: float
    ) -> None:
        """Take in a job that has ended, in the order of ends."""
        actual_s, announced_s = max(SHORTEST_S, actual_s), max(SHORTEST_S, announced_s)
        gpu_s = job.num_units * actual_s
        weight = gpu_s**2
        overrun = weight * math.log(actual_s / announced_s)
        length = weight * math.log(gpu_s)
        for states in (self._users[job.kind].setdefault(job.user, []), self._all[job.kind]):
            last = _at(states[-1], end_time) if states else _State(end_time, 0.0, 0.0, 0.0)
            states.append(
                _State(
                    last.time, last.weight + weight, last.overrun + overrun, last.length + length
                )
            )
            if len(states) > _KEPT:
                del states[0]

    def overruns(self, user: str, kind: str, now: int) -> Overruns | None:
        """From jobs that ended before `now`; None where the user has run none."""
        own = _before(self._users[kind].get(user, []), now)
        everybody = _before(self._all[kind], now)
        return None if own is None or everybody is None else Overruns(own, everybody)

    def to_json(self) -> dict[str, Any]:
        """The whole state as JSON values."""
        return {"users": self._users, "all": self._all}

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> Caution:
        """What `to_json` described. Raises KeyError, TypeError or ValueError."""
        caution = cls()
        for kind in KINDS:
            users = dict(stored["users"][kind])
            caution._users[kind] = {str(user): _states(rows) for user, rows in users.items()}
            caution._all[kind] = _states(stored["all"][kind])
        return caution


def distrust(overruns: Overruns | None, num_units: int) -> Distrust:
    """What that means for a job of so many GPUs (or CPUs); NONE where there is no reason."""
    if overruns is None:
        return NONE
    own, everybody = overruns
    believed = (num_units * BELIEVED_S) ** 2
    overrun = own.overrun / (own.weight + believed)
    others_weight = max(0.0, everybody.weight - own.weight)
    others = (everybody.overrun - own.overrun) / (others_weight + believed)
    factor = math.exp(overrun - max(0.0, others)) / TOLERATED
    if factor <= 1.0:
        return NONE
    return Distrust(min(MAX_CAUTION, factor), math.exp(own.length / own.weight) / num_units)


def _before(states: Sequence[_State], now: int) -> _State | None:
    """The last state before `now`, aged to it."""
    at = bisect.bisect_left(states, (now,))
    return _at(states[at - 1], now) if at else None


def _at(state: _State, time: int) -> _State:
    """`state` when it has aged to `time`; never younger."""
    kept = 0.5 ** (max(0, time - state.time) / HALF_LIFE_S)
    sums = (float(value * kept) for value in state[1:])
    return _State(max(time, state.time), *sums)


def _states(rows: Iterable[Any]) -> list[_State]:
    return [_state(row) for row in rows]


def _state(row: Any) -> _State:
    time, *sums = row
    if isinstance(time, bool) or not isinstance(time, int):
        raise ValueError(f"{time!r} is no time")
    weight, overrun, length = map(float, sums)
    if not (0 < weight < math.inf and math.isfinite(overrun) and math.isfinite(length)):
        raise ValueError("an overrun is no number")
    return _State(time, weight, overrun, length)
