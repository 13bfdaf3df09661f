"""What was known of a log's cluster at one moment: the situation that a forecast starts from.

Known at t is what happened before t (starts, ends), and the submissions up to the job that is asked
about: of those submitted in the same second the ones before it in the log. A job that starts or
ends at t itself still waits or runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gsched.forecast.situation import (
    Demand,
    Field,
    Node,
    PastArrival,
    RunningJob,
    Situation,
    WaitingJob,
)
from gsched.sim.core.reservation import NO_LIMIT_S
from support.forecast_log import ReplayLog
from support.forecast_order import SUBMISSION, order_values

Floats = NDArray[np.float64]
Rows = NDArray[np.int64]

ARRIVALS_S = 14 * 86_400.0
MOST_ARRIVALS = 20_000


@dataclass(frozen=True, eq=False)
class Known:
    """A log as it is known when the job of `row` is submitted, at `now`.

    `order` is one of ``support.forecast_order``.
    """

    log: ReplayLog
    row: int
    order: str

    @property
    def now(self) -> float:
        """Epoch seconds."""
        return float(self.log.submit[self.row])

    @property
    def submitted(self) -> slice:
        """Rows of the jobs that are known."""
        return slice(0, self.row + 1)

    def waiting(self) -> Rows:
        """Rows of the jobs that wait, in the order of the queue; the one asked about is in it."""
        rows = np.flatnonzero(self.log.start[self.submitted] >= self.now)
        return _sorted(rows, self.order_values())

    def order_values(self) -> Floats:
        """For each job that is known the number by which it stands in the queue, or would."""
        return order_values(self.log, self.order, self.row + 1, self.now)

    def ahead(self) -> Rows:
        """Rows of the jobs that wait and stand before the one asked about."""
        waiting = self.waiting()
        return waiting[: int(np.flatnonzero(waiting == self.row)[0])]

    def running(self) -> Rows:
        """Rows of the jobs that run."""
        seen = self.submitted
        return np.flatnonzero((self.log.start[seen] < self.now) & (self.log.end[seen] >= self.now))

    def started(self) -> Rows:
        """Rows of the jobs that have started, in the order of their starts."""
        rows = np.flatnonzero(self.log.start[self.submitted] < self.now)
        return _sorted(rows, self.log.start)


class Situations:
    """Makes situations of a log. `quantiles_s` (a row a job, at `levels`) are of its run time as
    they were predicted when it was submitted.
    """

    def __init__(self, log: ReplayLog, quantiles_s: Floats, levels: Sequence[float]) -> None:
        self._log = log
        self._levels = tuple(levels)
        self._quantiles_s = [tuple(row) for row in quantiles_s.tolist()]
        self._limit_s = [None if np.isnan(s) else float(s) for s in log.limit_s.tolist()]
        self._demands = [(Demand(0, n),) for n in log.units.tolist()]
        self._nodes = tuple(
            Node(f"n{number}", 0, log.node_units) for number in range(log.num_nodes)
        )

    def of(self, known: Known) -> Situation:
        """The situation in which the job of ``known.row`` was submitted."""
        begin = self._arrivals_from(known)
        order = known.order_values().tolist()
        return Situation(
            as_of=known.now,
            levels=self._levels,
            fields=(Field("all", "unit"),),
            nodes=self._nodes,
            running=tuple(self._running(row) for row in known.running().tolist()),
            waiting=tuple(self._waiting(row, order[row]) for row in known.waiting().tolist()),
            arrivals=self._arrivals(known, begin, order),
            arrivals_from=begin,
            order_per_s=_per_s(known),
        )

    def by_limits(self, known: Known) -> Situation:
        """As Slurm's backfill scheduler sees it: every job lasts for its limit, nobody comes."""
        order = known.order_values().tolist()
        return Situation(
            as_of=known.now,
            levels=(0.5,),
            fields=(Field("all", "unit"),),
            nodes=self._nodes,
            running=tuple(self._running(row, by_limit=True) for row in known.running().tolist()),
            waiting=tuple(
                self._waiting(row, order[row], by_limit=True) for row in known.waiting().tolist()
            ),
            order_per_s=_per_s(known),
        )

    def _running(self, row: int, by_limit: bool = False) -> RunningJob:
        return RunningJob(
            job_id=str(row),
            started_at=float(self._log.start[row]),
            limit_s=self._limit_s[row],
            quantiles_s=self._lasting(row, by_limit),
            demands=self._demands[row],
        )

    def _waiting(self, row: int, order: float, by_limit: bool = False) -> WaitingJob:
        return WaitingJob(
            job_id=str(row),
            demands=self._demands[row],
            order=order,
            submitted_at=float(self._log.submit[row]),
            limit_s=self._limit_s[row],
            quantiles_s=self._lasting(row, by_limit),
        )

    def _lasting(self, row: int, by_limit: bool) -> tuple[float, ...]:
        limit_s = self._limit_s[row]
        if by_limit:
            return (limit_s if limit_s is not None else NO_LIMIT_S,)
        return self._quantiles_s[row]

    def _arrivals_from(self, known: Known) -> float:
        """Since when arrivals are told: two weeks, fewer whole days where that were too many."""
        log = self._log
        begin = max(known.now - ARRIVALS_S, float(log.submit[0]))
        if known.row > MOST_ARRIVALS:
            begin = max(begin, float(log.submit[known.row - MOST_ARRIVALS]))
        return begin

    def _arrivals(
        self, known: Known, begin: float, order: Sequence[float]
    ) -> tuple[PastArrival, ...]:
        """Under fair share with the order that their user has now."""
        first = int(np.searchsorted(self._log.submit, begin, side="left"))
        has_ended = (self._log.end[: known.row] < known.now).tolist()
        if known.order == SUBMISSION:
            order = [0.0] * known.row
        return tuple(
            [self._arrival(row, has_ended[row], order[row]) for row in range(first, known.row)]
        )

    def _arrival(self, row: int, has_ended: bool, order: float) -> PastArrival:
        """With its true run time once it has ended."""
        quantiles_s = self._quantiles_s[row]
        if has_ended:
            quantiles_s = (float(self._log.end[row] - self._log.start[row]),) * len(quantiles_s)
        return PastArrival(
            submitted_at=float(self._log.submit[row]),
            demands=self._demands[row],
            order=order,
            limit_s=self._limit_s[row],
            quantiles_s=quantiles_s,
        )


def _per_s(known: Known) -> float:
    return 1.0 if known.order == SUBMISSION else 0.0


def _sorted(rows: Rows, values: Floats) -> Rows:
    in_order: Rows = rows[np.argsort(values[rows], kind="stable")]
    return in_order
