"""The daemon, put together: Slurm, history, policy, predictor, sockets and loop."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from gsched.app.daemon_assembly import Assembly
from gsched.app.daemon_forecasts import Forecasts
from gsched.app.daemon_lead import leading
from gsched.app.daemon_parts import (
    Live,
    live_parts,
    policy_of,
    rare_collections,
)
from gsched.app.daemon_reload import Configuration
from gsched.app.daemon_rights import require_privilege, scale_to_act
from gsched.app.daemon_saver import saving_of
from gsched.app.daemon_views import local_audit_rows
from gsched.app.fairness.site import site_facts
from gsched.app.refit import Refit
from gsched.app.wiring import now, open_history
from gsched.config.settings import Settings
from gsched.daemon.asker_rights import QUESTION_LIMIT_S, AskerRights
from gsched.daemon.control_server import ControlServer
from gsched.daemon.gate import Gate, Mode
from gsched.daemon.kept_listener import KeptListener
from gsched.daemon.locks import StateDir
from gsched.daemon.loop import DaemonLoop, LoopOptions
from gsched.daemon.metrics import Metrics
from gsched.daemon.metrics_gauges import Facts
from gsched.daemon.notify import Notifier
from gsched.daemon.query_server import QueryServer
from gsched.daemon.service import Service
from gsched.daemon.situation import Board
from gsched.daemon.wishes import Wishes
from gsched.errors import GschedError
from gsched.slurm.client import CommandClient
from gsched.slurm.munge import munge_of
from gsched.slurm.privileges import Privilege
from gsched_sql import History


@contextmanager
def open_daemon(settings: Settings, acting: bool) -> Iterator[DaemonLoop]:
    """A loop for single rounds, while this process is the cluster's one daemon.

    Raises TryAgainError when another daemon runs, ConfigError when the cluster cannot be acted on,
    the policy needs what it lacks, or there is no history database, PermissionDeniedError when
    this user may not act.
    """
    with (
        rare_collections(),
        DaemonProcess.started(settings, acting, None, Notifier()) as process,
        process.loop() as loop,
    ):
        yield loop


@contextmanager
def open_service(settings: Settings, acting: bool, interval_s: float | None) -> Iterator[Service]:
    """The daemon as a service: its local socket answers, its loop begins when it can.

    `interval_s` takes the place of the setting, also after reloads. Raises TryAgainError when
    another daemon runs on this host.
    """
    notifier = Notifier.from_environment()
    with ExitStack() as open_parts:
        open_parts.enter_context(rare_collections())
        process = open_parts.enter_context(
            DaemonProcess.started(settings, acting, interval_s, notifier)
        )
        open_parts.callback(process.metrics.end)
        for listener in process.listen().values():
            open_parts.enter_context(listener.kept())
        yield Service(
            open_loop=process.loop,
            reload=process.configuration.reload,
            retry_s=process.interval_s,
            waits=process.waits,
            wishes=process.wishes,
            board=process.board,
            notifier=notifier,
            clock=now,
        )


@dataclass(slots=True)
class DaemonProcess:
    """What lasts as long as the process; a loop may be opened anew in it."""

    configuration: Configuration
    acting: bool
    interval_option_s: float | None
    state_dir: StateDir
    wishes: Wishes
    board: Board
    notifier: Notifier
    metrics: Metrics
    listeners: dict[str, KeptListener]
    servers: dict[str, QueryServer | ControlServer]
    rights: AskerRights = field(init=False)
    cluster: str = ""
    database_errors: int = 0  # of histories that are closed, or could not be opened

    def __post_init__(self) -> None:
        """What all sockets of this process know together of their askers."""
        self.rights = AskerRights(self._privilege)

    @classmethod
    @contextmanager
    def started(
        cls, settings: Settings, acting: bool, interval_s: float | None, notifier: Notifier
    ) -> Iterator[DaemonProcess]:
        """The process, as this host's one daemon during the block. Raises TryAgainError."""
        state_dir = StateDir(settings.state_dir)
        mode = Mode.ACT if acting else Mode.OBSERVE
        wishes = Wishes()
        try:
            with state_dir.leading({"started_at": now(), "mode": mode.value}):
                yield cls(
                    Configuration(settings),
                    acting,
                    interval_s,
                    state_dir,
                    wishes,
                    Board(now(), mode),
                    notifier,
                    Metrics(settings.state_dir),
                    {},
                    {},
                )
        finally:
            wishes.close()

    @property
    def settings(self) -> Settings:
        """Those in force."""
        return self.configuration.settings

    def interval_s(self) -> float:
        """Seconds between rounds."""
        return self.interval_option_s or self.settings.daemon.interval_s

    def options(self) -> LoopOptions:
        """What the loop is to do by the settings in force."""
        metrics_file = self.settings.daemon.metrics_file
        return LoopOptions(
            self.acting,
            self.interval_s(),
            self.settings.status_file,
            Path(metrics_file) if metrics_file else None,
        )

    def listen(self) -> Mapping[str, KeptListener]:
        """The sockets that are open also while there is no loop."""
        settings = self.settings
        control = ControlServer(
            self.board, self.wishes, self.metrics.text, self._audit, self.rights
        )
        self.servers["control"] = control
        path, address = settings.daemon_socket, settings.daemon.metrics_listen
        self.listeners["control"] = KeptListener("control socket", lambda: control.listening(path))
        if address:
            self.listeners["metrics"] = KeptListener(
                "metrics listener", lambda: self.metrics.serving(address)
            )
        return self.listeners

    def refusals(self) -> dict[str, int]:
        """How many questions each socket has refused so far."""
        return {what: server.refusals.total for what, server in self.servers.items()}

    def waits(self, mode: Mode) -> None:
        """Tell that there are no rounds now, and why."""
        refusals = self.refusals()
        self.metrics.waits(mode.value)
        self.metrics.facts(
            Facts(
                cluster=self.cluster,
                policy=self.board.now.policy or self.settings.daemon.policy,
                interval_s=self.interval_s(),
                watchdog_s=self.notifier.watchdog_s,
                query_refusals=refusals.get("query", 0),
                control_refusals=refusals.get("control", 0),
                database_errors=self.database_errors,
            )
        )
        self.metrics.write(self.options().metrics_file)

    @contextmanager
    def _history(self) -> Iterator[History]:
        """The history; its errors stay counted when it is closed, or cannot be opened."""
        with ExitStack() as opened:
            try:
                history = opened.enter_context(open_history(self.settings, bounded=True))
            except GschedError:
                self.database_errors += 1
                raise
            try:
                yield history
            finally:
                self.database_errors += history.errors

    def _audit(self, job: str | None, limit: int) -> list[dict[str, object]]:
        return local_audit_rows(self.settings, job, limit)

    def _privilege(self, user: str) -> Privilege:
        most_s = min(QUESTION_LIMIT_S, self.settings.slurm.command_timeout_s)
        return CommandClient(most_s, lambda _: None, asks_again=False).privilege(user)

    @contextmanager
    def loop(self) -> Iterator[DaemonLoop]:
        """Open what rounds need. Raises the error for which it cannot be."""
        settings = self.settings
        with ExitStack() as open_parts:
            history = open_parts.enter_context(self._history())
            live = live_parts(settings, history)
            self.cluster = live.backend.cluster
            scale_to_act(live.client, live.config, settings.daemon, self.acting)
            if self.acting:
                require_privilege(live.client)
            site = site_facts(settings, live.client, history, live.backend.cluster)
            policy = policy_of(settings.daemon, live, site)
            lead = open_parts.enter_context(leading(history, live.backend.cluster, self.interval_s))
            self.board.post(
                fence=lead.fence, policy=policy.name, why="", config_read_at=now(),
                mode=Mode.ACT if self.acting else Mode.OBSERVE,
            )  # fmt: skip
            refit = Refit() if self.listeners else None  # a single round waits for none
            if refit is not None:
                open_parts.callback(refit.end)
            forecasts = Forecasts(settings, live.backend.cluster) if self.listeners else None
            gate = Gate(self.acting, settings.daemon, self.state_dir)
            saving = None
            if self.listeners:
                saving = saving_of(
                    settings, live, history, lead.fence, self.board, gate, self.acting
                )
            loop = Assembly(
                self, history, live, lead, policy, site, gate, refit, forecasts, saving
            ).loop()
            for part in (forecasts, saving):
                if part is not None:
                    open_parts.enter_context(part.running())
            open_parts.callback(setattr, self.configuration, "apply", lambda _: None)
            open_parts.enter_context(self._asked(loop, live, forecasts))
            yield loop

    @contextmanager
    def _asked(self, loop: DaemonLoop, live: Live, forecasts: Forecasts | None) -> Iterator[None]:
        """Answer on the query socket during the block, when a service has one configured."""
        address = self.settings.daemon.query_listen
        if not address or forecasts is None:
            yield
            return
        munge = munge_of(live.config, os.environ)
        server = QueryServer(
            munge, self.rights, lambda: loop.bulletin, self.wishes.hurry, forecasts
        )
        self.servers["query"] = server
        kept = KeptListener("query socket", lambda: server.listening(address))
        self.listeners["query"] = kept
        try:
            with kept.kept():
                yield
        finally:
            del self.listeners["query"]
