"""The processes that the launcher starts, and what has become of those that ended below it."""

from __future__ import annotations

import ctypes
import os
import signal
from collections.abc import Collection, Mapping, Sequence
from functools import partial

from gsched.errors import UnavailableError

EXIT_NOT_EXECUTABLE = 126  # as shells, env(1) and timeout(1) tell it
EXIT_NOT_FOUND = 127
_PR_SET_CHILD_SUBREAPER = 36  # see prctl(2)
_AT_DEFAULT = (signal.SIGPIPE, signal.SIGXFSZ, signal.SIGUSR1, signal.SIGUSR2)
"""Ignored here: the first two by the interpreter, the others by the job script's head."""


class Children:
    """Children and orphans of this process, which becomes the reaper of all below it."""

    def __init__(self) -> None:
        self._statuses: dict[int, int] = {}
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)

    def start(
        self,
        argv: Sequence[str],
        environ: Mapping[str, str],
        *,
        blocked: Collection[int] = (),
        own_session: bool = False,
        quiet: bool = False,
    ) -> int:
        """Start a command; its process id. It begins with the signals of `blocked` blocked, and
        leads a session of its own, or a process group.

        `quiet`: its standard streams lead nowhere. Raises UnavailableError, with the exit code of
        a shell, where it cannot be started.
        """
        null = (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDWR, 0)
        streams = [null, *((os.POSIX_SPAWN_DUP2, 0, fd) for fd in (1, 2))] if quiet else []
        spawn = partial(
            os.posix_spawnp, argv[0], list(argv), dict(environ),
            file_actions=streams, setsigmask=blocked, setsigdef=_AT_DEFAULT,
        )  # fmt: skip
        try:
            return spawn(setsid=True) if own_session else spawn(setpgroup=0)
        except OSError as error:
            code = EXIT_NOT_FOUND if isinstance(error, FileNotFoundError) else EXIT_NOT_EXECUTABLE
            raise UnavailableError(
                f"{argv[0]} cannot be run: {error.strerror}", exit_code=code
            ) from None

    def reap(self) -> None:
        """Note all that have ended."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            self._statuses[pid] = status

    def status_of(self, pid: int) -> int | None:
        """Exit code of an ended child, negative for the signal that ended it; None: it runs."""
        status = self._statuses.get(pid)
        return None if status is None else os.waitstatus_to_exitcode(status)
