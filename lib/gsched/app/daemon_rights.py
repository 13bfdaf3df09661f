"""Whether a daemon may act on a cluster, looked up before it does."""

from __future__ import annotations

import os
import pwd

from gsched.config.settings import DaemonSettings
from gsched.daemon.site_factor import SiteFactorScale, refuse_to_act, scale_for
from gsched.errors import ConfigError, PermissionDeniedError
from gsched.slurm.client import SlurmClient
from gsched.slurm.privileges import suffices
from gsched.slurm.records import SlurmConfig


def require_privilege(client: SlurmClient) -> None:
    """Raise PermissionDeniedError when Slurm would refuse every SiteFactor of this user."""
    user = pwd.getpwuid(os.geteuid()).pw_name
    level = client.privilege(user)
    if not suffices(level, "site-factor"):
        raise PermissionDeniedError(
            f"user {user} may not set SiteFactor (privilege: {level})",
            "run as root, SlurmUser or a Slurm operator, or without --act",
        )


def scale_to_act(
    client: SlurmClient, config: SlurmConfig, settings: DaemonSettings, acting: bool
) -> SiteFactorScale:
    """The scale that fits Slurm's present configuration.

    Raises ConfigError where there is none and, for an acting daemon, where this cluster cannot or
    must not be acted on.
    """
    scale = scale_for(config, settings)
    if acting:
        refuse_to_act(config, scale)
        _refuse_in_federation(client, config)
    return scale


def _refuse_in_federation(client: SlurmClient, config: SlurmConfig) -> None:
    """Raise ConfigError on a member of a federation: its jobs have siblings on other clusters."""
    federation = client.federation() if config.has_slurmdbd else ""
    if federation:
        raise ConfigError(
            f"cluster {config.cluster} is a member of the federation {federation}: a change of a "
            "job here would not reach its siblings on other clusters",
            "run the daemon with --observe",
        )
