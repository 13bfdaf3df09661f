"""Which deadlines were missed."""

from __future__ import annotations

from dataclasses import asdict, dataclass

import numpy as np

from gsched.sim.jobs import Floats, Ints, SimJobs
from gsched.sim.result import ADMITTED, REFUSED, SimResult


@dataclass(frozen=True, slots=True)
class Deadlines:
    """Of the jobs with a deadline.

    `unknown` had not ended when an interrupted simulation stopped before their deadlines. Rates
    are of the others; the weighted one counts each job with its weight. Of a policy that answers
    requests: how many were `admitted` and `refused`, and how many of each were missed (a job that
    is refused and ends in time has not missed); None of others.
    """

    jobs: int
    missed: int
    unknown: int
    miss_rate: float | None
    weighted_miss_rate: float | None
    admitted: int | None = None
    admitted_missed: int | None = None
    refused: int | None = None
    refused_missed: int | None = None

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


def deadlines(jobs: SimJobs, missed: Floats, answers: Ints | None = None) -> Deadlines:
    """Sum up what `missed_deadlines` tells; `answers` as a result has them."""
    has, known, late = ~np.isnan(jobs.deadline_s), ~np.isnan(missed), missed == 1
    number, weight = int(known.sum()), float(jobs.weight[known].sum())
    told: dict[str, int] = {}
    for name, answer in (("admitted", ADMITTED), ("refused", REFUSED)):
        if answers is not None:
            mine = answers == answer
            told |= {name: int(mine.sum()), f"{name}_missed": int((mine & late).sum())}
    return Deadlines(
        **told,
        jobs=int(has.sum()),
        missed=int(late.sum()),
        unknown=int(has.sum()) - number,
        miss_rate=int(late.sum()) / number if number else None,
        weighted_miss_rate=float(jobs.weight[late].sum()) / weight if weight else None,
    )
