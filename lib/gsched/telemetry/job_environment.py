"""Which job this is, and where it tells of itself, by the environment that it was given."""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Mapping
from pathlib import Path

from gsched.telemetry.own_folder import OwnFolder

FOLDER_VARIABLE = "GSCHED_HEARTBEAT_DIR"


OF_JOB_VARIABLE = "GSCHED_OF_JOB"
"""Which variables of gsched's the batch process has set for which job: see `of_this_job`."""


def mark_as_of_job(environ: Mapping[str, str], names: Collection[str]) -> dict[str, str]:
    """The variable that says so of those of `names` that there are; none outside a job."""
    job_id = environ.get("SLURM_JOB_ID")
    if not job_id:
        return {}
    told = {name: environ[name] for name in names if name in environ}
    return {OF_JOB_VARIABLE: json.dumps({"job": job_id, "told": told})}


def of_this_job(environ: Mapping[str, str], name: str) -> str:
    """A variable; "" where it is what the batch process of another job has set for that one.

    A job that is submitted within a job by sbatch itself inherits all of it.
    """
    value = environ.get(name, "")
    if "SLURM_HET_JOB_ID" in environ:  # its components have numbers of their own
        return value
    job_id = _told_for(environ, name)
    return value if job_id is None or job_id == environ.get("SLURM_JOB_ID") else ""


def is_told_by_batch_process(environ: Mapping[str, str], name: str) -> bool:
    """Whether a variable holds what this job's batch process has set for the whole script."""
    return _told_for(environ, name) is not None and bool(of_this_job(environ, name))


def _told_for(environ: Mapping[str, str], name: str) -> str | None:
    """The job whose batch process has set the variable as it is; None where a person has."""
    try:
        said = json.loads(environ.get(OF_JOB_VARIABLE, "{}"))
        if said["told"].get(name) == environ[name]:
            return str(said["job"])
    except (ValueError, LookupError, TypeError, AttributeError):
        return None
    return None


def whole_number(environ: Mapping[str, str], *names: str) -> int | None:
    """The first of these variables that is a whole number; None where none is."""
    return next((int(environ[name]) for name in names if environ.get(name, "").isdecimal()), None)


def job_name(environ: Mapping[str, str]) -> str:
    """The id by which people know the job: ``48211``, ``48211_3``; "" outside one."""
    array, task = (whole_number(environ, f"SLURM_ARRAY_{name}_ID") for name in ("JOB", "TASK"))
    if array is not None and task is not None:
        return f"{array}_{task}"
    job = whole_number(environ, "SLURM_JOB_ID")
    return "" if job is None else str(job)


def owner(environ: Mapping[str, str]) -> int:
    """Slurm's number of the job's owner, who in a container may be root to itself."""
    uid = whole_number(environ, "SLURM_JOB_UID")
    return os.getuid() if uid is None else uid


def own_folder(environ: Mapping[str, str]) -> OwnFolder | None:
    """Where the job tells of itself; None where it shall not, or is none of Slurm's."""
    folder = environ.get(FOLDER_VARIABLE, "")
    if not folder or not job_name(environ):
        return None
    return OwnFolder(Path(folder), owner(environ))
