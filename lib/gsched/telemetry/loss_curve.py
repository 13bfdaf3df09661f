"""The loss of a training run in at most 128 points, however long it runs; and its attempts.

The curve is that of the run as it counts: when an attempt goes on from a checkpoint, the points
behind that step are dropped, for those steps are trained again.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

MAX_POINTS = 128
MAX_ATTEMPTS = 16


class Point(NamedTuple):
    """The mean of `num` losses that were seen one after another, the last one at `step`."""

    step: int
    loss: float
    num: int


class Attempt(NamedTuple):
    """One start of a training run: it began after `first_step` steps and came to `last_step`.

    `restart` is Slurm's count of the job's requeues then; times are epoch seconds.
    """

    restart: int
    first_step: int
    last_step: int
    started_time: float
    step_time: float


@dataclass(slots=True)
class LossCurve:
    """Points by rising step, each of `stride` losses (the last one of fewer, while it grows)."""

    points: list[Point] = field(default_factory=list)
    attempts: list[Attempt] = field(default_factory=list)
    stride: int = 1

    def begin(self, attempt: Attempt) -> None:
        """A further attempt goes on after `attempt.first_step`; what was seen behind it is void."""
        self.points = [point for point in self.points if point.step <= attempt.first_step]
        self.attempts = [*self.attempts, attempt][-MAX_ATTEMPTS:]

    def reached(self, step: int, step_time: float) -> None:
        """The present attempt has come to `step`."""
        self.attempts[-1] = self.attempts[-1]._replace(last_step=step, step_time=step_time)

    def add(self, step: int, loss: float) -> None:
        """One more loss, finite; where steps go back, what was seen of them is void."""
        while self.points and self.points[-1].step >= step:
            self.points.pop()
        last = self.points[-1] if self.points else None
        if last is not None and last.num < self.stride:
            self.points[-1] = _joined(last, Point(step, loss, 1))
            return
        if len(self.points) == MAX_POINTS:
            pairs = zip(self.points[::2], self.points[1::2], strict=True)
            self.points = [_joined(first, second) for first, second in pairs]
            self.stride *= 2
        self.points.append(Point(step, loss, 1))


def _joined(first: Point, second: Point) -> Point:
    num = first.num + second.num
    share = second.num / num
    return Point(second.step, first.loss * (1 - share) + second.loss * share, num)
