"""The loop of one daemon process, put together from Slurm, history, policy and predictor."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gsched.app.daemon_facts import facts_of
from gsched.app.daemon_fairness import FairnessUpkeep
from gsched.app.daemon_forecasts import Forecasts, RoundsForesight
from gsched.app.daemon_lead import ClusterLead
from gsched.app.daemon_leases import Leases
from gsched.app.daemon_model import DaemonModel
from gsched.app.daemon_parts import Live, fault_hook, new_round_id, policy_of, rules_of
from gsched.app.daemon_rights import scale_to_act
from gsched.app.daemon_saver import Saving, check_names, saver_settings
from gsched.app.daemon_upkeep import Upkeep
from gsched.app.fairness.site import facts_by, site_facts
from gsched.app.refit import Refit
from gsched.app.wiring import now
from gsched.config.settings import DaemonSettings, Settings
from gsched.daemon.bursts import bf_interval_s
from gsched.daemon.clear import ClearResult, clear
from gsched.daemon.gate import Gate
from gsched.daemon.loop import DaemonLoop, LoopParts, NoForesight, NoSaver
from gsched.daemon.time_limit import time_limit
from gsched.engine.round import RoundRunner
from gsched.model.accounts import SiteQuotas
from gsched.model.decision import JsonValue
from gsched.policy.base import Policy
from gsched.slurm.records import SlurmConfig
from gsched_sql import History

if TYPE_CHECKING:
    from gsched.app.run_daemon import DaemonProcess


@dataclass(frozen=True, slots=True)
class Assembly:
    """One loop and what it needs of a process."""

    process: DaemonProcess
    history: History
    live: Live
    lead: ClusterLead
    policy: Policy
    gate: Gate
    refit: Refit | None
    forecasts: Forecasts | None
    saving: Saving | None

    def loop(self) -> DaemonLoop:
        """The loop, before its first round."""
        process, live, settings = self.process, self.live, self.process.settings
        model = DaemonModel(
            settings, self.history, live.backend.cluster, now, refit=self.refit
        )  # marks the model before it is read
        ledger = self._ledger()
        upkeep = Upkeep(
            model, live.client, live.backend, process.notifier.alive, process.board, ledger
        )
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
        leases = Leases(
            live, self.history, self.lead.fence, lambda: process.settings.heartbeat.dir
        )

        def take_quotas(quotas: SiteQuotas) -> None:
            """Other quotas than those with which the policy was made."""
            asked = process.settings
            policy = policy_of(asked.daemon, live, facts_by(asked, quotas))
            runner.policy = leases.fitted(policy, asked.daemon.knobs)

        if ledger is not None:
            ledger.on_quotas = take_quotas
            runner.seed = lambda policy, memory, as_of: ledger.seed(
                policy, memory, as_of, upkeep.is_told
            )

        def read_config() -> SlurmConfig:
            """Slurm's configuration may change under the daemon: its scale follows."""
            config = live.client.config()
            self._configure(config, process.settings.daemon)
            leases.configure(config, process.settings.daemon.leases)
            runner.leases = leases.driver
            runner.policy = leases.fitted(runner.policy, process.settings.daemon.knobs)
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
                leases.facts(runner.policy),
            ),
            listeners=process.listeners,
            foresight=NoForesight()
            if self.forecasts is None
            else RoundsForesight(self.forecasts, live.backend, runner, journal, process.board),
            saver=self.saving or NoSaver(),
            standing=lambda: {} if ledger is None else ledger.standing,
        )
        loop = DaemonLoop(parts, process.options())
        process.configuration.apply = self._follower(loop, upkeep)
        return loop

    def _ledger(self) -> FairnessUpkeep | None:
        """That of tenants; a single round leaves it to the service."""
        if not self.process.listeners:
            return None
        live, settings = self.live, self.process.settings
        return FairnessUpkeep(
            settings,
            live.client,
            self.history,
            live.backend.cluster,
            self.lead.fence,
            now,
            fault_hook(),
        )

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
            live = self.live
            site = site_facts(settings, live.client, self.history, live.backend.cluster)
            policy = policy_of(settings.daemon, live, site)
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
