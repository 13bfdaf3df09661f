"""What belongs to a round beside the order: the history, and the model with which it predicts."""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from gsched.app.daemon_fairness import FairnessUpkeep
from gsched.app.daemon_model import DaemonModel, NoPredictor, mark_of, warn_without_model
from gsched.app.ingest import ingest
from gsched.config.settings import Settings
from gsched.daemon.loop import ReplacedError
from gsched.daemon.model_facts import ModelFacts
from gsched.daemon.situation import Board
from gsched.daemon.slurm_backend import SlurmBackend
from gsched.engine.ports import Predictor
from gsched.errors import (
    ConfigError,
    DataError,
    GschedError,
    LostLeadershipError,
    UnavailableError,
)
from gsched.slurm.client import SlurmClient
from gsched.slurm.records import SlurmConfig

log = logging.getLogger("gsched.daemon")

_EVENTS_INTERVAL_S = 600
"""So often the daemon asks slurmdbd which nodes were down: its rounds do not need it."""


class Upkeep:
    """Keeps history and model up to date. Whatever fails is said, and the last good state stays.

    `failures` counts what has failed, by step; `ingest_time` is when (epoch) the history last took
    in what had ended, `model_facts` what is told of the model.
    """

    def __init__(
        self,
        model: DaemonModel,
        client: SlurmClient,
        backend: SlurmBackend,
        alive: Callable[[], None],
        board: Board,
        ledger: FairnessUpkeep | None = None,
    ) -> None:
        """`alive` is called while something long goes on; `board` is told of the model.

        `ledger`: that of tenants, which a single round leaves to the service.
        """
        self.failures: Counter[str] = Counter({"ingest": 0, "model": 0, "fairness": 0})
        self.ingest_time: int | None = None
        self.model = model
        self.model_facts = ModelFacts()
        self._client = client
        self._backend = backend
        self._alive = alive
        self._board = board
        self._ledger = ledger
        self._problems: dict[str, str] = {}
        self._database_mark = _mark_of_database(model.settings)
        self._fresh: Predictor | None = None

    def first_predictor(self) -> Predictor:
        """The one to begin with. A damaged model is no reason not to: until it is mended, no job
        is moved.
        """
        try:
            return self.model.first()
        except (DataError, ConfigError) as e:
            if self.model.settings.predict.estimator != "model":
                raise
            self._failed("model", e)
            return NoPredictor()

    def configure(self, settings: Settings) -> None:
        """Follow other settings from now on.

        Raises ConfigError or DataError when its predictor cannot be loaded; nothing changes then.
        """
        before = self.model.settings
        self._fresh = self.model.configure(settings) or self._fresh
        if settings.daemon != before.daemon:
            warn_without_model(settings)
        if self._ledger is not None:
            self._ledger.configure(settings)

    def before(self, config: SlurmConfig) -> Predictor | None:
        """A new predictor when there is one, else None."""
        self._take_in(config)
        self._keep_ledger()
        model = self.model
        for name, step in (
            ("refit", model.refit_if_due),
            ("model", self._renew),
            ("learning", model.learn),
            ("pin", model.read_pin),
        ):
            try:
                step()
            except GschedError as e:  # what can be done without it is done
                self._failed("model", e, name)
            else:
                self._problems.pop(name, None)
        self._tell()
        fresh, self._fresh = self._fresh, None
        return fresh

    def _keep_ledger(self) -> None:
        """Raises LostLeadershipError."""
        ledger = self._ledger
        if ledger is None:
            return
        for name, step in (
            ("quotas", ledger.note_quotas),
            ("hours", lambda: ledger.close_hours(self.model.told_until)),
        ):
            try:
                step()
            except LostLeadershipError:
                raise
            except GschedError as e:  # hours are closed later, from the history
                self._failed("fairness", e, name)
            else:
                self._problems.pop(name, None)

    def is_told(self) -> bool:
        """Whether the history has what has ended and, by now, what the last look has shown."""
        if self.ingest_time is None or "ingest" in self._problems:
            return False
        self.after()
        return "ingest" not in self._problems

    def _renew(self) -> None:
        self._fresh = self.model.renewed(self._alive) or self._fresh

    def _tell(self) -> None:
        problems = dict(self.model.problems)
        problems |= {what: self._problems[what] for what in _LASTING if what in self._problems}
        self.model_facts = self.model.facts("; ".join(problems.values()))
        self._board.post(model=self.model_facts.document())

    def after(self) -> None:
        """Give the history what the round has seen of the queue."""
        try:
            self.model.history.ingest(self._backend.sightings(), source_key=None)
        except GschedError as e:
            self._failed("ingest", e)
        else:
            self._backend.sightings_kept()

    def check(self) -> None:
        """Raise ReplacedError or UnavailableError when the history database is no longer the one
        that was opened: what a round would journal now, `clear` could never find.
        """
        mark = _mark_of_database(self.model.settings)
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
        began = self.model.clock()
        try:
            ingest(
                self.model.settings,
                self._client,
                self.model.history,
                events_interval_s=_EVENTS_INTERVAL_S,
                queue=False,
                config=config,
                on_progress=lambda _until, _rows: self._alive(),
            )
        except GschedError as e:  # the order does not depend on it: the round goes on
            self._failed("ingest", e)
        else:
            self.ingest_time = int(time.time())
            self.model.told_until = began
            self._problems.pop("ingest", None)

    def _failed(self, step: str, error: GschedError, place: str = "") -> None:
        """Count it; the log has each new reason (at a `place` of the step) once."""
        self.failures[step] += 1
        place = place or step
        if self._problems.get(place) != error.message:
            log.warning("%s not brought up to date: %s", _WHAT[step], error.message)
        self._problems[place] = error.message


_LASTING = ("learning", "pin")
"""These steps fail in each round until what is wrong is mended."""
_WHAT = {"ingest": "history", "model": "model", "fairness": "accounts of tenants"}


def _mark_of_database(settings: Settings) -> int | None:
    """Inode of an SQLite file; None for a server."""
    if not settings.database_url.startswith("sqlite:///"):
        return None
    found = mark_of(Path(settings.database_url.removeprefix("sqlite:///")))
    return found[0] if found else None
