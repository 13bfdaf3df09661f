"""What a running loop goes by: changes of Slurm's configuration, of quotas, of who may act.

The settings are those in force at each call; a reload puts others there.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from gsched.app.daemon_estimates import Estimates
from gsched.app.daemon_leases import Leases
from gsched.app.daemon_parts import Live, fault_hook, new_round_id, policy_of
from gsched.app.daemon_rights import scale_to_act
from gsched.app.fairness.site import facts_by
from gsched.app.target_reservations import Reservations
from gsched.app.wiring import now
from gsched.config.settings import DaemonSettings, Settings
from gsched.daemon.bursts import bf_interval_s
from gsched.daemon.clear import ClearResult, clear
from gsched.engine.ports import Journal
from gsched.engine.round import RoundRunner
from gsched.model.accounts import SiteQuotas
from gsched.policy.base import Policy
from gsched.slurm.records import SlurmConfig


@dataclass(frozen=True, slots=True)
class Course:
    """Keeps one loop's backend, runner and leases at what the site and Slurm say now."""

    settings: Callable[[], Settings]
    acting: bool
    live: Live
    leases: Leases
    estimates: Estimates
    runner: RoundRunner
    journal: Journal
    reservations: Reservations | None = None

    def read_config(self) -> SlurmConfig:
        """Slurm's configuration may change under the daemon: its scale and its leases follow.

        Raises what the command raises, and ConfigError where the settings do not fit any more.
        """
        daemon = self.settings().daemon
        config = self.live.client.config()
        self.configure(config, daemon)
        self.leases.configure(config, daemon.leases)
        self.runner.leases = self.leases.driver
        self.runner.policy = self._fitted(self.runner.policy, daemon)
        return config

    def configure(self, config: SlurmConfig, daemon: DaemonSettings) -> None:
        """Put these in force in the backend. Raises ConfigError where they do not fit."""
        scale = scale_to_act(self.live.client, config, daemon, self.acting)
        self.live.backend.configure(daemon, scale, bf_interval_s(config))

    def take_quotas(self, quotas: SiteQuotas) -> None:
        """Decide by other quotas than those with which the policy was made."""
        settings = self.settings()
        policy = policy_of(settings.daemon, self.live, facts_by(settings, quotas))
        self.runner.policy = self._fitted(policy, settings.daemon)

    def _fitted(self, policy: Policy, daemon: DaemonSettings) -> Policy:
        """With what leases and restarts cost here, where the site's knobs do not say."""
        return self.estimates.fitted(self.leases.fitted(policy, daemon.knobs), daemon.knobs)

    def take_back(self) -> ClearResult:
        """Take back what stands: revokes that can be, reservations, then places in the order."""
        self.leases.take_back("the daemon acts no more")
        if self.reservations is not None:
            self.reservations.release_all("the daemon acts no more")
        return clear(self.live.backend, self.journal, now, new_round_id, False, fault_hook())
