"""What belongs to a round beside the order: the history, and the model with which it predicts."""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

from gsched.app.ingest import ingest
from gsched.app.training import train
from gsched.config.settings import Settings
from gsched.daemon.loop import ReplacedError
from gsched.daemon.slurm_backend import SlurmBackend
from gsched.engine.ports import Predictor
from gsched.errors import DataError, GschedError, UnavailableError
from gsched.model.job import JobView, Prediction
from gsched.model.prediction_truth import PredictionTruth
from gsched.model.times import DAY_S
from gsched.policy.registry import load_scoped
from gsched.predict.estimators import load_estimator
from gsched.slurm.client import SlurmClient
from gsched.slurm.records import SlurmConfig
from gsched_sql import History

log = logging.getLogger("gsched.daemon")

_EVENTS_INTERVAL_S = 600
"""So often the daemon asks slurmdbd which nodes were down: its rounds do not need it."""

_TRUTH_DAYS = 7
"""Predictions made in so many days are compared with what came true."""


class NoPredictor:
    """Stands in until there is a model: predicts nothing, so that no job is moved."""

    model_id = ""

    def predict(self, jobs: Sequence[JobView], now: int) -> list[Prediction | None]:
        """None for every job."""
        del now
        return [None] * len(jobs)


class Upkeep:
    """Keeps history and model up to date. Whatever fails is said, and the last good state stays.

    `failures` counts what has failed, by step; `ingest_time` is when (epoch) the history last took
    in what had ended, `truths` how good the predictions of the last days were, at the last fit.
    """

    def __init__(
        self,
        settings: Settings,
        client: SlurmClient,
        history: History,
        backend: SlurmBackend,
        alive: Callable[[], None],
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """`alive` is called while something long goes on."""
        self.failures: Counter[str] = Counter({"ingest": 0, "model": 0})
        self.ingest_time: int | None = None
        self.truths: Sequence[PredictionTruth] = ()
        self._settings = settings
        self._client = client
        self._history = history
        self._backend = backend
        self._alive = alive
        self._monotonic = monotonic
        self._problems: dict[str, str] = {}
        self._database_mark = _mark_of_database(settings)
        self._model_mark = _mark(settings.model_file)
        self._next_fit = self._fit_after()
        self._fresh: Predictor | None = None

    def first_predictor(self) -> Predictor:
        """The one to begin with. A damaged model is no reason not to: until it is mended, no job
        is moved.
        """
        try:
            predictor = predictor_for(self._settings)
        except DataError as e:
            if self._settings.predict.estimator != "model":
                raise
            self._failed("model", e)
            return NoPredictor()
        _warn_without_model(self._settings)
        return predictor

    @property
    def model_time(self) -> float | None:
        """When (epoch) the model in use was written; None without one."""
        return None if self._model_mark is None else self._model_mark[1] / 1e9

    def configure(self, settings: Settings) -> None:
        """Follow other settings from now on.

        Raises ConfigError or DataError when its predictor cannot be loaded; nothing changes then.
        """
        mark = _mark(settings.model_file)
        if settings.predict != self._settings.predict or settings.predict.estimator != "model":
            self._fresh = predictor_for(settings)
            self._model_mark = mark
        if settings.daemon != self._settings.daemon:
            _warn_without_model(settings)
        self._settings = settings
        self._next_fit = self._fit_after()

    def before(self, config: SlurmConfig) -> Predictor | None:
        """A new predictor when there is one, else None."""
        self._take_in(config)
        fresh, self._fresh = self._fresh, None
        return fresh or self._new_predictor()

    def after(self) -> None:
        """Give the history what the round has seen of the queue."""
        try:
            self._history.ingest(self._backend.sightings(), source_key=None)
        except GschedError as e:
            self._failed("ingest", e)
        else:
            self._backend.sightings_kept()

    def check(self) -> None:
        """Raise ReplacedError or UnavailableError when the history database is no longer the one
        that was opened: what a round would journal now, `clear` could never find.
        """
        mark = _mark_of_database(self._settings)
        if mark == self._database_mark:
            return
        if mark is None:
            raise UnavailableError(
                "the history database was moved or replaced while the daemon runs",
                "put it back, or restart the daemon",
            )
        raise ReplacedError(
            "the history database is another one than when the daemon began", "restart the daemon"
        )

    def _take_in(self, config: SlurmConfig) -> None:
        try:
            ingest(
                self._settings,
                self._client,
                self._history,
                events_interval_s=_EVENTS_INTERVAL_S,
                queue=False,
                config=config,
                on_progress=lambda _until, _rows: self._alive(),
            )
        except GschedError as e:  # the order does not depend on it: the round goes on
            self._failed("ingest", e)
        else:
            self.ingest_time = int(time.time())
            self._problems.pop("ingest", None)

    def _new_predictor(self) -> Predictor | None:
        if self._settings.predict.estimator != "model":
            return None
        try:
            self._refit_if_due()
            mark = _mark(self._settings.model_file)
            if mark == self._model_mark:
                return None
            if mark is None:
                raise DataError(f"{self._settings.model_file} is gone: the last model stays in use")
            # noted first: a file that cannot be read is read again when it is another one
            self._model_mark = mark
            fresh = predictor_for(self._settings)
        except GschedError as e:
            self._failed("model", e)
            return None
        self._problems.pop("model", None)
        log.info("new model %s", fresh.model_id)
        return fresh

    def _refit_if_due(self) -> None:
        if self._next_fit is None or self._monotonic() < self._next_fit:
            return
        self._next_fit = self._fit_after()
        self._alive()
        try:
            train(self._settings, self._history)
        except DataError as e:
            log.info("no new model: %s", e.message)
        self._alive()
        since = int(time.time()) - _TRUTH_DAYS * DAY_S
        self.truths = self._history.prediction_truth(self._backend.cluster, since)
        self._alive()

    def _fit_after(self) -> float | None:
        """When the next fit is due, one interval from now; None for never."""
        interval_s = self._settings.predict.retrain_interval_s
        return self._monotonic() + interval_s if interval_s > 0 else None

    def _failed(self, step: str, error: GschedError) -> None:
        """Count it; the log has each new reason once."""
        self.failures[step] += 1
        if self._problems.get(step) != error.message:
            log.warning("%s not brought up to date: %s", _WHAT[step], error.message)
        self._problems[step] = error.message


_WHAT = {"ingest": "history", "model": "model"}


def predictor_for(settings: Settings) -> Predictor:
    """The configured estimator; without a trained model one that predicts nothing."""
    if settings.predict.estimator == "model" and _mark(settings.model_file) is None:
        return NoPredictor()
    return load_estimator(settings)


def _warn_without_model(settings: Settings) -> None:
    if settings.predict.estimator != "model" or _mark(settings.model_file) is not None:
        return
    daemon = settings.daemon
    if load_scoped(daemon.policy, daemon.policy_scope, daemon.knobs).needs_prediction:
        log.warning("no model yet, so no job is ranked: run `gsched predict train`")


def _mark_of_database(settings: Settings) -> int | None:
    """Inode of an SQLite file; None for a server."""
    if not settings.database_url.startswith("sqlite:///"):
        return None
    found = _mark(Path(settings.database_url.removeprefix("sqlite:///")))
    return found[0] if found else None


def _mark(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return (found.st_ino, found.st_mtime_ns)
