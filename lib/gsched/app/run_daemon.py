"""The daemon, put together: Slurm, history, policy, predictor and loop."""

from __future__ import annotations

import logging
import os
import pwd
import signal
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from gsched.app.ingest import ingest
from gsched.app.training import train
from gsched.app.wiring import now, open_history, slurm_client
from gsched.config.settings import Settings
from gsched.daemon.clear import ClearResult, clear
from gsched.daemon.locks import StateDir
from gsched.daemon.loop import DaemonLoop, LoopOptions
from gsched.daemon.query_server import QueryServer
from gsched.daemon.query_socket import QuerySocket
from gsched.daemon.requests import RequestBook
from gsched.daemon.site_factor import refuse_to_act, scale_for
from gsched.daemon.slurm_backend import SlurmBackend
from gsched.engine.faults import FaultHook, FaultPoint, no_faults
from gsched.engine.ports import Predictor
from gsched.engine.round import RoundRunner
from gsched.errors import (
    ConfigError,
    DataError,
    GschedError,
    PermissionDeniedError,
    UnavailableError,
    UsageError,
)
from gsched.model.job import JobView, Prediction
from gsched.policy.registry import check, load
from gsched.predict.estimators import load_estimator
from gsched.slurm.client import MAY_ACT, SlurmClient
from gsched.slurm.munge import munge_of
from gsched.slurm.records import QueueRow, SlurmConfig
from gsched_sql import History

log = logging.getLogger("gsched.daemon")

FAULT_VARIABLE = "GSCHED_FAULT_POINT"
"""Names a ``FaultPoint``: the process kills itself with SIGKILL there (crash tests)."""

_EVENTS_INTERVAL_S = 600
"""So often the daemon asks slurmdbd which nodes were down: its rounds do not need it."""


class NoPredictor:
    """Stands in until there is a model: predicts nothing, so that no job is moved."""

    model_id = ""

    def predict(self, jobs: Sequence[JobView], now: int) -> list[Prediction | None]:
        """None for every job."""
        del now
        return [None] * len(jobs)


class Upkeep:
    """Before each round: bring the history up to date, refit by timer, reload a new model."""

    def __init__(self, settings: Settings, client: SlurmClient, history: History) -> None:
        self._settings = settings
        self._client = client
        self._history = history
        self._model_mark = _mark(settings.model_file)
        self._database_mark = _mark_of_database(settings)
        self._next_fit: int | None = None

    def __call__(self, at: int) -> Predictor | None:
        """A new predictor when there is one, else None; the last good one stays on any error.

        Raises UnavailableError when the history database is no longer the one that was opened:
        what a round would journal now, `clear` could never find.
        """
        if _mark_of_database(self._settings) != self._database_mark:
            raise UnavailableError(
                "the history database was moved or replaced while the daemon runs",
                "restart the daemon",
            )
        try:
            ingest(
                self._settings,
                self._client,
                self._history,
                events_interval_s=_EVENTS_INTERVAL_S,
            )
            return self._new_predictor(at)
        except GschedError as e:  # the order does not depend on it: the round goes on
            log.warning("history or model not brought up to date: %s", e.message)
            return None

    def _new_predictor(self, at: int) -> Predictor | None:
        if self._settings.predict.estimator != "model":
            return None
        self._refit_if_due(at)
        mark = _mark(self._settings.model_file)
        if mark == self._model_mark:
            return None
        predictor = predictor_for(self._settings)
        self._model_mark = mark  # not before: a file that cannot be read is tried again
        return predictor

    def _refit_if_due(self, at: int) -> None:
        interval_s = self._settings.predict.retrain_interval_s
        if interval_s <= 0:
            return
        if self._next_fit is None:  # the first fit comes one interval after the start
            self._next_fit = at + interval_s
        if at < self._next_fit:
            return
        self._next_fit = at + interval_s
        try:
            train(self._settings, self._history)
        except DataError as e:
            log.info("no new model: %s", e.message)


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


def predictor_for(settings: Settings) -> Predictor:
    """The configured estimator; without a trained model one that predicts nothing."""
    if settings.predict.estimator == "model" and _mark(settings.model_file) is None:
        log.warning("no model yet, so no job is ranked: run `gsched predict train`")
        return NoPredictor()
    return load_estimator(settings)


def fault_hook() -> FaultHook:
    """Kill this process with SIGKILL at the point that FAULT_VARIABLE names (crash tests)."""
    name = os.environ.get(FAULT_VARIABLE, "")
    if not name:
        return no_faults
    try:
        chosen = FaultPoint(name)
    except ValueError:
        known = ", ".join(p.value for p in FaultPoint)
        raise UsageError(f"{FAULT_VARIABLE}={name}: no such point", f"points: {known}") from None

    def hook(point: FaultPoint) -> None:
        if point is chosen:
            os.kill(os.getpid(), signal.SIGKILL)

    return hook


@dataclass(frozen=True, slots=True)
class _Live:
    """The parts that both the daemon and `clear` need."""

    client: SlurmClient
    config: SlurmConfig
    backend: SlurmBackend


def _live(settings: Settings, history: History) -> _Live:
    # no second back-off: a round that Slurm does not answer is repeated by the loop
    client = slurm_client(settings, log.warning, asks_again=False)
    config = client.config()
    cluster = config.cluster

    def epochs(rows: Sequence[QueueRow]) -> Sequence[int]:
        return history.epochs(cluster, rows)

    scale = scale_for(config, settings.daemon)
    requests = RequestBook(history.request_store())
    backend = SlurmBackend(client, cluster, scale, settings.daemon, epochs, now, requests)
    return _Live(client, config, backend)


def new_round_id() -> str:
    """A round's identity, unique over all daemons: when and a random part."""
    return f"{now()}-{uuid.uuid4().hex[:12]}"


def _require_privilege(client: SlurmClient) -> None:
    """Raise PermissionDeniedError when Slurm would refuse every SiteFactor of this user."""
    user = pwd.getpwuid(os.geteuid()).pw_name
    level = client.privilege(user)
    if level not in MAY_ACT:
        raise PermissionDeniedError(
            f"user {user} may not set SiteFactor (privilege: {level})",
            "run as root, SlurmUser or a Slurm operator, or without --act",
        )


def _refuse_in_federation(client: SlurmClient, config: SlurmConfig) -> None:
    """Raise ConfigError on a member of a federation: its jobs have siblings on other clusters."""
    federation = client.federation() if config.has_slurmdbd else ""
    if federation:
        raise ConfigError(
            f"cluster {config.cluster} is a member of the federation {federation}: a change of a "
            "job here would not reach its siblings on other clusters",
            "run the daemon with --observe",
        )


@contextmanager
def open_daemon(
    settings: Settings, acting: bool, interval_s: float | None, *, listens: bool = False
) -> Iterator[DaemonLoop]:
    """The loop, ready to run, while this process is the cluster's one daemon.

    `listens`: answer on the query socket meanwhile, when one is configured. Raises TryAgainError
    when another daemon runs, ConfigError when the cluster cannot be acted on, the policy needs
    what it lacks, or there is no history database, PermissionDeniedError when this user may not
    act.
    """
    state_dir = StateDir(settings.state_dir)
    mode = "act" if acting else "observe"
    with (
        state_dir.leading({"started_at": now(), "mode": mode}),
        open_history(settings) as history,
    ):
        live = _live(settings, history)
        if acting:
            refuse_to_act(live.config, scale_for(live.config, settings.daemon))
            _refuse_in_federation(live.client, live.config)
            _require_privilege(live.client)
        policy = load(settings.daemon.policy, **settings.daemon.knobs)
        check(policy, live.backend.capabilities)
        upkeep = Upkeep(settings, live.client, history)  # marks the model before it is read
        runner = RoundRunner(
            live.backend,
            policy,
            history.journal(),
            predictor_for(settings),
            now,
            new_round_id,
            fault_hook(),
        )
        options = LoopOptions(
            acting, interval_s or settings.daemon.interval_s, settings.status_file
        )

        def read_config() -> SlurmConfig:
            """Slurm's configuration may change under the daemon: its scale follows."""
            config = live.client.config()
            scale = scale_for(config, settings.daemon)
            if acting:
                refuse_to_act(config, scale)
                _refuse_in_federation(live.client, config)
            live.backend.scale = scale
            return config

        requests = live.backend.requests
        loop = DaemonLoop(runner, state_dir, read_config, options, upkeep, now, requests)
        address = settings.daemon.query_listen if listens else ""
        if not address:
            yield loop
            return
        munge = munge_of(live.config, os.environ)
        server = QueryServer(munge, live.client, lambda: loop.bulletin, loop.hurry)
        loop.query_socket = QuerySocket(server, address)
        with loop.query_socket.kept():
            yield loop


def clear_all(settings: Settings, everything: bool) -> ClearResult:
    """Set every SiteFactor back as found, and let no daemon act until the halt is lifted.

    A daemon that is in a round finishes it first. Raises TryAgainError when it does not within a
    minute; nothing is halted or cleared then.
    """
    state_dir = StateDir(settings.state_dir)
    with open_history(settings) as history, state_dir.writing(wait_s=60.0):
        live = _live(settings, history)
        _require_privilege(live.client)
        state_dir.halt(f"`gsched daemon clear` ({datetime.now().astimezone():%Y-%m-%dT%H:%M:%S%z})")
        return clear(
            live.client,
            live.backend,
            history.journal(),
            now,
            new_round_id,
            everything,
            fault_hook(),
        )
