"""What the daemon predicts with: the model in use, what it learns, its refits, its fallback."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from gsched.app.refit import Refit
from gsched.app.watched_model import WatchedModel, words
from gsched.config.settings import Settings
from gsched.daemon.model_facts import ModelFacts
from gsched.engine.ports import Clock, Predictor
from gsched.errors import EXIT_DATA, ConfigError, DataError, GschedError, UnavailableError
from gsched.model.history import PastJob
from gsched.model.job import JobView, Prediction
from gsched.model.prediction_truth import PredictionTruth
from gsched.model.times import DAY_S
from gsched.policy.registry import load_scoped
from gsched.predict.cold_start import ColdStart
from gsched.predict.estimators import load_estimator
from gsched.predict.kept import KeptModels, Pin
from gsched.predict.store import ModelMissingError, load
from gsched_sql import History

log = logging.getLogger("gsched.daemon")

_TRUTH_DAYS = 7
"""Predictions made in so many days are compared with what came true."""

Mark = tuple[int, int]
"""Inode and time of change: what tells a file from the one that was there before."""


class NoPredictor:
    """Stands in for a model that cannot be read: predicts nothing, so that no job is moved."""

    model_id = ""

    def predict(self, jobs: Sequence[JobView], now: int) -> list[Prediction | None]:
        """None for every job."""
        del now
        return [None] * len(jobs)


@dataclass(slots=True)
class DaemonModel:
    """Keeps what predicts up to date. Raises GschedError where it cannot; the last good stays.

    `refit` is None where only one round is to be run. `truths` are how good the predictions of the
    last days were, when a refit last ended. `told_until` is when (by `clock`) the history was last
    brought up to date.
    """

    settings: Settings
    history: History
    cluster: str
    clock: Clock
    monotonic: Callable[[], float] = time.monotonic
    refit: Refit | None = None
    truths: Sequence[PredictionTruth] = ()
    told_until: int | None = None
    _watched: WatchedModel | None = None
    _mark: Mark | None = None
    _written_at: float | None = None
    _pin: Pin | None = None
    _next_fit: float | None = None
    _problems: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._mark = mark_of(self.settings.model_file)  # before it is read
        self._next_fit = self._fit_after()

    @property
    def problems(self) -> Mapping[str, str]:
        """Why the file of the model is not in use (``model``), why the last refit failed
        (``refit``): until it is mended.
        """
        return self._problems

    def first(self) -> Predictor:
        """The one to begin with. Without a model, run times are taken from time limits.

        Raises DataError or ConfigError for a model that cannot be used; NoPredictor is for that.
        """
        if self.settings.predict.estimator != "model":
            return load_estimator(self.settings)
        try:
            watched = self._load()
        except ModelMissingError:
            self._fit_at_once()
            warn_without_model(self.settings)
            return self._cold_start()
        except (DataError, ConfigError) as e:
            self._fit_at_once()
            self._problems["model"] = e.message
            raise
        self._use(watched, self._mark)
        return watched

    def configure(self, settings: Settings) -> Predictor | None:
        """Follow other settings; a new predictor when they ask for one.

        Raises ConfigError or DataError when it cannot be loaded; nothing changes then.
        """
        mark = mark_of(settings.model_file)
        fresh: Predictor | None = None
        if settings.predict != self.settings.predict or settings.predict.estimator != "model":
            watched = None
            if settings.predict.estimator != "model":
                fresh = load_estimator(settings)
            elif mark is None:
                fresh = self._cold_start(settings)
            else:
                fresh = watched = self._load(settings)
            self._use(watched, mark)
        self.settings = settings
        self._next_fit = self._fit_after()
        if self._next_fit is None:
            self._problems.pop("refit", None)
        return fresh

    def renewed(self, alive: Callable[[], None]) -> Predictor | None:
        """The model that has been put in use since the last time, None when there is none.

        `alive` is called while something long goes on.
        """
        if self.settings.predict.estimator != "model":
            return None
        before, mark = self._mark, mark_of(self.settings.model_file)
        # noted first: a file that cannot be read is read again when it is another one
        self._mark = mark
        if mark is None and (before is not None or "model" in self._problems):
            gone = f"{self.settings.model_file} is gone: the last model stays in use"
            self._problems["model"] = gone
            raise DataError(gone)
        if mark == before:
            return None
        alive()
        try:
            watched = self._load()
        except GschedError as e:
            self._problems["model"] = e.message
            raise
        self._use(watched, mark)
        alive()
        log.info("new model %s", watched.model_id)
        return watched

    def learn(self) -> None:
        """Take in the jobs that have ended; where the model has become worse, fall back."""
        if self._watched is None:
            return
        for turn in self._watched.take_in(self.clock(), self.told_until):
            log.log(logging.WARNING if turn.falls_back else logging.INFO, "%s", words(turn))

    def refit_if_due(self) -> None:
        """Begin a refit when it is time, and tell how the last one has ended."""
        if self.refit is None:
            return
        if self.refit.is_running:
            self._told(self.refit)
        elif self._next_fit is not None and self.monotonic() >= self._next_fit:
            self._next_fit = self._fit_after()
            try:
                self.refit.start(self.settings)
            except UnavailableError as e:
                self._problems["refit"] = e.message
                raise

    def _told(self, refit: Refit) -> None:
        result = refit.result()
        if result is None:
            return
        self._problems.pop("refit", None)
        if result.exit_code not in (0, EXIT_DATA):
            self._problems["refit"] = f"the refit failed: {result.message}"
        since = self.clock() - _TRUTH_DAYS * DAY_S
        self.truths = self.history.prediction_truth(self.cluster, since)
        if failure := self._problems.get("refit"):
            raise GschedError(failure)
        if result.exit_code == EXIT_DATA:
            log.info("no new model: %s", result.message)
        else:
            log.info("refit: %s", result.message)

    def read_pin(self) -> None:
        """See which model is pinned. Raises DataError for a damaged pin."""
        self._pin = None
        if self.settings.predict.estimator == "model":
            self._pin = KeptModels(self.settings.model_file).pin()

    def facts(self, problem: str) -> ModelFacts:
        """What metrics and status tell; `problem` is what they say is wrong, '' for nothing."""
        pin = self._pin
        watch = self._watched.watch if self._watched else None
        return ModelFacts(
            written_at=self._written_at,
            pinned=pin.model_id if pin else "",
            pinned_since=pin.since if pin else None,
            fallen=dict(watch.fallen) if watch else {},
            judgements=dict(watch.judgements) if watch else {},
            problem=problem,
        )

    def _use(self, watched: WatchedModel | None, mark: Mark | None) -> None:
        """`watched`, of the file with this mark, predicts from now on; None = something else."""
        self._watched, self._mark = watched, mark
        self._written_at = mark[1] / 1e9 if watched and mark else None
        self._problems.pop("model", None)

    def _load(self, settings: Settings | None = None) -> WatchedModel:
        path = (settings or self.settings).model_file
        watch_file = KeptModels(path).watch_file
        return WatchedModel(load(path), watch_file, self._past_jobs, self.clock())

    def _past_jobs(self, ended_after: int, ended_before: int) -> Sequence[PastJob]:
        return self.history.past_jobs(self.cluster, ended_after, ended_before).jobs

    def _cold_start(self, settings: Settings | None = None) -> Predictor:
        return ColdStart((settings or self.settings).predict.default_duration_s)

    def _fit_at_once(self) -> None:
        if self._next_fit is not None:
            self._next_fit = self.monotonic()

    def _fit_after(self) -> float | None:
        """When the next fit is due, one interval from now; None for never."""
        if self.settings.predict.estimator != "model":
            return None
        interval_s = self.settings.predict.retrain_interval_s
        return self.monotonic() + interval_s if interval_s > 0 else None


def warn_without_model(settings: Settings) -> None:
    """Say that the policy would need a model that there is not."""
    if settings.predict.estimator != "model" or mark_of(settings.model_file) is not None:
        return
    daemon = settings.daemon
    policy = load_scoped(daemon.policy, daemon.policy_scope, daemon.knobs)
    if policy.needs_prediction or policy.reads_progress:
        log.warning("no model yet: jobs are ranked by their time limits (`gsched predict train`)")


def mark_of(path: Path) -> Mark | None:
    """What tells a file from the one that was there before; None where there is none."""
    try:
        found = path.stat()
    except OSError:
        return None
    return (found.st_ino, found.st_mtime_ns)
