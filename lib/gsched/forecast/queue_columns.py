"""Jobs that wait or have come before, as the columns that one field's simulation takes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gsched.forecast.field_run import FIRST, Comers, FieldRun, Flags
from gsched.forecast.sampling import RunTimes
from gsched.forecast.situation import PastArrival, RunningJob, Situation, WaitingJob
from gsched.sim.jobs import ANY

Submitted = WaitingJob | PastArrival
Rows = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class InField:
    """Those of some jobs that ask for units of one field: `rows` are theirs among all, and `comers`
    has as many. `waits` tells who waits for that field; the others come when they have started in
    an earlier one, in front of all. `fits` tells who finds room there at all.
    """

    rows: Rows
    comers: Comers
    waits: Flags
    fits: Flags

    def place_of(self, rows: Rows) -> Rows:
        """Where the jobs with those rows stand here, ANY for those that are not here."""
        place = np.full(max(self.rows.max(initial=0), rows.max(initial=0)) + 1, ANY)
        place[self.rows] = np.arange(len(self.rows))
        found: Rows = place[rows]
        return found

    def changed(self, row: int | None, job: InField, new_row: int) -> InField:
        """With another job, which gets the row `new_row`, in the place of the one in `row`, or
        behind all.
        """
        before = self.rows < (new_row if row is None else row)
        after = ~before & (self.rows != row)
        first, last = self.comers.of(before), self.comers.of(after)

        def around(column: NDArray[Any], middle: NDArray[Any]) -> NDArray[Any]:
            return np.concatenate((column[before], middle, column[after]))

        return InField(
            rows=around(self.rows, np.array([new_row])),
            comers=first.and_then(job.comers).and_then(last),
            waits=around(self.waits, job.waits),
            fits=around(self.fits, job.fits),
        )


def in_field(jobs: Sequence[Submitted], field: int, run: FieldRun, as_of: float) -> InField:
    """The columns of those of `jobs` that have a demand in that field."""
    found = [
        (row, place, demand)
        for row, job in enumerate(jobs)
        for place, demand in enumerate(job.demands)
        if demand.field == field
    ]
    waits = np.array([place == 0 for _, place, _ in found], dtype=np.bool_)
    order = np.array([jobs[row].order for row, _, _ in found], dtype=np.float64)
    limits = [np.nan if (s := jobs[row].limit_s) is None else s for row, _, _ in found]
    comers = Comers(
        submit_s=np.array([_comes_at(jobs[row]) for row, _, _ in found]) - as_of,
        order=np.where(waits, order, FIRST),
        units=np.array([demand.units for _, _, demand in found], dtype=np.int32),
        nodes=np.array([demand.nodes for _, _, demand in found], dtype=np.int32),
        kind=np.array([run.kind_of(demand) for _, _, demand in found], dtype=np.int32),
        limit_s=np.array(limits, dtype=np.float64),
    )
    rows = np.array([row for row, _, _ in found], dtype=np.int64)
    return InField(rows, comers, waits, run.fits(comers))


def run_times(situation: Situation, jobs: Sequence[Submitted | RunningJob]) -> RunTimes:
    """The distributions of the jobs' run times."""
    quantiles_s = np.array([job.quantiles_s for job in jobs], dtype=np.float64)
    limits = [np.inf if job.limit_s is None else job.limit_s for job in jobs]
    return RunTimes(situation.levels, quantiles_s, np.array(limits, dtype=np.float64))


def _comes_at(job: Submitted) -> float:
    if isinstance(job, WaitingJob) and job.eligible_at is not None:
        return max(job.submitted_at, job.eligible_at)
    return job.submitted_at
