"""For how long jobs were there, and for how long of that they held GPUs."""

from __future__ import annotations

import numpy as np

from gsched.sim.jobs import Floats
from gsched.sim.result import SimResult


def left_s(result: SimResult, until_s: float) -> Floats:
    """The end of each job, or of the simulation; a job that came after that was never active."""
    return np.where(result.finished, result.end_s, np.maximum(until_s, result.jobs.submit_s))


def held_s(result: SimResult, until_s: float, worth: Floats | None = None) -> Floats:
    """For how long each job held GPUs between its first start and its end, or `until_s`; each
    segment times its `worth`.

    `SimResult.run_s` is more: it has the waking of nodes before the first start, and the clean-up
    after the end, when the job has what it came for and only its GPUs are not free yet.
    """
    told = result.segments
    begin_s = np.fmax(told.start_s, result.start_s[told.job])
    stop_s = np.fmin(told.end_s, left_s(result, until_s)[told.job])
    each_s = np.maximum(stop_s - begin_s, 0.0)
    if worth is not None:
        each_s = each_s * worth
    total_s: Floats = np.bincount(told.job, each_s, len(result.jobs)).astype(np.float64)
    return total_s
