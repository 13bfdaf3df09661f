"""Which deadlines were missed."""

from __future__ import annotations

from dataclasses import asdict, dataclass

import numpy as np

from gsched.sim.jobs import Floats, SimJobs
from gsched.sim.result import SimResult


@dataclass(frozen=True, slots=True)
class Deadlines:
    """Of the jobs with a deadline.

    `unknown` had not ended when an interrupted simulation stopped before their deadlines. Rates
    are of the others; the weighted one counts each job with its weight.
    """

    jobs: int
    missed: int
    unknown: int
    miss_rate: float | None
    weighted_miss_rate: float | None

    def document(self) -> dict[str, float | int | None]:
        """With the names of the fields as keys."""
        return asdict(self)


def missed_deadlines(result: SimResult, until_s: float) -> Floats:
    """By job: 1 missed, 0 met, NaN no deadline or, as simulated up to `until_s`, not known yet.

    A job that ends at its deadline meets it.
    """
    deadline_s = result.jobs.deadline_s
    ended_s = np.where(
        result.finished, result.end_s, np.where(deadline_s < until_s, np.inf, np.nan)
    )
    missed = (ended_s > deadline_s).astype(np.float64)
    known: Floats = np.where(np.isnan(deadline_s) | np.isnan(ended_s), np.nan, missed)
    return known


def deadlines(jobs: SimJobs, missed: Floats) -> Deadlines:
    """Sum up what `missed_deadlines` tells."""
    has, known, late = ~np.isnan(jobs.deadline_s), ~np.isnan(missed), missed == 1
    number, weight = int(known.sum()), float(jobs.weight[known].sum())
    return Deadlines(
        jobs=int(has.sum()),
        missed=int(late.sum()),
        unknown=int(has.sum()) - number,
        miss_rate=int(late.sum()) / number if number else None,
        weighted_miss_rate=float(jobs.weight[late].sum()) / weight if weight else None,
    )
