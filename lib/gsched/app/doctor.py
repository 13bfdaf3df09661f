"""Checks of everything that gsched stands on, each with its mend."""

from __future__ import annotations

import os
import pwd
import shutil
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from gsched.app.wiring import open_history, slurm_client
from gsched.config.settings import Settings
from gsched.daemon.locks import StateDir
from gsched.daemon.query_client import QueryClient
from gsched.daemon.site_factor import refuse_to_act, scale_for
from gsched.errors import GschedError
from gsched.slurm.client import MAY_ACT, SlurmClient
from gsched.slurm.records import SlurmConfig

COMMANDS = ("sbatch", "squeue", "scontrol", "sprio", "scancel", "sacct")


@dataclass(frozen=True, slots=True)
class Finding:
    """One check: `level` is ``ok``, ``note`` (to live with), ``warn`` or ``fail``."""

    level: str
    what: str
    found: str
    mend: str = ""


def examine(settings: Settings) -> list[Finding]:
    """All checks, in an order in which mending them makes sense.

    What cannot be looked at is a finding as well: neither GschedError nor OSError is raised.
    """
    findings = _guarded("state folder", lambda: _configuration(settings))
    missing = [c for c in COMMANDS if shutil.which(c) is None]
    if missing:
        findings.append(
            Finding(
                "fail",
                "Slurm commands",
                f"not on PATH: {', '.join(missing)}",
                "install Slurm's client commands (Debian: slurm-client) or mend PATH",
            )
        )
        return findings
    client = slurm_client(settings, asks_again=False)  # how things are just now
    try:
        config = client.config()
    except GschedError as e:
        findings.append(Finding("fail", "Slurm", e.message, e.hint or "start slurmctld"))
        return findings
    version = config.get("SLURM_VERSION")
    findings.append(Finding("ok", "Slurm", f"{version}, cluster {config.cluster}"))
    findings += _guarded("priorities", lambda: _priorities(config, settings))
    findings += _guarded("backfill", lambda: _backfill(config))
    findings += _guarded("requeue", lambda: _requeue(config))
    findings += _guarded("history source", lambda: _accounting(config, settings))
    findings += _guarded("privilege", lambda: _privilege(client))
    findings += _guarded("query socket", lambda: _query_socket(config, settings))
    return findings + examine_state(settings)


def examine_state(settings: Settings) -> list[Finding]:
    """The checks of what gsched itself keeps: history, model, daemon. Raises nothing."""
    return [
        *_guarded("history database", lambda: _history(settings)),
        *_guarded("duration model", lambda: _model(settings)),
        *_guarded("daemon", lambda: _daemon(settings)),
        *_guarded("halt", lambda: _halt(settings)),
    ]


def _guarded(what: str, check: Callable[[], Iterable[Finding]]) -> list[Finding]:
    try:
        return list(check())
    except GschedError as e:
        return [Finding("warn", what, e.message, e.hint)]
    except OSError as e:
        return [Finding("warn", what, f"cannot look: {e}", "run as the daemon's user, or as root")]


def _configuration(settings: Settings) -> Iterator[Finding]:
    sources = ", ".join(str(p) for p in settings.sources) or "none: defaults are in force"
    yield Finding("ok", "configuration", sources)
    folder = settings.state_dir
    if not folder.is_dir():
        yield Finding(
            "warn",
            "state folder",
            f"{folder} does not exist",
            f"create it (owner: the daemon's user, mode 755), or set state_dir; {_init_hint()}",
        )
    elif not os.access(folder, os.W_OK | os.X_OK):
        yield Finding(
            "note",
            "state folder",
            f"{folder} is not yours to write",
            "nothing to do for users; the daemon runs as its owner",
        )
    else:
        yield Finding("ok", "state folder", str(folder))


def _init_hint() -> str:
    return "`gsched db init` makes the database in it"


def _priorities(config: SlurmConfig, settings: Settings) -> Iterator[Finding]:
    scale = scale_for(config, settings.daemon)
    try:
        refuse_to_act(config, scale)
    except GschedError as e:
        yield Finding("fail", "priorities", e.message, e.hint)
        return
    weights = ", ".join(f"{name} {value}" for name, value in config.weights().items() if value)
    yield Finding(
        "ok", "priorities", f"jobs can be moved by ±{scale.max_shift} points (weights: {weights})"
    )


def _backfill(config: SlurmConfig) -> Iterator[Finding]:
    if config.get("SchedulerType") != "sched/backfill":
        return
    if "bf_continue" in config.flags("SchedulerParameters"):
        yield Finding("ok", "backfill", "bf_continue is set")
    else:
        yield Finding(
            "warn",
            "backfill",
            "without bf_continue a priority change ends the running backfill pass",
            "add bf_continue to SchedulerParameters in slurm.conf",
        )


def _requeue(config: SlurmConfig) -> Iterator[Finding]:
    if config.get("JobRequeue") == "0":
        yield Finding(
            "note",
            "requeue",
            "JobRequeue=0: jobs are not requeued unless they ask for it",
            "nothing to do: gsched leaves such jobs alone when it preempts",
        )


def _accounting(config: SlurmConfig, settings: Settings) -> Iterator[Finding]:
    if config.has_slurmdbd:
        yield Finding("ok", "history source", "sacct (slurmdbd)")
        return
    if config.has_jobcomp_file:
        path = Path(settings.slurm.jobcomp_file or config.get("JobCompLoc"))
        readable = os.access(path, os.R_OK) or not path.exists()
        yield Finding(
            "note" if readable else "warn",
            "history source",
            f"jobcomp/filetxt in {path}: no GPU counts, and any user's job name can forge rows",
            "slurmdbd is the better source" if readable else f"let gsched read {path}",
        )
        return
    yield Finding(
        "warn",
        "history source",
        f"AccountingStorageType={config.get('AccountingStorageType') or 'none'}: finished jobs are "
        "seen only while squeue has them (MinJobAge)",
        "set up slurmdbd, or JobCompType=jobcomp/filetxt",
    )


def _privilege(client: SlurmClient) -> Iterator[Finding]:
    level = client.privilege(pwd.getpwuid(os.geteuid()).pw_name)
    if level in MAY_ACT:
        yield Finding("ok", "privilege", f"{level}: may set SiteFactor")
    else:
        yield Finding(
            "note",
            "privilege",
            f"{level}: may not set SiteFactor, so `gsched daemon run --act` would be refused",
            "run the daemon as SlurmUser, root or a Slurm operator "
            "(sacctmgr modify user NAME set adminlevel=Operator)",
        )


def _history(settings: Settings) -> Iterator[Finding]:
    with open_history(settings) as history:
        stats = history.stats()
    jobs, rejects = stats.rows.get("jobs", 0), stats.rows.get("rejects", 0)
    found = f"{stats.location}: {jobs} jobs, {rejects} rejected rows"
    yield Finding("ok", "history database", found)


def _model(settings: Settings) -> Iterator[Finding]:
    if settings.predict.estimator == "model" and not settings.model_file.exists():
        yield Finding(
            "warn",
            "duration model",
            f"none at {settings.model_file}: no job is ranked",
            "run `gsched predict train` once there is a history",
        )
        return
    from gsched.predict.estimators import load_estimator

    found = f"{settings.predict.estimator} {load_estimator(settings).model_id}"
    yield Finding("ok", "duration model", found)


def _daemon(settings: Settings) -> Iterator[Finding]:
    leader = StateDir(settings.state_dir).leader()
    if leader is None:
        yield Finding("ok", "daemon", "not running")
    else:
        yield Finding("ok", "daemon", f"running, pid {leader['pid']}, mode {leader.get('mode')}")


def _query_socket(config: SlurmConfig, settings: Settings) -> Iterator[Finding]:
    client = QueryClient.for_site(settings.daemon, config)
    if client is not None:
        cluster = client.ask().get("cluster")
        where = settings.daemon.query_address
        yield Finding("ok", "query socket", f"the daemon of {cluster} answers at {where}")


def _halt(settings: Settings) -> Iterator[Finding]:
    halted = StateDir(settings.state_dir).halted()
    if halted:
        yield Finding(
            "warn",
            "halt",
            f"acting is halted by {halted}",
            "`gsched daemon clear --lift-halt` lets the daemon act again",
        )
