"""One command inside a testbed, with the exit code and the signals that a shell would expect."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import Any

from gsched.errors import GschedError, UnavailableError
from gsched.testbed import environment
from gsched.testbed.cluster import Testbed
from gsched.testbed.processes import MARK

EXIT_NOT_EXECUTABLE = 126
EXIT_NOT_FOUND = 127
KILL_AFTER_S = 10
"""A command that ignores SIGTERM or SIGHUP for so long is killed."""


class Signals:
    """Passes SIGTERM, SIGHUP and SIGINT on to the command, and remembers the first of them.

    Nothing is raised, so that no signal, whenever it comes, leaves a testbed behind.
    """

    def __init__(self) -> None:
        self.received: int | None = None
        self._command: subprocess.Popen[bytes] | None = None

    @contextmanager
    def caught(self) -> Iterator[Signals]:
        """Catch the signals within the block."""
        before = {
            number: signal.signal(number, self._handle)
            for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGALRM)
            if signal.getsignal(number) != signal.SIG_IGN  # as nohup wants it
        }
        try:
            yield self
        finally:
            signal.alarm(0)
            for number, handler in before.items():
                signal.signal(number, handler)

    def attend(self, command: subprocess.Popen[bytes]) -> int:
        """Wait for the command; its exit code, 128+N when signal N ended it."""
        self._command = command
        if self.received is not None:  # came just before there was a command
            command.send_signal(self.received)
        code = command.wait()
        return code if code >= 0 else 128 - code

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if number == signal.SIGALRM:
            number = signal.SIGKILL
        elif self.received is None:
            self.received = number
        if number == signal.SIGINT and os.isatty(0):
            return  # a terminal's ^C has reached the command already
        if self._command is not None:
            self._command.send_signal(number)
        if number in (signal.SIGTERM, signal.SIGHUP):
            signal.alarm(KILL_AFTER_S)


def run_in_temporary(
    argv: Sequence[str], overrides: Mapping[str, Any], say: Callable[[str], None]
) -> int:
    """Start a fresh testbed, run `argv` in it, stop and remove it; the command's exit code.

    `overrides` are fields of TestbedSpec. When the testbed does not start, its folder stays until
    the next start of any, so that the logs can be read.
    """
    check_command(argv)
    with Signals().caught() as signals:
        bed = Testbed.temporary(**overrides)
        started = bed.start()
        try:
            say(f"testbed of {bed.spec.num_nodes} nodes up in {started.duration_s:.1f} s")
            if signals.received is not None:
                return 128 + signals.received
            return signals.attend(_launch(argv, bed.env()))
        finally:
            bed.stop()
            bed.remove()


def run_in_existing(argv: Sequence[str], bed: Testbed) -> int:
    """Run `argv` in a testbed that runs and goes on running; the command's exit code."""
    check_command(argv)
    state = bed.status().state
    if state != "running":
        raise UnavailableError(
            f"the testbed {bed.spec.root} is {state}", "start it: gsched testbed start"
        )
    variables = bed.env()
    del variables[MARK]  # what the command leaves running is the user's own affair
    with Signals().caught() as signals:
        return signals.attend(_launch(argv, variables))


def check_command(argv: Sequence[str]) -> None:
    """Raise, with the exit code that shells use, when the program does not exist."""
    if shutil.which(argv[0], path=environment.search_path()) is None:
        raise GschedError(f"command not found: {argv[0]}", exit_code=EXIT_NOT_FOUND)


def _launch(argv: Sequence[str], variables: Mapping[str, str]) -> subprocess.Popen[bytes]:
    try:
        return subprocess.Popen(argv, env=dict(variables))
    except OSError as error:
        raise GschedError(
            f"cannot execute {argv[0]}: {error.strerror}", exit_code=EXIT_NOT_EXECUTABLE
        ) from None
