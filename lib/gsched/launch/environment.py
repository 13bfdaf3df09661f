"""The environment of the user's script: without what another run has left, with what it needs."""

from __future__ import annotations

import re
import socket
from collections.abc import Mapping
from pathlib import Path

from gsched.launch.job import Job
from gsched.launch.options import Options
from gsched.telemetry.job_environment import FOLDER_VARIABLE, of_this_job

CHECKPOINT_FOLDER = "GSCHED_CHECKPOINT_DIR"
_WRITER = "GSCHED_CKPT_WRITER"
PROFILE_ROOT = Path("gsched-checkpoints")
"""Where a profile run's checkpoints go whose template names a folder for the job's."""

_OF_ANOTHER_RUN = re.compile(
    r"RANK|WORLD_SIZE|LOCAL_RANK|LOCAL_WORLD_SIZE|GROUP_RANK|GROUP_WORLD_SIZE|NODE_RANK"
    r"|ROLE_(?:RANK|NAME|WORLD_SIZE)|MASTER_(?:ADDR|PORT)"
    r"|TORCHELASTIC_(?:RESTART_COUNT|MAX_RESTARTS|RUN_ID|USE_AGENT_STORE|ERROR_FILE)"
    r"|TORCHELASTIC_HEALTH_CHECK_PORT|PET_[A-Z_]+"
    r"|OMPI_(?:COMM_WORLD_[A-Z_]+|UNIVERSE_SIZE|APP_CTX_NUM_PROCS|NUM_APP_CTX|FIRST_RANKS)"
    r"|OMPI_(?:COMMAND|ARGV|FILE_LOCATION)"
    r"|PMI_(?:RANK|SIZE|FD|PORT|ID|KVS|SPAWNED|LOCAL_RANK|LOCAL_SIZE|JOBID)"
    r"|PMIX_(?:RANK|NAMESPACE|SERVER_[A-Z0-9_]+|HOSTNAME|ID|MCA_mca_base_component_path)"
)
"""Variables by which launchers tell a process its place. Settings (OMPI_MCA_…) are a user's."""


def scrubbed(environ: Mapping[str, str]) -> tuple[dict[str, str], list[str]]:
    """The environment without what belongs to another run, and the names of that."""
    gone = sorted(name for name in environ if _OF_ANOTHER_RUN.fullmatch(name))
    kept = {name: value for name, value in environ.items() if name not in gone}
    kept.pop(_WRITER, None)  # of a job in which this one was submitted
    return kept, gone


def checkpoint_folder(
    options: Options, environ: Mapping[str, str], job: Job | None, here: Path
) -> Path | None:
    """Where this job's checkpoints go, absolute; None for a job without any.

    The environment goes before the options: it is the user's own word.
    """
    root = options.checkpoints or options.checkpoint_folder
    if root is None:
        return None
    if options.profile is not None:  # nothing of the job's own is touched
        return here / (options.checkpoints or PROFILE_ROOT) / f"profile-{job.job_id if job else ''}"
    if said := of_this_job(environ, CHECKPOINT_FOLDER):
        return _of_task(here / said, job)
    if options.checkpoint_folder is not None:
        return _of_task(here / options.checkpoint_folder, job)
    return here / root / (job.job_id if job is not None else "")


def _of_task(folder: Path, job: Job | None) -> Path:
    """A folder that is named for a whole array has one for each task: they are different runs."""
    return folder / job.task_id if job is not None and job.task_id else folder


def asked_for(options: Options, environ: Mapping[str, str]) -> dict[str, str]:
    """gsched's own variables that the options stand for."""
    values: dict[str, str] = {}
    if options.every is not None:
        values["GSCHED_CHECKPOINT_EVERY_S"] = f"{options.every:g}"
    if options.grace is not None:
        values["GSCHED_GRACE_S"] = f"{options.grace:g}"
    if options.phase is not None:
        values["GSCHED_PHASE"] = options.phase
    if options.heartbeat is not None and not environ.get(FOLDER_VARIABLE):
        values[FOLDER_VARIABLE] = str(options.heartbeat)
    return values


def of_ranks(environ: Mapping[str, str], job: Job, address: str, port: int) -> dict[str, str]:
    """Where the ranks meet, for processes that srun starts, and for torchrun (PET_…)."""
    tasks = environ.get("SLURM_NTASKS", "")
    return {
        "MASTER_ADDR": address,
        "MASTER_PORT": str(port),
        "WORLD_SIZE": tasks if tasks.isdecimal() else str(job.num_nodes),
        "PET_NNODES": str(job.num_nodes),
        "PET_RDZV_BACKEND": "c10d",
        "PET_RDZV_ENDPOINT": f"{address}:{port}",
        "PET_RDZV_ID": f"{job.job_id}.{job.attempt}",
    }


def master_address(first_node: str) -> str:
    """A name of the first node, where this process runs, that resolves."""
    for name in (first_node, socket.gethostname()):
        try:
            socket.getaddrinfo(name, None)
        except OSError:
            continue
        return name
    return "127.0.0.1"
