"""Forecasts in the daemon: when one is made, by whom, what is said meanwhile, what is kept.

A round hands over what it has seen, and takes what the newest forecast says; it waits for nothing.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import gsched
from gsched.app.forecast.budget import CpuBudget
from gsched.app.forecast.documents import attempt_of
from gsched.app.forecast.work import Desk, ForecastWork, Foreseen, Seen
from gsched.app.wiring import now
from gsched.config.settings import Settings
from gsched.daemon.forecast_book import OFF, PENDING, UNAVAILABLE, Attempt, Edition
from gsched.daemon.forecast_child import ForecastChild
from gsched.daemon.forecast_facts import ForecastFacts
from gsched.daemon.situation import Board
from gsched.daemon.slurm_backend import SlurmBackend
from gsched.engine.ports import Journal
from gsched.engine.round import RoundResult, RoundRunner
from gsched.forecast.outlook import ForecastOptions
from gsched.model.job import JobKey, JobState, Prediction
from gsched.slurm.records import SlurmConfig

WORKER = "gsched.app.forecast.worker"

_STALE_INTERVALS = 10
_STALE_S = 900
"""A forecast older than so many of its intervals, and so many seconds, says nothing any more."""
_BUDGET_S = 60.0
"""Processor time is saved up for at least so many seconds."""
_MOST_ASKED = 100


class Forecasts:
    """When a forecast is made, and what is told of it.

    Rounds call it from the main thread, questions over sockets (`asked`) from theirs, and the
    answers come in that of the child.
    """

    def __init__(
        self,
        settings: Settings,
        cluster: str,
        child: ForecastChild | None = None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._settings = settings
        self._cluster = cluster
        self._monotonic = monotonic
        self._child = child or ForecastChild(WORKER, lambda: child_environment(settings.state_dir))
        self._lock = threading.Lock()
        self._asked: dict[str, None] = {}  # newest last
        self._seen: Seen | None = None
        self._waiting: Mapping[str, Attempt] = {}
        self._began = -float("inf")
        self._cost_s = 0.0
        self._cpu_s = 0.0
        self._as_of: int | None = None
        self._to_keep: list[tuple[JobKey, int, Prediction]] = []
        self._edition = Edition(1, PENDING)
        self._set_up()

    def _set_up(self) -> None:
        chosen = self._settings.forecast
        options = ForecastOptions(samples=chosen.samples)
        self._desk = Desk(self._settings, self._cluster, options)
        most_s = chosen.cpu_share * max(chosen.interval_s, _BUDGET_S)
        self._budget = CpuBudget(chosen.cpu_share, most_s, self._monotonic)

    def configure(self, settings: Settings) -> None:
        """Follow other settings from the next forecast on."""
        with self._lock:
            before, self._settings = self._settings, settings
            if (before.forecast, before.predict) != (settings.forecast, settings.predict):
                self._set_up()
        if before.forecast.enabled and not settings.forecast.enabled:
            self._child.dismiss()

    @contextmanager
    def running(self) -> Iterator[None]:
        """Make forecasts during the block."""
        with self._child.running():
            yield

    @property
    def facts(self) -> ForecastFacts | None:
        """None where no forecasts are wanted."""
        if not self._settings.forecast.enabled:
            return None
        jobs = len(self._edition.documents)
        return ForecastFacts(self._as_of, jobs, self._cpu_s, self._child.state, self._desk.record)

    # -- for rounds -----------------------------------------------------------------------------

    def edition(self) -> Edition:
        """What is to be said now. A forecast that has become old, or is not wanted, is none."""
        with self._lock:
            chosen, told = self._settings.forecast, self._edition
            stale_s = max(_STALE_S, _STALE_INTERVALS * chosen.interval_s)
            is_over = self._as_of is not None and now() - self._as_of > stale_s
            code = UNAVAILABLE if self._child.state.problem else PENDING
            if not chosen.enabled:
                code, is_over = OFF, True
            documents = {} if is_over else told.documents
            if (code, len(documents)) != (told.otherwise, len(told.documents)):
                self._edition = Edition(told.number + 1, code, documents)
            return self._edition

    def after_round(self, seen: Seen, journal: Journal) -> None:
        """Keep what came in since the last round, and ask anew when it is time.

        Raises what the journal raises; what could not be kept is kept after the next round.
        """
        pending = [v for v in seen.state.jobs.views if v.state is JobState.PENDING]
        waiting = {v.key.slurm_id: attempt_of(v) for v in pending}
        with self._lock:
            self._seen, self._waiting = seen, waiting
            self._ask()
            to_keep = self._to_keep
        if to_keep:
            journal.record_predictions(to_keep, now())
            with self._lock:
                self._to_keep = self._to_keep[len(to_keep) :]

    # -- for questions --------------------------------------------------------------------------

    def asked(self, names: Collection[str]) -> None:
        """Somebody wants to know of these jobs, of which no round may have heard yet."""
        with self._lock:
            for name in names:
                self._asked.pop(name, None)
                self._asked[name] = None
            while len(self._asked) > _MOST_ASKED:
                del self._asked[next(iter(self._asked))]
            self._ask()

    def _ask(self) -> None:
        """Put a question when one is due, or when somebody waits for the first word on a job."""
        chosen = self._settings.forecast
        if self._seen is None or not chosen.enabled or not self._child.is_ready:
            return
        asked = [name for name in reversed(self._asked) if name in self._waiting]
        is_urgent = not all(self._edition.has_start(self._waiting[name]) for name in asked)
        is_time = self._monotonic() - self._began >= chosen.interval_s
        is_due = is_time and self._budget.allows(self._cost_s)
        if not is_due and not (is_urgent and self._budget.allows(self._cost_s, on_credit=True)):
            return
        cpu_s = max(0.0, self._budget.left_s) if is_due else 0.0
        self._began = self._monotonic()
        self._child.ask(ForecastWork(self._desk, self._seen, asked, cpu_s, self._take))

    def _take(self, found: Foreseen) -> None:
        """An answer, in the child's thread."""
        with self._lock:
            answer = found.answer
            self._budget.spend(answer.cpu_s)
            self._cost_s, self._cpu_s = answer.outlook_cpu_s, self._cpu_s + answer.cpu_s
            self._as_of = round(answer.outlook.as_of)
            self._to_keep = [*self._to_keep, *found.kept]
            number = self._edition.number + 1
            self._edition = Edition(number, self._edition.otherwise, found.documents)


@dataclass(frozen=True, slots=True)
class RoundsForesight:
    """Implements ``gsched.daemon.loop.Foresight``: hands over what the rounds of a loop see."""

    forecasts: Forecasts
    backend: SlurmBackend
    runner: RoundRunner
    journal: Journal
    board: Board

    def edition(self) -> Edition:
        """The newest forecast."""
        return self.forecasts.edition()

    def after_round(self, result: RoundResult, config: SlurmConfig) -> None:
        """Hand over the round's snapshot. Raises what the journal raises."""
        rows = {seen.key: seen.row for seen in self.backend.seen.values()}
        by_prediction = result.info.acting and self.runner.policy.needs_prediction
        bound_s = self.runner.rules.starvation_bound_s if result.info.acting else 0
        seen = Seen(result.state, rows, config, by_prediction, bound_s)
        self.forecasts.after_round(seen, self.journal)
        facts = self.forecasts.facts
        self.board.post(forecast=facts.document() if facts else {})


def child_environment(state_dir: Path) -> Mapping[str, str]:
    """This process's environment for the child, with a folder for what numba compiles where the
    package's own is not writable: a service's user has none elsewhere.
    """
    environment = dict(os.environ)
    core = Path(gsched.__file__).parent / "sim" / "core"
    kept = core / "__pycache__"
    if not os.access(kept if kept.is_dir() else core, os.W_OK):
        environment.setdefault("NUMBA_CACHE_DIR", str(state_dir / "numba"))
    return environment
