"""The options of `Checkpointer`, and what a manifest tells of its job: arguments and environment.

UsageError for wrong ones.
"""

from __future__ import annotations

import os
import platform
from pathlib import Path

import torch

import gsched
from gsched.ckpt.manifest import Job
from gsched.errors import UsageError
from gsched.runtime.checkpoint import job_folder
from gsched.runtime.checkpoint.cadence import NODE_MTBF_S
from gsched.runtime.environment import CHECKPOINT_FOLDER, DEFAULT_GRACE_S, GRACE_S
from gsched.telemetry.job_environment import (
    is_told_by_batch_process,
    of_this_job,
    whole_number,
)

EVERY_VARIABLE = "GSCHED_CHECKPOINT_EVERY_S"


def folder(given: str | os.PathLike[str] | None) -> Path:
    """Where the checkpoints are, as an absolute path."""
    if is_told_by_batch_process(os.environ, CHECKPOINT_FOLDER):
        named = "" if given is None else os.fspath(given)
        return job_folder.of_training(Path(os.environ[CHECKPOINT_FOLDER]).absolute(), named)
    chosen = of_this_job(os.environ, CHECKPOINT_FOLDER) or given
    if chosen is None:
        raise UsageError(
            "no folder for checkpoints", f"give one to the Checkpointer, or set {CHECKPOINT_FOLDER}"
        )
    return Path(chosen).absolute()


def every(seconds: float | str) -> float | None:
    """Seconds between written checkpoints; None: automatic."""
    if seconds == "auto":
        return number(EVERY_VARIABLE, 0.0) or None
    if isinstance(seconds, str) or not seconds > 0:
        raise UsageError(f'every={seconds!r} is neither "auto" nor a number of seconds')
    return float(seconds)


def snapshot_every(steps: int | str) -> int | None:
    """Steps between snapshots; None: automatic."""
    if steps == "auto":
        return None
    if not isinstance(steps, int) or steps < 1:
        raise UsageError(f'snapshot_every={steps!r} is neither "auto" nor a number of steps')
    return steps


def mtbf(mtbf_s: float | None) -> float:
    """Seconds between failures of the whole job."""
    if mtbf_s is None:
        return NODE_MTBF_S / (whole_number(os.environ, "SLURM_JOB_NUM_NODES") or 1)
    if not mtbf_s > 0:
        raise UsageError(f"mtbf_s={mtbf_s!r} is no time between failures")
    return float(mtbf_s)


def grace(grace_s: float | None) -> float:
    """Seconds from a signal to the end of the job."""
    return number(GRACE_S, DEFAULT_GRACE_S) if grace_s is None else grace_s


def job() -> Job | None:
    """Slurm's job that this process belongs to; None outside one."""
    job_id = os.environ.get("SLURM_JOB_ID")
    restart = whole_number(os.environ, "SLURM_RESTART_COUNT") or 0
    return Job(job_id, restart) if job_id else None


def versions() -> tuple[tuple[str, str], ...]:
    """(name, version) of what writes."""
    return (
        ("gsched", gsched.__version__),
        ("torch", str(torch.__version__)),
        ("python", platform.python_version()),
    )


def number(variable: str, default: float) -> float:
    """A number of the environment. UsageError for what is none, or negative."""
    text = os.environ.get(variable, "")
    if not text:
        return default
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value < float("inf"):
        raise UsageError(f"{variable}={text!r} is no number")
    return value
