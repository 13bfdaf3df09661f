"""SLURM_CLUSTERS, which Slurm's commands obey: gsched answers for this host's cluster alone."""

from __future__ import annotations

import os

from gsched.app.wiring import slurm_client
from gsched.config.settings import Settings
from gsched.errors import GschedError


def cluster_warning(named: str, here: str) -> str:
    """What to say to somebody whose SLURM_CLUSTERS is `named`, of an answer about cluster `here`.

    "" where they agree. `here` is "" where Slurm cannot be asked for its name.
    """
    if named in ("", here):
        return ""
    return f"SLURM_CLUSTERS names {named}; this is {here or 'the cluster of this host'} alone"


def host_cluster_warning(settings: Settings) -> str:
    """The same for the caller's environment; Slurm is asked only where the variable is set."""
    named = os.environ.get("SLURM_CLUSTERS", "")
    if not named:
        return ""
    try:
        here = slurm_client(settings, asks_again=False).config().cluster
    except GschedError:
        here = ""  # the command itself says what is wrong with Slurm
    return cluster_warning(named, here)
