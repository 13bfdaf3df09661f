"""Whether Slurm can be asked at all, and whether it is one that gsched knows."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path

from gsched.app.doctor.findings import Finding
from gsched.app.doctor.walk import Walk
from gsched.errors import GschedError
from gsched.slurm.failures import is_munge
from gsched.slurm.munge import Munge

COMMANDS = ("sbatch", "squeue", "scontrol", "sprio", "scancel", "sacct", "sdiag")
_MUNGE_TIMEOUT_S = 5.0
_SLURM_CONF = "/etc/slurm/slurm.conf"
_SETTING = re.compile(r"^\s*(AuthType|AuthInfo)\s*=\s*(\S+)", re.MULTILINE | re.IGNORECASE)
_SOCKET = re.compile(r"(?:^|,)socket=([^,]+)", re.IGNORECASE)
TESTED = ((22, 5), (24, 11), (26, 5))
"""Releases whose output is in gsched's tests."""


def check_reachable(walk: Walk) -> Iterator[Finding]:
    """What keeps every further question from being answered; nothing where Slurm answers."""
    path = walk.environ.get("PATH")
    missing = [command for command in COMMANDS if shutil.which(command, path=path) is None]
    if missing:
        yield Finding(
            "fail",
            "slurm-commands",
            "Slurm commands",
            f"not on PATH: {', '.join(missing)}",
            "install Slurm's client commands (Debian: slurm-client) or mend PATH",
        )
        return
    try:
        _check_munge(walk)
    except GschedError as error:
        yield _munge_down(error)
        return
    try:
        _ = walk.config
    except GschedError as error:
        yield _munge_down(error) if is_munge(error.message) else _unreachable(error)


def _check_munge(walk: Walk) -> None:
    """Raise UnavailableError when Slurm's munge is down: its commands take a minute to say so."""
    socket = munge_socket(walk.environ)
    if socket is not None and shutil.which("munge", path=walk.environ.get("PATH")):
        Munge(socket).encode("", timeout_s=min(_MUNGE_TIMEOUT_S, walk.left_s))


def munge_socket(environ: Mapping[str, str]) -> str | None:
    """The socket of Slurm's munge by slurm.conf, "" for the usual one; None where it is not known,
    or Slurm uses no munge.
    """
    try:
        text = Path(environ.get("SLURM_CONF") or _SLURM_CONF).read_text(errors="replace")
    except OSError:
        return None
    values = {key.lower(): value for key, value in _SETTING.findall(text)}
    if values.get("authtype", "auth/munge").lower() != "auth/munge":
        return None
    found = _SOCKET.search(values.get("authinfo", ""))
    return found[1] if found else ""


def _munge_down(error: GschedError) -> Finding:
    return Finding(
        "fail",
        "munge-down",
        "munge",
        error.message,
        "start it: `systemctl restart munge`; `munge -n | unmunge` must say Success",
    )


def _unreachable(error: GschedError) -> Finding:
    mend = "start it: `systemctl start slurmctld`; then `scontrol ping` says UP"
    if error.hint:
        mend = f"{error.hint}; where it is down, {mend}"
    return Finding("fail", "slurmctld-down", "Slurm", error.message, mend)


def check_cluster(walk: Walk) -> Iterator[Finding]:
    """The release and the cluster."""
    config = walk.config
    text = config.get("SLURM_VERSION")
    release = config.version[:2]
    yield Finding("ok", "slurm", "Slurm", f"{text}, cluster {config.cluster}")
    if release not in TESTED:
        tested = ", ".join(f"{major}.{minor:02}" for major, minor in TESTED)
        is_older = release < TESTED[0]
        yield Finding(
            "warn" if is_older else "note",
            "slurm-version",
            "Slurm",
            f"gsched is tested with Slurm {tested}, not with {text}",
            "upgrade Slurm: its older releases have no security updates"
            if is_older
            else "watch what `gsched daemon run --observe` logs before you add --act",
        )
    federation = walk.client.federation() if config.has_slurmdbd else ""
    if federation:
        yield Finding(
            "fail",
            "federation",
            "Slurm",
            f"{config.cluster} is a member of the federation {federation}: a change of a job here "
            "would not reach its siblings on other clusters",
            "run the daemon with --observe",
        )
