"""The job that this process is of, as Slurm's environment tells it."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Job:
    """A job, or a task of an array, at one of its starts."""

    job_id: str
    """As Slurm's commands take it for this job alone: `48211`, or `48211_3` of an array."""
    task_id: str
    """Of an array; else empty."""
    name: str
    restarts: int
    num_nodes: int
    node: str

    @classmethod
    def of(cls, environ: Mapping[str, str]) -> Job | None:
        """The job of an environment; None outside any.

        A task is named by its array: the number of its own is, for one of them, the array's.
        """
        number = environ.get("SLURM_JOB_ID", "")
        if not number.isdecimal():
            return None
        array, task = environ.get("SLURM_ARRAY_JOB_ID", ""), environ.get("SLURM_ARRAY_TASK_ID", "")
        is_task = array.isdecimal() and task.isdecimal()
        return cls(
            job_id=f"{array}_{task}" if is_task else number,
            task_id=task if is_task else "",
            name=environ.get("SLURM_JOB_NAME", ""),
            restarts=_number(environ, "SLURM_RESTART_COUNT", 0),
            num_nodes=_number(environ, "SLURM_JOB_NUM_NODES", 1),
            node=environ.get("SLURMD_NODENAME") or socket.gethostname(),
        )

    @property
    def attempt(self) -> int:
        """Starts so far, this one with them: 1 and up."""
        return self.restarts + 1

    def words(self) -> str:
        """Which attempt this is, for a person."""
        name = f" ({printable(self.name)})" if self.name else ""
        restart = f", restart {self.restarts}" if self.restarts else ""
        return f"attempt {self.attempt} of job {self.job_id}{name}{restart}, on {self.node}"


def printable(text: str) -> str:
    """A user's word on one line: what no terminal should see is shown as an escape."""
    shown = os.fsencode(text).decode("utf-8", "backslashreplace")
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in shown)


def _number(environ: Mapping[str, str], name: str, default: int) -> int:
    text = environ.get(name, "")
    return int(text) if text.isdecimal() else default
