"""How far what is not known of waits could change the difference: the verdict must stand it.

A job that still waits is censored: its wait is longer than what has passed so far, and nobody
knows by how much. Left out, it would let an arm look the better the longer it keeps its jobs. So
the difference is told twice more, once with everything unknown at its worst for acting and at its
best for the control, once the other way round.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gsched.app.impact_arms import Arm, FloatColumn, Jobs
from gsched.app.impact_statistics import Difference, compare

_MEAN = "queueing_mean_s"


@dataclass(frozen=True, slots=True)
class Bounds:
    """The difference of the mean time in the queue, with all that is not known against one arm."""

    acting_worst: Difference
    control_worst: Difference

    def allow(self, verdict: str) -> bool:
        """Whether `verdict` (``shorter``, ``longer``) holds also when all goes against it."""
        told = self.acting_worst if verdict == "shorter" else self.control_worst
        if told.value is None or not told.is_shown:
            return False
        return (told.value < 0) is (verdict == "shorter")


def bounds_of(arms: Sequence[Arm], as_of: int, *, same_days: bool) -> Bounds:
    """Both bounds, of the acting arm and the control.

    At worst, a job that still waits at `as_of` (epoch) will have waited twice as long as so far,
    or as long as the longest of all that have started; at best it starts now. A job that ended
    without a start waited until its end; one of unknown times as long as the longest, or not at
    all. Which of them would have started when is anybody's guess: these are conventions, and told.
    """
    acting, control = arms
    starts = (arm.counted.queueing_s.max(initial=0.0) for arm in arms)
    longest_s = float(max(starts))

    def told(acting_longest_s: float | None, control_longest_s: float | None) -> Difference:
        return compare(
            _complete(acting, as_of, acting_longest_s),
            _complete(control, as_of, control_longest_s),
            0,
            same_days=same_days,
            only=(_MEAN,),
        )[_MEAN]

    return Bounds(told(longest_s, None), told(None, longest_s))


def waited_so_far(jobs: Jobs, as_of: int) -> FloatColumn:
    """How long jobs that have not started have waited by `as_of`."""
    return np.maximum(as_of - jobs.first_submit, 0).astype(np.float64)


def _complete(arm: Arm, as_of: int, longest_s: float | None) -> Jobs:
    """All jobs of an arm, each with a wait: at its worst with `longest_s`, at its best without."""
    so_far = waited_so_far(arm.waiting, as_of)
    untold = np.full(len(arm.untold), longest_s or 0.0)
    return arm.counted.joined(
        arm.waiting.waited(so_far if longest_s is None else np.maximum(2 * so_far, longest_s)),
        arm.given_up.waited(np.maximum(arm.given_up.end_time - arm.given_up.first_submit, 0.0)),
        arm.untold.waited(untold),
    )
