"""The loop of one daemon process, put together from Slurm, history, policy and predictor."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gsched.app.daemon_course import Course
from gsched.app.daemon_estimates import Estimates
from gsched.app.daemon_facts import facts_of
from gsched.app.daemon_fairness import FairnessUpkeep
from gsched.app.daemon_forecasts import Forecasts, RoundsForesight
from gsched.app.daemon_lead import ClusterLead
from gsched.app.daemon_leases import Leases
from gsched.app.daemon_model import DaemonModel
from gsched.app.daemon_parts import Live, fault_hook, new_round_id, policy_of, rules_of
from gsched.app.daemon_rights import scale_to_act
from gsched.app.daemon_saver import Saving, check_names, saver_settings
from gsched.app.daemon_targets import Targets
from gsched.app.daemon_upkeep import Upkeep
from gsched.app.fairness.site import site_facts, takes_quotas
from gsched.app.refit import Refit
from gsched.app.target_mail import TargetMail
from gsched.app.target_reservations import Reservations, reservations_of
from gsched.app.wiring import now
from gsched.config.settings import Settings
from gsched.daemon.gate import Gate
from gsched.daemon.loop import DaemonLoop, LoopParts
from gsched.daemon.loop_ports import Foresight, NoForesight, NoReservations, NoSaver
from gsched.daemon.metrics_gauges import Facts
from gsched.daemon.time_limit import time_limit
from gsched.engine.ports import Journal
from gsched.engine.round import RoundRunner
from gsched.model.decision import JsonValue
from gsched.model.job import Capability
from gsched.policy.base import Policy
from gsched.policy.registry import SiteFacts
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
    site: SiteFacts  # of which the policy was made
    gate: Gate
    refit: Refit | None
    forecasts: Forecasts | None
    saving: Saving | None

    def loop(self) -> DaemonLoop:
        """The loop, before its first round."""
        model = DaemonModel(
            self.process.settings, self.history, self.live.backend.cluster, now, refit=self.refit
        )  # marks the model before it is read
        ledger = self._ledger()
        upkeep = self._upkeep(model, ledger)
        journal = self.history.journal(self.lead.fence)
        course = self._course(self._runner(upkeep, journal), journal)
        if ledger is not None:
            self._join(ledger, course, upkeep)
        targets = self._targets()
        begun = course.runner.seed
        course.runner.seed = lambda policy, memory, as_of: targets.seed(
            policy, begun(policy, memory, as_of)
        )
        parts = self._parts(
            course, upkeep, ledger, targets, lambda: self._facts(loop, course, upkeep, targets)
        )
        loop = DaemonLoop(parts, self.process.options())
        self.process.configuration.apply = self._follower(loop, course, upkeep, ledger)
        return loop

    def _upkeep(self, model: DaemonModel, ledger: FairnessUpkeep | None) -> Upkeep:
        process, live = self.process, self.live
        return Upkeep(
            model, live.client, live.backend, process.notifier.alive, process.board, ledger
        )

    def _runner(self, upkeep: Upkeep, journal: Journal) -> RoundRunner:
        return RoundRunner(
            self.live.backend,
            self.policy,
            journal,
            upkeep.first_predictor(),
            now,
            new_round_id,
            fault_hook(),
            rules=rules_of(self.process.settings.daemon),
            time_limit=time_limit,
            stopwatch=time.monotonic,
            extra=self._inversions,
        )

    def _course(self, runner: RoundRunner, journal: Journal) -> Course:
        process = self.process

        def heartbeat_dir() -> str:
            return process.settings.heartbeat.dir

        estimates = Estimates(
            self.history,
            self.live.backend.cluster,
            heartbeat_dir,
            lambda: process.settings.deadlines.profiles,
        )
        runner.progress = estimates.seen
        return Course(
            settings=lambda: process.settings,
            acting=process.acting,
            live=self.live,
            leases=Leases(self.live, self.history, self.lead.fence, heartbeat_dir),
            estimates=estimates,
            runner=runner,
            journal=journal,
            reservations=self._reservations(),
        )

    def _reservations(self) -> Reservations:
        """Those that were made before are known before the first look."""
        process = self.process
        found = reservations_of(
            self.live, self.history, lambda: process.settings, self.lead.fence, fault_hook()
        )
        found.recall()
        return found

    def _join(self, ledger: FairnessUpkeep, course: Course, upkeep: Upkeep) -> None:
        """The policy goes by the quotas of the ledger, and begins with what it knows of tenants."""
        ledger.on_quotas = course.take_quotas
        ledger.decides_by = self.site if takes_quotas(self.process.settings) else None
        course.runner.seed = lambda policy, memory, as_of: ledger.seed(
            policy, memory, as_of, upkeep.is_told
        )

    def _parts(
        self,
        course: Course,
        upkeep: Upkeep,
        ledger: FairnessUpkeep | None,
        targets: Targets,
        facts: Callable[[], Facts],
    ) -> LoopParts:
        process, live = self.process, self.live
        foresight: Foresight = NoForesight()
        if self.forecasts is not None:
            foresight = RoundsForesight(
                self.forecasts, live.backend, course.runner, course.journal, process.board
            )
        return LoopParts(
            runner=course.runner,
            gate=self.gate,
            state_dir=process.state_dir,
            requests=live.backend.requests,
            clock=now,
            read_config=course.read_config,
            upkeep=upkeep,
            lead=self.lead,
            take_back=course.take_back,
            reload=process.configuration.reload,
            wishes=process.wishes,
            board=process.board,
            notifier=process.notifier,
            metrics=process.metrics,
            facts=facts,
            listeners=process.listeners,
            foresight=foresight,
            saver=self.saving or NoSaver(),
            standing=lambda: {} if ledger is None else ledger.standing,
            targets=targets,
            reservations=course.reservations or NoReservations(),
        )

    def _targets(self) -> Targets:
        """The record of deadlines; a single round sends no mail."""
        process, live = self.process, self.live
        mail = TargetMail(lambda: process.settings, fault_hook()) if process.listeners else None
        return Targets(
            self.history,
            live.backend.cluster,
            self.lead.fence,
            lambda: process.settings,
            live.backend.requests,
            now,
            fault_hook(),
            mail,
        )

    def _facts(self, loop: DaemonLoop, course: Course, upkeep: Upkeep, targets: Targets) -> Facts:
        return facts_of(
            loop,
            upkeep,
            self.history,
            self.process.refusals(),
            self.process.database_errors,
            self.forecasts.facts if self.forecasts else None,
            self.saving.facts if self.saving else None,
            course.leases.facts(course.runner.policy),
            targets.facts() if Capability.ADMIT in course.runner.policy.requires else None,
        )

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

    def _follower(
        self, loop: DaemonLoop, course: Course, upkeep: Upkeep, ledger: FairnessUpkeep | None
    ) -> Callable[[Settings], None]:
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
            course.configure(config, settings.daemon)
            loop.parts.runner.policy = policy
            if ledger is not None:
                ledger.decides_by = site if takes_quotas(settings) else None
            loop.parts.runner.rules = rules_of(settings.daemon)
            self.process.configuration.settings = settings
            loop.options = self.process.options()

        return follow
