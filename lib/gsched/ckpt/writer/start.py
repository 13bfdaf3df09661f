"""Starting a writer, or reaching the one that listens outside the job step."""

from __future__ import annotations

import os
import signal
import socket
import struct
import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from gsched.errors import UnavailableError

SOCKET_VARIABLE = "GSCHED_CKPT_WRITER"
"""The unix socket of a writer that runs outside the step, and so outlives its end."""

MEANT_FOR_TRAINER = frozenset(
    {
        *(signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGALRM, signal.SIGTERM),
        *(signal.SIGUSR1, signal.SIGUSR2, signal.SIGXCPU, signal.SIGVTALRM),
    }
)
"""Signals that Slurm, or a terminal, sends to all processes of a step: the writer ignores them."""

_CONNECT_LIMIT_S = 5.0
_END_LIMIT_S = 1.0
_CREDENTIALS = struct.Struct("iII")  # struct ucred: pid, uid, gid
_MAX_LAST_WORDS_BYTES = 4096


@dataclass(frozen=True, slots=True)
class WriterProcess:
    """The trainer's own child, with what it says on its standard error."""

    process: subprocess.Popen[bytes]
    stderr_fd: int

    def end_words(self) -> str:
        """How it ended, and its last line. One that does not, though its line is cut, is killed."""
        try:
            status = self.process.wait(_END_LIMIT_S)
            how = f"signal {-status}" if status < 0 else f"exit status {status}"
        except subprocess.TimeoutExpired:
            self.process.kill()  # it ends at once, or once its file system answers
            with suppress(subprocess.TimeoutExpired):
                self.process.wait(_END_LIMIT_S)
            how = "it hung, and was killed"
        size = os.fstat(self.stderr_fd).st_size
        offset = max(0, size - _MAX_LAST_WORDS_BYTES)
        words = os.pread(self.stderr_fd, _MAX_LAST_WORDS_BYTES, offset).decode(errors="replace")
        os.close(self.stderr_fd)
        last = words.strip().rpartition("\n")[2]
        return f"{how}: {last}" if last else how


def start_child() -> tuple[socket.socket, WriterProcess]:
    """A writer beside the trainer, in a session of its own. UnavailableError when none can be had.

    The signals that it ignores are blocked from before it starts until it ignores them, so that
    one that comes in between does not end it.
    """
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    stderr_fd = os.memfd_create("gsched-writer-stderr", os.MFD_CLOEXEC)
    before = signal.pthread_sigmask(signal.SIG_BLOCK, MEANT_FOR_TRAINER)
    try:
        process = subprocess.Popen(
            _command(),
            stdin=theirs.fileno(),
            stdout=subprocess.DEVNULL,
            stderr=stderr_fd,
            start_new_session=True,
        )
    except OSError as e:
        ours.close()
        os.close(stderr_fd)
        raise UnavailableError(f"the checkpoint writer could not be started: {e}") from None
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        theirs.close()
    return ours, WriterProcess(process, stderr_fd)


def _command() -> list[str]:
    # -P: a file json.py in the folder where training was started must not become the writer's
    options = ["-I"] if sys.flags.isolated else ["-P"]
    return [sys.executable, *options, "-m", "gsched.ckpt.writer"]


def connect(path: Path) -> socket.socket:
    """The writer that listens at `path`. UnavailableError when there is none, or another user's."""
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    try:
        connection.settimeout(_CONNECT_LIMIT_S)
        connection.connect(os.fspath(path))
        connection.settimeout(None)
    except OSError as e:
        connection.close()
        raise UnavailableError(f"no checkpoint writer answers at {path}: {e}") from None
    if peer(connection)[1] != os.geteuid():
        connection.close()
        raise UnavailableError(f"the checkpoint writer at {path} is another user's")
    return connection


def peer(connection: socket.socket) -> tuple[int, int]:
    """(process id, user id) at the other end, as the kernel knows it."""
    raw = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    pid, uid, _ = _CREDENTIALS.unpack(raw)
    return pid, uid
