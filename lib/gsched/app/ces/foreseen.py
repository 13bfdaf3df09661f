"""The demand of pools in the daemon: what looks have seen, and what a child makes of it.

Looks hand over what they see and take what is known; they wait for nothing.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from gsched.app.ces.messages import (
    STEP_S,
    Answer,
    AskedPool,
    Question,
    SeriesOptions,
    ToldPool,
    line,
    read_answer,
)
from gsched.app.ces.steps import KEPT_STEPS, StepPeaks
from gsched.config.node_settings import CesTable
from gsched.daemon.demand_facts import DemandFacts
from gsched.daemon.forecast_child import ForecastChild
from gsched.engine.node_ports import Outlook, PoolSight
from gsched.model.decision import Reason

WORKER = "gsched.app.ces.worker"

PENDING = "demand.not-made-yet"
FAILS = "demand.process-fails"

_QUESTION_CPU_S = 30.0
"""Processor time of one question: pools that are new take 20 s each, and several questions."""
_STALE_S = 3 * STEP_S
"""A forecast that is older is told to be none, where none follows because its process fails."""
_LEAST_STEPS_AHEAD = 12
_MOST_STEPS_AHEAD = 147  # a day, from the oldest forecast that counts


def options_of(ces: CesTable) -> SeriesOptions:
    """How far the settings look back and ahead: twice their window, up to a day."""
    ahead = -(-max(2 * ces.future_window_s, ces.peak_window_s + _STALE_S) // STEP_S)
    return SeriesOptions(
        history_days=ces.history_days,
        steps_ahead=min(max(ahead, _LEAST_STEPS_AHEAD), _MOST_STEPS_AHEAD),
        past_steps=max(KEPT_STEPS, ces.past_window_s // STEP_S + 2),
        zone=ces.time_zone,
        country=ces.country,
        subdivision=ces.subdivision,
    )


class ForeseenDemand:
    """Implements ``gsched.engine.node_ports.DemandSource`` with forecasts of a child process.

    Called from the main thread; the answers come in that of the child.
    """

    def __init__(self, cluster: str, ces: CesTable, child: ForecastChild | None = None) -> None:
        self._cluster = cluster
        self._options = options_of(ces)
        self._child = child or ForecastChild(
            WORKER, lambda: dict(os.environ), what="forecast of demand"
        )
        self._lock = threading.Lock()
        self._steps = StepPeaks()
        self._told: dict[str, ToldPool] = {}
        self._asked_until = 0
        self._left = 0
        self._answers = 0
        self._cpu_s = 0.0
        self._problem = ""

    def configure(self, ces: CesTable) -> None:
        """Follow other settings from the next question on."""
        options = options_of(ces)
        with self._lock:
            if options != self._options:
                self._told.clear()
                self._asked_until = 0
            self._options = options
        if ces.mode == "off":
            self._child.dismiss()

    @contextmanager
    def running(self) -> Iterator[None]:
        """Make forecasts during the block."""
        with self._child.running():
            yield

    # -- for looks ------------------------------------------------------------------------------

    def seen(self, now: int, pools: Mapping[str, PoolSight]) -> None:
        """Take in a look, and ask the child where a step has ended or it was not done."""
        with self._lock:
            self._steps.look(now, {name: sight.busy for name, sight in pools.items()})
            self._told = {name: told for name, told in self._told.items() if name in pools}
            until = now - now % STEP_S
            is_due = until != self._asked_until or self._left or self._child.state.problem
            if not pools or not is_due:
                return
            question = Question(
                self._cluster,
                now,
                _QUESTION_CPU_S,
                self._options,
                tuple(
                    AskedPool(name, tuple(sight.nodes), self._steps.of(name))
                    for name, sight in sorted(pools.items())
                ),
            )
            if self._child.ask(_Work(question, self._take)):
                self._asked_until = until

    def outlook(self, pool: str, now: int) -> Outlook:
        """The newest forecast, and the steps up to now; a reason where there is no forecast."""
        problem = self._child.state.problem
        with self._lock:
            told = self._told.get(pool)
            steps = self._steps.of(pool)
        past = () if told is None else told.past
        known_until = 0 if told is None or not past else told.until
        past += tuple(float(peak) for at, peak in steps if at >= known_until)
        if told is None:
            return Outlook(past, STEP_S, None, Reason(FAILS if problem else PENDING))
        made_at = told.until if told.forecast is None else told.forecast.made_at
        if problem and abs(now - made_at) > _STALE_S:
            return Outlook(past, STEP_S, None, Reason(FAILS))
        return Outlook(past, STEP_S, told.forecast, told.why)

    @property
    def facts(self) -> DemandFacts:
        """How forecasts of demand fare."""
        with self._lock:
            forecasts = [told.forecast for told in self._told.values() if told.forecast is not None]
            made_at = max((forecast.made_at for forecast in forecasts), default=None)
            return DemandFacts(
                made_at, len(self._told), len(forecasts), self._left, self._cpu_s,
                self._child.state, self._problem,
            )  # fmt: skip

    # -- for the child's thread -----------------------------------------------------------------

    def _take(self, asked: Question, answer: Answer) -> None:
        with self._lock:
            self._cpu_s += answer.cpu_s
            if asked.options != self._options:
                return  # of settings that are no longer in force
            self._told |= {told.name: told for told in answer.told}
            self._left, self._problem = answer.left, answer.problem


@dataclass(frozen=True, slots=True)
class _Work:
    """Implements ``gsched.daemon.forecast_child.Work``."""

    asked: Question
    done: Callable[[Question, Answer], None]

    def question(self) -> str:
        """The question as a line of JSON."""
        return line(self.asked)

    def take(self, answer: str) -> None:
        """Raises DataError for what is no answer to it."""
        self.done(self.asked, read_answer(answer, self.asked))
