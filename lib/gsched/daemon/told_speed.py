"""What one job's heartbeats say of its speed and its end, held against this host's clock. Pure.

A heartbeat is its owner's word (``heartbeat_file``). Here it is asked whether it is of this
attempt, written lately, and in keeping with what was seen before: steps that come much faster than
the job says they do contradict it, and nothing is taken from that attempt any more. Whoever tells
consistent lies is believed, at the own risk alone: see ``policy.remaining``.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass
from itertools import pairwise
from statistics import NormalDist, pstdev

from gsched.model.job import JobState, JobView, Prediction, PredictionKind, Progress
from gsched.telemetry.heartbeat_file import ALIVE_INTERVAL_S, HeartbeatRecord
from gsched.telemetry.heartbeats import CLOCK_SKEW_S

MODEL_ID = "heartbeat"

MAX_AGE_S = ALIVE_INTERVAL_S + 60.0
"""A process that lives writes once a minute; an older heartbeat says nothing of a job that runs."""

SILENT_S = 300.0
"""Without a new step for so long, and for ten steps' time, a job evaluates or hangs: its speed is
not known."""

LOADS_S = 600.0
"""For so long a job that begins again goes by what it told in the attempt before."""

_APART_S = 20.0  # sightings that are nearer are one
_MOST_SIGHTINGS = 32
_LONG_S = 600.0  # so long a look at a job counts for more than its own word
_TOO_FAST = 4.0
_MOST_RESTART_S, _EARLY_S = 1800.0, 600.0
_SHORTEST_STEP_S, _LONGEST_STEP_S = 1e-4, 1e7
_LEAST_SPREAD, _FIRST_SPREAD, _MOST_SPREAD = 0.03, 0.15, 0.7
_NORMAL = [(p, NormalDist().inv_cdf(p)) for p in (0.02, 0.1, 0.25, 0.5, 0.75, 0.9, 0.98)]

_RUNS = frozenset({JobState.RUNNING, JobState.SUSPENDED})


@dataclass(frozen=True, slots=True)
class Telling:
    """How far a job is, and its predictions of kind SPEED and ITERATIONS."""

    progress: Progress
    predictions: tuple[Prediction, Prediction]


class JobWatch:
    """The heartbeats of one job, as they were seen.

    `doubt` is why those of the present start are not believed, "" = they are. `restart_s` are the
    seconds on its GPUs that its last restart has cost: until it went on, and for what it did again.
    """

    def __init__(self) -> None:
        self.doubt = ""
        self.restart_s: float | None = None
        self._run = ""
        self._restart = -1
        self._seen: deque[tuple[float, int]] = deque()  # (by this host's clock, steps)
        self._is_first = False  # of `_seen` nothing is a sighting yet
        self._again = 0  # steps that the last restart has to do once more
        self._last: tuple[float, float] | None = None  # seconds a step, and their spread

    def take(self, record: HeartbeatRecord, view: JobView, at: float, now: float) -> Telling | None:
        """What a heartbeat that was read at `at` says of `view` at `now` (epoch); None: nothing."""
        runs = view.state in _RUNS
        if record.total_steps is None or not _is_of(record, view, now):
            return None
        if not runs or record.restart < view.restarts:
            return self._saved(record, now)
        if record.run != self._run or record.restart != self._restart:
            self._begin(record, view)
        self._note(record, at)
        if self.doubt or record.ended_time is not None or not _is_fresh(record, now):
            return None
        speed = self._speed(record)
        if speed is None:
            return None
        self._last = speed
        self._note_restart(record, view, speed[0])
        step_s = speed[0]
        if now - record.step_time > max(SILENT_S, 10 * step_s):
            return None
        since = max(min(record.step_time, now), now - step_s)  # at most one step is under way
        return _telling(record, record.step, speed, since)

    def _saved(self, record: HeartbeatRecord, now: float) -> Telling | None:
        """A job that waits or loads again goes on from its newest checkpoint, as fast as before."""
        if record.restart != self._restart:  # this host has not seen that attempt
            self._begin(record, None)
        speed = self._last or _told(record)
        if self.doubt or speed is None:
            return None
        saved = max(record.first_step, record.committed_step or 0)
        return _telling(record, min(saved, record.step), speed, now)

    def _begin(self, record: HeartbeatRecord, view: JobView | None) -> None:
        """Another start: what was seen of the speed before is kept until it is known anew."""
        self._again = 0
        if self._seen and record.restart > self._restart >= 0:
            self._again = max(0, self._seen[-1][1] - record.first_step)
        if record.restart != self._restart:
            self.restart_s = None
        self._run, self._restart, self.doubt = record.run, record.restart, ""
        self._seen.clear()
        if view is not None and view.allocation is not None:
            self._seen.append((view.allocation.start_time - CLOCK_SKEW_S, record.first_step))
        self._is_first = bool(self._seen)

    def _note(self, record: HeartbeatRecord, at: float) -> None:
        seen = self._seen
        if seen and record.step < seen[-1][1]:  # a trainer that begins again
            seen.clear()
        if not seen or at - seen[-1][0] >= _APART_S:
            if seen and not self.doubt:
                self.doubt = _contradiction(record, seen[-1], at)
            if self._is_first:  # that was no sighting
                seen.clear()
                self._is_first = False
            seen.append((at, record.step))
            if len(seen) > _MOST_SIGHTINGS:  # every other one: the look stays as long
                self._seen = deque([*list(seen)[::2], seen[-1]])
        if not self.doubt and at + CLOCK_SKEW_S < record.written_time:
            self.doubt = "it is from the future"

    def _note_restart(self, record: HeartbeatRecord, view: JobView, step_s: float) -> None:
        """Once an attempt. Of one that is seen late only how long it took to begin is known: what
        it did between its steps since is not the restart's.
        """
        if view.allocation is None or self.restart_s is not None or record.restart == 0:
            return
        steps = record.step - record.first_step
        if steps <= 0:
            return
        cost_s = record.started_time - view.allocation.start_time
        ran_s = record.step_time - record.started_time
        if ran_s <= _EARLY_S:
            cost_s += ran_s - steps * step_s
        cost_s = max(0.0, cost_s) + self._again * step_s
        self.restart_s = min(_MOST_RESTART_S, cost_s)

    def _speed(self, record: HeartbeatRecord) -> tuple[float, float] | None:
        """Seconds a step, and by how much they may differ in the end (a standard deviation of the
        logarithm): by the job's word, and by this host's clock where that has seen it for long.
        """
        told, own = _told(record), self._measured()
        if told is None or own is None:
            return told if own is None else own
        apart = abs(math.log(told[0] / own[0]))
        return own[0], min(_MOST_SPREAD, max(own[1], apart / 2))

    def _measured(self) -> tuple[float, float] | None:
        if len(self._seen) < 3:
            return None
        (first_at, first), (last_at, last) = self._seen[0], self._seen[-1]
        steps_s = [
            (b_at - a_at) / (b - a) for (a_at, a), (b_at, b) in pairwise(self._seen) if b > a
        ]
        if last_at - first_at < _LONG_S or last - first < 3 or len(steps_s) < 2:
            return None
        step_s = _within((last_at - first_at) / (last - first))
        # what the parts of the look differ by, the whole differs less by
        spread = pstdev([math.log(_within(s)) for s in steps_s]) / math.sqrt(len(steps_s))
        return step_s, min(_MOST_SPREAD, max(_LEAST_SPREAD, spread))


def _told(record: HeartbeatRecord) -> tuple[float, float] | None:
    """By its own word: the last ten minutes, and the last steps."""
    if not record.pace_s:
        return None
    step_s = _within(record.pace_s)
    apart = 0.0 if not record.iteration_s else math.log(step_s / _within(record.iteration_s))
    return step_s, min(_MOST_SPREAD, max(_FIRST_SPREAD, abs(apart) / 2))


def _telling(
    record: HeartbeatRecord, step: int, speed: tuple[float, float], since: float
) -> Telling:
    step_s, spread = speed
    total = record.total_steps or 0
    as_of = math.floor(since)
    rates = tuple([(p, math.exp(spread * z) / step_s) for p, z in _NORMAL])
    left = float(max(0, total - step))
    return Telling(
        Progress(step, total, as_of),
        (
            _prediction(PredictionKind.SPEED, 1.0 / step_s, rates, as_of),
            _prediction(PredictionKind.ITERATIONS, left, (), as_of),
        ),
    )


def _prediction(
    kind: PredictionKind, mean: float, quantiles: tuple[tuple[float, float], ...], as_of: int
) -> Prediction:
    return Prediction(kind, mean, quantiles, MODEL_ID, MODEL_ID, 0, as_of)


def _is_of(record: HeartbeatRecord, view: JobView, now: float) -> bool:
    """Whether a heartbeat is of the attempt that runs or, of a job that waits or has just begun
    again, of the last one.
    """
    held = view.allocation if view.state in _RUNS else None
    if held is not None and record.restart == view.restarts:
        return record.started_time >= held.start_time - CLOCK_SKEW_S
    waits_or_loads = view.state is JobState.PENDING or (
        held is not None and now - held.start_time <= LOADS_S
    )
    is_later = record.started_time >= view.first_submit - CLOCK_SKEW_S
    return waits_or_loads and is_later and record.restart < view.restarts


def _is_fresh(record: HeartbeatRecord, now: float) -> bool:
    return now - record.written_time <= MAX_AGE_S


def _contradiction(record: HeartbeatRecord, before: tuple[float, int], at: float) -> str:
    """Why the steps since the sighting `before` cannot have been as the job tells; "" if they can.

    The job may have written long before this host read it, then and now, but not for longer than
    a heartbeat lives.
    """
    then, step = before
    steps, told = record.step - step, [s for s in (record.iteration_s, record.pace_s) if s]
    if not told or steps <= 0:
        return ""
    passed_s = at - then + MAX_AGE_S
    if steps * min(told) > _TOO_FAST * passed_s:
        return f"{steps} steps of {min(told):.3g} s came within {passed_s:.0f} s"
    return ""


def _within(step_s: float) -> float:
    return min(_LONGEST_STEP_S, max(_SHORTEST_STEP_S, step_s))
