"""gsched's hooks for the tasks of this job, and the sampler of this node's GPUs.

A SLURM_TASK_PROLOG that is not there on a node fails the task: the hooks are named only where all
nodes of the job have them.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import Literal

from gsched.errors import UnavailableError
from gsched.launch.child_process import Children
from gsched.launch.job import Job
from gsched.launch.say import say
from gsched.mounts import mounts_of_this_host, own_disk_of
from gsched.telemetry import gpu_sampler
from gsched.telemetry.hooks import hook
from gsched.telemetry.job_environment import FOLDER_VARIABLE

_HOOKS: tuple[Literal["task_prolog", "task_epilog"], ...] = ("task_prolog", "task_epilog")


def variables(environ: Mapping[str, str], job: Job, *, ranks: bool) -> dict[str, str]:
    """What has srun run the hooks, the user's own ones after them, with what the hooks go by.

    Nothing for a job that has neither `ranks` nor a heartbeat folder: the hooks would do nothing.
    """
    if not ranks and not environ.get(FOLDER_VARIABLE):
        return {}
    found = {"GSCHED_PYTHON": sys.executable} | ({"GSCHED_RANKS": "1"} if ranks else {})
    for name in _HOOKS:
        path = hook(name)
        if path is None or (job.num_nodes > 1 and own_disk_of(str(path), mounts_of_this_host())):
            continue
        variable = f"SLURM_{name.upper()}"
        found[variable] = str(path)
        before = environ.get(variable)
        if before and before != str(path):
            found[f"GSCHED_NEXT_{name.upper()}"] = before
    if ranks and "SLURM_TASK_PROLOG" not in found and environ.get("GSCHED_RANKS") != "script":
        say("RANK and LOCAL_RANK are not set: the job's nodes have no task prolog of gsched's")
    return found


def start_gpu_sampler(environ: Mapping[str, str], children: Children) -> int | None:
    """Start the sampler of this node's GPUs; None where there is nothing to sample. It ends when
    this process has ended.
    """
    command = gpu_sampler.command(environ, os.getpid())
    if command is None:
        return None
    try:
        return children.start(command, environ, own_session=True, quiet=True)
    except UnavailableError as error:
        say(f"the GPUs are not sampled: {error.message}")
        return None
