"""Where finished jobs are read from, and what is lost on the way."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from gsched.app.doctor.findings import Finding
from gsched.app.doctor.walk import Walk
from gsched.errors import GschedError
from gsched.slurm.failures import server_of
from gsched.slurm.records import SlurmConfig

_WHAT = "history source"
ROUNDS_KEPT = 3
"""For so many rounds slurmctld must remember an ended job, so that one of them sees it."""


def check(walk: Walk) -> Iterator[Finding]:
    """slurmdbd, else jobcomp's file, else the queue alone."""
    config = walk.config
    yield from check_tres(config)
    if config.has_slurmdbd:
        yield from _slurmdbd(walk)
        return
    yield from check_job_age(config, walk.settings.daemon.interval_s)
    if config.has_jobcomp_file:
        named = walk.settings.slurm.jobcomp_file
        yield from check_jobcomp(Path(named or config.get("JobCompLoc")))
        return
    kind = config.get("AccountingStorageType") or "none"
    yield Finding(
        "warn",
        "accounting-none",
        _WHAT,
        f"AccountingStorageType={kind}: finished jobs are seen only while squeue has them "
        "(MinJobAge)",
        "set up slurmdbd, or set JobCompType=jobcomp/filetxt and JobCompLoc in slurm.conf and "
        "restart slurmctld",
    )


def _slurmdbd(walk: Walk) -> Iterator[Finding]:
    try:
        walk.output("sacctmgr", "-n", "-P", "show", "cluster", "format=cluster")
    except GschedError as error:
        yield Finding(
            "fail",
            "slurmdbd-down",
            _WHAT,
            error.message,
            f"start it: `systemctl start {server_of('sacctmgr')}`; `sacctmgr show cluster` must "
            "answer",
        )
        return
    yield Finding("ok", "history-source", _WHAT, "sacct (slurmdbd)")


def check_tres(config: SlurmConfig) -> Iterator[Finding]:
    """Without gres/gpu in AccountingStorageTRES slurmdbd forgets how many GPUs a job had."""
    has_gpus = "gpu" in config.get("GresTypes").split(",")
    counted = config.get("AccountingStorageTRES").split(",")
    if config.has_slurmdbd and has_gpus and "gres/gpu" not in counted:
        yield Finding(
            "warn",
            "gpu-tres",
            _WHAT,
            "AccountingStorageTRES has no gres/gpu: slurmdbd does not keep how many GPUs jobs had",
            "add gres/gpu to AccountingStorageTRES in slurm.conf and restart slurmctld; jobs that "
            "ended before stay without",
        )


def check_job_age(config: SlurmConfig, interval_s: float) -> Iterator[Finding]:
    """What squeue alone tells of a job must be read before slurmctld forgets it."""
    age = config.get("MinJobAge").partition(" ")[0]
    least_s = ROUNDS_KEPT * interval_s
    if age.isdecimal() and int(age) < least_s:
        yield Finding(
            "warn",
            "min-job-age",
            _WHAT,
            f"MinJobAge={age}: slurmctld forgets ended jobs before {ROUNDS_KEPT} rounds of "
            f"{interval_s:g} s have seen them, and there is no slurmdbd",
            f"set MinJobAge={max(300, int(least_s))} in slurm.conf, then `scontrol reconfigure`",
        )


def check_jobcomp(path: Path) -> Iterator[Finding]:
    """The file of jobcomp/filetxt; there is none before the first job has ended."""
    if os.path.lexists(path) and not os.access(path, os.R_OK):
        yield Finding(
            "warn",
            "jobcomp-unreadable",
            _WHAT,
            f"{path} of jobcomp/filetxt cannot be read by this user",
            f"`chmod a+r {path}`, or let the daemon's group own it",
        )
        return
    yield Finding(
        "note",
        "jobcomp-file",
        _WHAT,
        f"jobcomp/filetxt in {path}: no GPU counts, and any user's job name can forge rows",
        "slurmdbd is the better source",
    )
