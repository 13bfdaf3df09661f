"""The checkpoint writer outside the job's steps: it outlives a step that Slurm kills as a whole."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from gsched.ckpt.writer import listen
from gsched.ckpt.writer.start import MEANT_FOR_TRAINER, SOCKET_VARIABLE
from gsched.errors import GschedError
from gsched.launch.child_process import Children
from gsched.launch.say import say

_START_LIMIT_S = 20.0
"""Python may come from a slow file server."""

_POLL_S = 0.01
_MAX_PATH_BYTES = 100  # of the 107 of a unix socket's address


class WriterOutside:
    """A writer that listens at a socket in the job's folder."""

    def __init__(self, path: Path, pid: int) -> None:
        self._path = path
        self.pid = pid

    @classmethod
    def start(
        cls,
        folder: Path,
        environ: Mapping[str, str],
        children: Children,
        limit_s: float = _START_LIMIT_S,
    ) -> WriterOutside | None:
        """Start it, and wait until it listens, at most `limit_s` seconds. None where it does not:
        trainers then start one each, beside themselves. It ends with this process, once all is
        written.
        """
        path = folder / "writer"
        if len(str(path).encode()) > _MAX_PATH_BYTES:
            say(f"no checkpoint writer outside the steps: {path} is too long for a socket")
            return None
        command = [sys.executable, "-I", "-m", "gsched.ckpt.writer", "--listen", str(path)]
        command += ["--until", str(os.getpid())]
        try:
            pid = children.start(command, environ, blocked=MEANT_FOR_TRAINER, own_session=True)
        except GschedError as error:
            say(f"no checkpoint writer outside the steps: {error.message}")
            return None
        deadline = time.monotonic() + limit_s
        while not path.is_socket():
            children.reap()
            if children.status_of(pid) is not None:
                say("no checkpoint writer outside the steps: it ended at once")
                return None
            if time.monotonic() > deadline:
                say(f"no checkpoint writer outside the steps: not ready within {limit_s:g} s")
                os.kill(pid, signal.SIGKILL)  # not reaped yet, so that it is still this one
                return None
            time.sleep(_POLL_S)
        return cls(path, pid)

    @property
    def variables(self) -> dict[str, str]:
        """How trainers find it."""
        return {SOCKET_VARIABLE: str(self._path)}

    def end(self) -> None:
        """Wait until all is written that trainers have left, however long that takes: Slurm ends
        the job where it takes too long.
        """
        with suppress(GschedError, OSError):  # it has been killed
            listen.end(self._path)
