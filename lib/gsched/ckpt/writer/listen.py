"""A writer outside the job step: it listens at a unix socket, with a process for each trainer.

Slurm ends a step with all its processes. What the batch script starts is not of the step, so these
writers flush what a killed step has left. The script starts it before, and ends it after, srun:

    python -m gsched.ckpt.writer --listen "$GSCHED_CKPT_WRITER" --until $$ &
    srun python train.py; code=$?
    python -m gsched.ckpt.writer --end "$GSCHED_CKPT_WRITER"; exit $code
"""

from __future__ import annotations

import os
import select
import socket
import sys
from contextlib import suppress
from pathlib import Path

from gsched.ckpt.disk import Disk
from gsched.ckpt.faults import FaultHook
from gsched.ckpt.writer import messages, start
from gsched.ckpt.writer.messages import EndListening, Hello, Ready
from gsched.ckpt.writer.session import Session
from gsched.errors import UnavailableError, UsageError

_BACKLOG = 128
_HELLO_LIMIT_S = 2.0


def listen(path: Path, disk: Disk, fault: FaultHook, owner: int | None = None) -> None:
    """Serve trainers of this user at `path` until one asks to end, or the process `owner` has
    ended; then until all is written that trainers have left.

    Raises UsageError when another one listens there, UnavailableError when nobody can.
    """
    listener = _listener(path)
    owner_end = None if owner is None else _end_of(owner)
    children: set[int] = set()
    asked: socket.socket | None = None
    while asked is None and _is_called(listener, owner_end):
        connection, _ = listener.accept()
        children = {pid for pid in children if os.waitpid(pid, os.WNOHANG)[0] == 0}
        first = _first_message(connection)
        if first is not None and isinstance(first[0], EndListening):
            asked = connection
            continue
        if first is not None and isinstance(first[0], Hello):
            children.add(_serve(listener, connection, first[0], first[1], disk, fault))
        for fd in first[1] if first else ():
            os.close(fd)
        connection.close()
    listener.close()
    path.unlink(missing_ok=True)
    for pid in children:
        os.waitpid(pid, 0)
    if asked is not None:
        with suppress(OSError):
            messages.send(asked, Ready(os.getpid()))


def end(path: Path) -> None:
    """Ask the writer at `path` to end, and wait until all is written. UnavailableError: none."""
    connection = start.connect(path)
    messages.send(connection, EndListening())
    connection.recv(messages.MAX_MESSAGE_BYTES)


def _end_of(pid: int) -> int:
    """A descriptor that can be read once the process has ended."""
    try:
        return os.pidfd_open(pid)
    except ProcessLookupError:  # it has already: as a pipe that nobody writes to
        ended, write_end = os.pipe()
        os.close(write_end)
        return ended


def _is_called(listener: socket.socket, owner_end: int | None) -> bool:
    """Wait for the next connection; whether there is one, and not the owner's end."""
    poll = select.poll()
    poll.register(listener, select.POLLIN)
    if owner_end is not None:
        poll.register(owner_end, select.POLLIN)
    return owner_end not in {fd for fd, _ in poll.poll()}


def _serve(
    listener: socket.socket,
    connection: socket.socket,
    hello: Hello,
    fds: list[int],
    disk: Disk,
    fault: FaultHook,
) -> int:
    """Serve one trainer in a process of its own; gives its id."""
    pid = os.fork()
    if pid == 0:
        listener.close()
        Session(connection, hello, fds, disk, fault).run()
        sys.exit(0)
    return pid


def _listener(path: Path) -> socket.socket:
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    umask = os.umask(0o177)
    try:
        if path.is_socket() and _is_left_over(path):
            path.unlink()
        listener.bind(os.fspath(path))
        listener.listen(_BACKLOG)
    except OSError as e:
        listener.close()
        raise UnavailableError(f"cannot listen at {path}: {e.strerror or e}") from None
    finally:
        os.umask(umask)
    return listener


def _is_left_over(path: Path) -> bool:
    """Whether nobody listens at a socket that is there."""
    try:
        start.connect(path).close()
    except UnavailableError:
        return True
    raise UsageError(f"another checkpoint writer listens at {path}")


def _first_message(connection: socket.socket) -> tuple[messages.Message, list[int]] | None:
    """What a trainer says first; None for another user's, or one that says nothing."""
    if start.peer(connection)[1] != os.geteuid():
        return None
    poll = select.poll()
    poll.register(connection, select.POLLIN)
    if not poll.poll(_HELLO_LIMIT_S * 1000):
        return None
    try:
        return messages.receive(connection)
    except UnavailableError:
        return None
