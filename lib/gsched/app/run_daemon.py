"""The daemon, put together: Slurm, history, policy, predictor, sockets and loop."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from gsched.app.daemon_facts import facts_of
from gsched.app.daemon_forecasts import Forecasts, RoundsForesight
from gsched.app.daemon_lead import ClusterLead, leading
from gsched.app.daemon_leases import Leases
from gsched.app.daemon_model import DaemonModel
from gsched.app.daemon_parts import (
    Live,
    fault_hook,
    live_parts,
    new_round_id,
    policy_of,
    rare_collections,
    rules_of,
)
from gsched.app.daemon_reload import Configuration
from gsched.app.daemon_rights import require_privilege, scale_to_act
from gsched.app.daemon_saver import Saving, check_names, saver_settings, saving_of
from gsched.app.daemon_upkeep import Upkeep
from gsched.app.daemon_views import local_audit_rows
from gsched.app.refit import Refit
from gsched.app.wiring import now, open_history
from gsched.config.settings import DaemonSettings, Settings
from gsched.daemon.asker_rights import QUESTION_LIMIT_S, AskerRights
from gsched.daemon.bursts import bf_interval_s
from gsched.daemon.clear import ClearResult, clear
from gsched.daemon.control_server import ControlServer
from gsched.daemon.gate import Gate, Mode
from gsched.daemon.kept_listener import KeptListener
from gsched.daemon.locks import StateDir
from gsched.daemon.loop import DaemonLoop, LoopOptions, LoopParts, NoForesight, NoSaver
from gsched.daemon.metrics import Metrics
from gsched.daemon.metrics_gauges import Facts
from gsched.daemon.notify import Notifier
from gsched.daemon.query_server import QueryServer
from gsched.daemon.service import Service
from gsched.daemon.situation import Board
from gsched.daemon.time_limit import time_limit
from gsched.daemon.wishes import Wishes
from gsched.engine.round import RoundRunner
from gsched.errors import GschedError
from gsched.model.decision import JsonValue
from gsched.policy.base import Policy
from gsched.slurm.client import CommandClient
from gsched.slurm.munge import munge_of
from gsched.slurm.privileges import Privilege
from gsched.slurm.records import SlurmConfig
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
        _Process.started(settings, acting, None, Notifier()) as process,
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
        process = open_parts.enter_context(_Process.started(settings, acting, interval_s, notifier))
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
class _Process:
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
    ) -> Iterator[_Process]:
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
        return self.configuration.settings

    def interval_s(self) -> float:
        """Seconds between rounds."""
        return self.interval_option_s or self.settings.daemon.interval_s

    def options(self) -> LoopOptions:
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
            policy = policy_of(settings.daemon, live)
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
            loop = _Assembly(
                self, history, live, lead, policy, gate, refit, forecasts, saving
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


@dataclass(frozen=True, slots=True)
class _Assembly:
    """One loop and what it needs of a process."""

    process: _Process
    history: History
    live: Live
    lead: ClusterLead
    policy: Policy
    gate: Gate
    refit: Refit | None
    forecasts: Forecasts | None
    saving: Saving | None

    def loop(self) -> DaemonLoop:
        process, live, settings = self.process, self.live, self.process.settings
        model = DaemonModel(
            settings, self.history, live.backend.cluster, now, refit=self.refit
        )  # marks the model before it is read
        upkeep = Upkeep(model, live.client, live.backend, process.notifier.alive, process.board)
        journal = self.history.journal(self.lead.fence)
        runner = RoundRunner(
            live.backend,
            self.policy,
            journal,
            upkeep.first_predictor(),
            now,
            new_round_id,
            fault_hook(),
            rules=rules_of(settings.daemon),
            time_limit=time_limit,
            stopwatch=time.monotonic,
            extra=self._inversions,
        )
        leases = Leases(live, self.history, self.lead.fence)

        def read_config() -> SlurmConfig:
            """Slurm's configuration may change under the daemon: its scale follows."""
            config = live.client.config()
            self._configure(config, process.settings.daemon)
            leases.configure(config, process.settings.daemon.leases)
            runner.leases = leases.driver
            return config

        def take_back() -> ClearResult:
            leases.take_back("the daemon acts no more")
            return clear(live.backend, journal, now, new_round_id, False, fault_hook())

        parts = LoopParts(
            runner=runner,
            gate=self.gate,
            state_dir=process.state_dir,
            requests=live.backend.requests,
            clock=now,
            read_config=read_config,
            upkeep=upkeep,
            lead=self.lead,
            take_back=take_back,
            reload=process.configuration.reload,
            wishes=process.wishes,
            board=process.board,
            notifier=process.notifier,
            metrics=process.metrics,
            facts=lambda: facts_of(
                loop,
                upkeep,
                self.history,
                process.refusals(),
                process.database_errors,
                self.forecasts.facts if self.forecasts else None,
                self.saving.facts if self.saving else None,
            ),
            listeners=process.listeners,
            foresight=NoForesight()
            if self.forecasts is None
            else RoundsForesight(self.forecasts, live.backend, runner, journal, process.board),
            saver=self.saving or NoSaver(),
        )
        loop = DaemonLoop(parts, process.options())
        process.configuration.apply = self._follower(loop, upkeep)
        return loop

    def _inversions(self) -> dict[str, JsonValue]:
        """What the order turns round, for the round's summary; nothing before there is one."""
        found = self.live.backend.inversions()
        return {} if found is None else {"inversions": {**found.document()}}

    def _configure(self, config: SlurmConfig, settings: DaemonSettings) -> None:
        live = self.live
        scale = scale_to_act(live.client, config, settings, self.process.acting)
        live.backend.configure(settings, scale, bf_interval_s(config))

    def _follower(self, loop: DaemonLoop, upkeep: Upkeep) -> Callable[[Settings], None]:
        """Puts other settings in force, all or nothing: what may fail comes first."""

        def follow(settings: Settings) -> None:
            config = self.live.client.config()
            policy = policy_of(settings.daemon, self.live)
            scale_to_act(self.live.client, config, settings.daemon, self.process.acting)
            wanted = saver_settings(settings)
            check_names(settings.ces, self.live.backend.last_look)
            Gate(self.process.acting, settings.daemon, self.process.state_dir)
            upkeep.configure(settings)
            if self.forecasts is not None:
                self.forecasts.configure(settings)
            if self.saving is not None:
                self.saving.configure(wanted)
            self.gate.configure(settings.daemon)
            self._configure(config, settings.daemon)
            loop.parts.runner.policy = policy
            loop.parts.runner.rules = rules_of(settings.daemon)
            self.process.configuration.settings = settings
            loop.options = self.process.options()

        return follow
