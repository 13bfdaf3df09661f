"""A process of the daemon's own beside it: long work that its rounds shall not wait for.

The child is another Python with one line each way over a socket pair, its standard input. It dies
with its parent (`as_child`), has a session of its own, so that a terminal's signals do not reach
it, and less of the processors' time than the daemon.
"""

from __future__ import annotations

import ctypes
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from gsched.daemon.lines import read_line, send_line
from gsched.errors import UnavailableError

NICENESS = 10
_END_S = 1.0
_SITE_ENVIRONMENT = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C.UTF-8"}
_PR_SET_PDEATHSIG = 1  # see prctl(2)
_IDLE_LIMIT_S = 864_000.0  # a socket's time-out has a bound; questions come every day at least


@dataclass(frozen=True, slots=True)
class ChildProcess:
    """A child and the line to it."""

    process: subprocess.Popen[bytes]
    connection: socket.socket

    @classmethod
    def start(cls, module: str, environment: Mapping[str, str]) -> ChildProcess:
        """Run `module` as a program in a Python like this one.

        The thread that starts it has to live as long as the child is wanted: the kernel takes its
        end for the parent's. Raises UnavailableError when no process can be had.
        """
        ours, theirs = socket.socketpair()
        try:
            process = subprocess.Popen(
                _command(module, os.getpid()),
                stdin=theirs.fileno(),
                stdout=subprocess.DEVNULL,
                env=dict(environment),
                start_new_session=True,
            )
        except OSError as error:
            ours.close()
            raise UnavailableError(f"{module} could not be started: {error.strerror}") from None
        finally:
            theirs.close()
        return cls(process, ours)

    def asked(self, question: str, max_bytes: int, limit_s: float) -> str:
        """The answer to a line.

        Raises UnavailableError when the child takes longer than `limit_s` to take the question, or
        to answer it, or has died; DataError for an answer of more than `max_bytes`.
        """
        send_line(self.connection, question, limit_s)
        return read_line(self.connection, max_bytes, limit_s)

    def end_words(self) -> str:
        """How it has ended, '' while it runs. One that has hung up has a moment to end."""
        try:
            status = self.process.wait(_END_S)
        except subprocess.TimeoutExpired:
            return ""
        return _end_of(status)

    def end(self) -> None:
        """Kill it, stopped as it may be, and clean up."""
        self.process.kill()
        self.connection.close()
        self.process.wait()


def hand_text(argv: Sequence[str], text: str, limit_s: float) -> str:
    """Run a command of the site's with `text` as its standard input; what went wrong, or ''.

    It gets an environment of its own, no terminal, and is killed with all that it has started when
    it takes longer than `limit_s`. What it says goes nowhere.
    """
    try:
        process = subprocess.Popen(
            list(argv),
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=_SITE_ENVIRONMENT,
            start_new_session=True,
        )
    except OSError as error:
        return f"{argv[0]} cannot be run: {error.strerror}"
    try:
        process.communicate(text.encode(), timeout=limit_s)
    except subprocess.TimeoutExpired:
        return f"{argv[0]} takes longer than {limit_s:g} s"
    except OSError as error:
        return f"{argv[0]} does not read what it is told: {error.strerror}"
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    return "" if process.returncode == 0 else f"{argv[0]} has failed: {_end_of(process.returncode)}"


def _end_of(status: int) -> str:
    return f"signal {-status}" if status < 0 else f"exit status {status}"


def _command(module: str, parent: int) -> Sequence[str]:
    # as this interpreter was called: in its virtual environment, with or without -I
    options = ["-I"] if sys.flags.isolated else []
    return (sys.executable, *options, "-m", module, str(parent))


def as_child() -> socket.socket:
    """What a child does first: from now on it lives no longer than its parent.

    Gives the line to the parent. Of the signals that are sent to all processes of a service, those
    that mean the daemon (INT, HUP) are left to it; TERM ends the child.
    """
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != int(sys.argv[1]):  # it has died before it could be told
        raise SystemExit(1)
    with suppress(PermissionError):  # a sandbox that forbids it: the service's own Nice= counts
        os.nice(NICENESS)
    return socket.socket(fileno=os.dup(0))


def next_question(connection: socket.socket, max_bytes: int) -> str:
    """The parent's next line. Ends the process when the parent hangs up, or is long silent."""
    try:
        return read_line(connection, max_bytes, _IDLE_LIMIT_S)
    except UnavailableError:
        raise SystemExit(0) from None


def answer(connection: socket.socket, line: str, limit_s: float) -> None:
    """Give the parent a line. Ends the process when it does not take it."""
    try:
        send_line(connection, line, limit_s)
    except UnavailableError:
        raise SystemExit(1) from None
