"""The demand of all pools, kept up: a history read once, then the steps that the daemon saw."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from gsched.app.ces.kept_pool import KeptPool, Origin, method_of
from gsched.app.ces.messages import (
    STEP_S,
    UNREADABLE,
    Answer,
    AskedPool,
    Question,
    SeriesOptions,
    ToldPool,
)
from gsched.app.ces.series import before_history, demand_of_pools, unnamed_share
from gsched.demand.jobs import Span
from gsched.demand.series import DemandSeries
from gsched.errors import GschedError
from gsched.model.node_use import NodeUse
from gsched.model.times import DAY_S

ReadUses = Callable[[str, int, int], Sequence[NodeUse]]
"""What a cluster's history knows of a time (epoch seconds). Raises GschedError."""


class DemandKeeper:
    """Answers questions; what was forecast once is kept from one to the next.

    No question is worked on for much longer than it allows: a pool that there was no time for is
    gone on with in the next one.
    """

    def __init__(
        self, read_uses: ReadUses, stopwatch: Callable[[], float] = time.process_time
    ) -> None:
        self._read_uses = read_uses
        self._stopwatch = stopwatch
        self._kept: dict[str, KeptPool] = {}
        self._about: tuple[str, SeriesOptions] | None = None

    def answer(self, question: Question) -> Answer:
        """Raises ConfigError for a zone or a country that is not known."""
        began = self._stopwatch()
        until = question.now - question.now % STEP_S
        if self._about != (question.cluster, question.options):
            self._kept.clear()
        self._about = (question.cluster, question.options)
        self._drop(question)
        problems = [self._make(question, until), self._extend(question, until)]
        self._walk(began + question.cpu_s)
        told = [pool.told() for pool in self._kept.values() if not pool.steps_left]
        left = sum(pool.steps_left > 0 for pool in self._kept.values())
        unknown = [pool.name for pool in question.pools if pool.name not in self._kept]
        told += [ToldPool(name, until, (), None, UNREADABLE) for name in unknown]
        problem = next(filter(None, problems), "")
        return Answer(tuple(told), left, problem, self._stopwatch() - began)

    def _drop(self, question: Question) -> None:
        """What is not asked about any more, or has to be made anew."""
        asked = {pool.name: frozenset(pool.nodes) for pool in question.pools}
        self._kept = {
            name: pool
            for name, pool in self._kept.items()
            if name in asked and not pool.must_be_renewed(asked[name], question.now)
        }

    def _make(self, question: Question, until: int) -> str:
        """Make the pools that there are not; why it could not be done, '' where it could."""
        new = [pool for pool in question.pools if pool.name not in self._kept]
        if not new:
            return ""
        options = question.options
        method = method_of(options)
        span = Span(until - options.history_days * DAY_S, until, STEP_S)
        try:
            uses = self._read_uses(question.cluster, span.since, span.until)
        except GschedError as error:
            return error.message
        begun = before_history(uses, span)
        unnamed = unnamed_share(uses, span)
        series = demand_of_pools(uses, _nodes(question), span, begun)
        for pool in new:
            own = _corrected(series[pool.name], pool)
            origin = Origin(question.now, frozenset(pool.nodes), unnamed)
            self._kept[pool.name] = KeptPool(pool.name, origin, own, method, options)
        return ""

    def _extend(self, question: Question, until: int) -> str:
        """Take in the steps since; of those that the daemon did not see the history is asked."""
        asked = {pool.name: dict(pool.seen) for pool in question.pools}
        unseen = [kept.unseen(until, asked[name]) for name, kept in self._kept.items()]
        since = min((at for at in unseen if at is not None), default=until)
        problem, others = "", dict[str, DemandSeries]()
        if since < until:
            try:
                uses = self._read_uses(question.cluster, since, until)
                others = demand_of_pools(uses, _nodes(question), Span(since, until, STEP_S))
            except GschedError as error:
                problem = error.message
        for name, kept in self._kept.items():
            kept.extend(until, asked[name], others.get(name))
        return problem

    def _walk(self, until: float) -> None:
        """Those that are nearly done first: one that is new takes long."""
        for pool in sorted(self._kept.values(), key=lambda each: (each.steps_left, each.name)):
            while pool.steps_left and self._stopwatch() < until:
                pool.advance()


def _nodes(question: Question) -> dict[str, Sequence[str]]:
    return {pool.name: pool.nodes for pool in question.pools}


def _corrected(series: DemandSeries, pool: AskedPool) -> DemandSeries:
    """With the steps that the daemon saw: ends of jobs reach the history a little late."""
    values = series.values.copy()
    for at, peak in pool.seen:
        row, rest = divmod(at - series.start, STEP_S)
        if not rest and 0 <= row < len(values):
            values[row] = peak
    return DemandSeries(series.start, series.step_s, values, series.unit)
