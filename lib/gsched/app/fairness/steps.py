"""The steps of a course: hours, days or longer, so that a window has no more than fit."""

from __future__ import annotations

import math

import numpy as np

from gsched.model.jobtable import FloatColumn
from gsched.model.times import DAY_S

MOST_STEPS = 72
_STEPS_S = (3600, 3 * 3600, 6 * 3600, 12 * 3600, DAY_S, 7 * DAY_S, 30 * DAY_S)
_MONDAY_S = 4 * DAY_S
"""From the epoch, a Thursday, to the first Monday: weeks begin there."""


def step_of(length_s: float) -> int:
    """Seconds of a step for a window of such a length: the shortest that is not too short."""
    for step_s in _STEPS_S:
        if length_s <= MOST_STEPS * step_s:
            return step_s
    return _STEPS_S[-1] * math.ceil(length_s / (MOST_STEPS * _STEPS_S[-1]))


def edges_of(since: int, until: int) -> FloatColumn:
    """The window's two ends, and each whole step (UTC) between."""
    step_s = step_of(until - since)
    offset_s = _MONDAY_S if step_s == 7 * DAY_S else 0
    first = since - (since - offset_s) % step_s + step_s
    return np.array([since, *range(first, until, step_s), until], dtype=np.float64)
