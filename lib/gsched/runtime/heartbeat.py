"""Tells how far a training job is, once a second, without the training step waiting for it.

::

    with Heartbeat(total=10_000) as heartbeat:
        for step in range(10_000):
            ...
            heartbeat.report(step + 1, loss=loss, tokens=n)

A report keeps a few values; a thread writes the newest ones. Whatever goes wrong with the file is
told once in the log ``gsched.heartbeat`` and never disturbs the training. Without
``GSCHED_HEARTBEAT_DIR``, or outside a job of Slurm's, nothing is written. torch is not needed.
"""

from __future__ import annotations

import os
import secrets
import socket
import time
from collections.abc import Mapping
from pathlib import Path
from typing import SupportsFloat

from gsched.runtime.heartbeat_thread import HeartbeatThread, Report, Reports
from gsched.telemetry.heartbeat_file import HeartbeatRecord
from gsched.telemetry.heartbeat_writer import HeartbeatFile
from gsched.telemetry.job_environment import job_name, own_folder, whole_number

CLOSE_LIMIT_S = 2.0
"""So long `close` waits for the last write: a file server that hangs holds no job back."""


class Heartbeat:
    """The heartbeat of one rank, from now until `close`. One thread alone may report."""

    def __init__(
        self,
        total: int | None = None,
        *,
        first_step: int = 0,
        rank: int | None = None,
        world_size: int | None = None,
        checkpoint_dir: str | os.PathLike[str] | None = None,
        environ: Mapping[str, str] = os.environ,
    ) -> None:
        """`total` steps are to be done in all, of which `first_step` were done by earlier attempts.

        `rank` and `world_size` are by default torchrun's (RANK, WORLD_SIZE), else srun's.
        `checkpoint_dir` is where the run's checkpoints are, for ``gsched ckpt list JOB``.
        """
        self._reports = Reports(total)
        self._tokens = 0
        self._thread: HeartbeatThread | None = None
        folder, job = own_folder(environ), job_name(environ)
        if folder is None:
            return
        now = time.time()
        record = HeartbeatRecord(
            run=secrets.token_hex(6),
            seq=0,
            job=job,
            restart=whole_number(environ, "SLURM_RESTART_COUNT") or 0,
            rank=_known(rank, environ, "RANK", "SLURM_PROCID") or 0,
            world_size=_known(world_size, environ, "WORLD_SIZE", "SLURM_STEP_NUM_TASKS") or 1,
            host=socket.gethostname(),
            started_time=now,
            written_time=now,
            step_time=now,
            first_step=first_step,
            step=first_step,
            total_steps=total,
            checkpoint_dir=None if checkpoint_dir is None else str(Path(checkpoint_dir).absolute()),
        )
        file = HeartbeatFile(folder, job, record.rank)
        self._thread = HeartbeatThread(self._reports, file, record)
        self._thread.start()

    @property
    def total(self) -> int | None:
        """Steps in all; None: not known. May become known later."""
        return self._reports.total

    @total.setter
    def total(self, total: int | None) -> None:
        self._reports.total = total

    def __enter__(self) -> Heartbeat:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def report(self, step: int, *, loss: SupportsFloat | None = None, tokens: int = 0) -> None:
        """So many steps are done; the last one had this loss and took so many tokens.

        `loss` may be a tensor: it is read later, by another thread, and only if it is told, so that
        no GPU is waited for. Takes microseconds.
        """
        self._tokens += tokens
        detach = getattr(loss, "detach", None)
        value = loss if detach is None else detach()
        self._reports.latest = Report(int(step), time.monotonic(), value, self._tokens)

    def committed(self, step: int) -> None:
        """The checkpoint of `step` is on disk."""
        self._reports.committed = (step, time.time())

    def saving(self, begins: bool) -> None:
        """A checkpoint is being written from now on, or none any more.

        Nobody takes the job's GPUs by a lease meanwhile.
        """
        since = self._reports.saving_since
        self._reports.saving_since = (since or time.time()) if begins else None

    def close(self) -> None:
        """Say that the job is done, or gives way. Nothing is told afterwards."""
        self._reports.over.set()
        if self._thread is not None:
            self._thread.join(CLOSE_LIMIT_S)
            self._thread = None


def _known(value: int | None, environ: Mapping[str, str], *names: str) -> int | None:
    """`value`, else the first of these variables."""
    return whole_number(environ, *names) if value is None else value
