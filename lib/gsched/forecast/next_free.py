"""Which running job will make room next, and intervals of what samples say."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gsched.forecast.field_run import FieldRun
from gsched.forecast.outlook import Interval, NextFree
from gsched.forecast.sampling import Floats
from gsched.forecast.situation import Demand, Situation


def intervals(samples: Floats, coverage: float) -> list[Interval]:
    """By row: the median of its samples, and the quantiles that leave out equally much on both
    sides. Weibull's: as many further samples lie between them as they say (numpy's own enclose
    less where samples are few).
    """
    tail = (1.0 - coverage) / 2.0
    ends = np.quantile(samples, (0.5, tail, 1.0 - tail), axis=1, method="weibull")
    return [Interval(*row) for row in ends.T.tolist()]


class NextFrees:
    """The next to free something for each kind of demand; `found` in the order of the questions."""

    def __init__(
        self,
        situation: Situation,
        fields: Sequence[FieldRun],
        remaining_s: Floats,
        coverage: float,
    ) -> None:
        """`remaining_s`: of running jobs (rows), in each sample."""
        self._situation, self._fields = situation, fields
        self._remaining_s, self._coverage = remaining_s, coverage
        self._median_s = np.median(remaining_s, axis=1) if len(remaining_s) else np.zeros(0)
        self._known: dict[tuple[int, int], int | None] = {}
        self.found: list[NextFree] = []

    def row_for(self, demand: Demand) -> int | None:
        """The row in `found` of who makes room for such a job; None where nobody runs there."""
        kind = self._fields[demand.field].kind_of(demand)
        question = (demand.field, kind)
        if question not in self._known:
            answer = self._look(demand.field, kind)
            self._known[question] = None if answer is None else len(self.found)
            if answer is not None:
                self.found.append(answer)
        return self._known[question]

    def _look(self, field: int, kind: int) -> NextFree | None:
        run, situation = self._fields[field], self._situation
        usable = (
            (row, [piece for piece in pieces if run.accepts(kind, piece.node)])
            for row, pieces in zip(run.holders, run.held, strict=False)  # behind: what is blocked
        )
        candidates = [(row, pieces) for row, pieces in usable if pieces]
        if not candidates:
            return None
        row, pieces = min(candidates, key=lambda each: self._median_s[each[0]])
        return NextFree(
            job_id=situation.running[row].job_id,
            nodes=tuple(situation.nodes[piece.node].name for piece in pieces),
            units=sum(piece.units for piece in pieces),
            end=intervals(situation.as_of + self._remaining_s[[row]], self._coverage)[0],
        )
