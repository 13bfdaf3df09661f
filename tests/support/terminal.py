"""A terminal in memory: a program on a pty of its own, and the screen that its user would see."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import select
import signal
import struct
import termios
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pyte

from gsched.errors import UnavailableError

_TIMEOUT_S = 60.0


class Terminal:
    """A program on a pty. As a context manager it ends the program, whatever happens."""

    def __init__(
        self, argv: Sequence[str], env: Mapping[str, str], columns: int = 80, lines: int = 24
    ) -> None:
        self.screen = pyte.Screen(columns, lines)
        self._stream = pyte.ByteStream(self.screen)
        self.output = b""
        self.pid, self._pty = pty.fork()
        if self.pid == 0:
            os.execvpe(argv[0], list(argv), dict(env))  # noqa: S606
        self._status: int | None = None
        self.resize(columns, lines)

    def __enter__(self) -> Terminal:
        return self

    def __exit__(self, *_: Any) -> None:
        if self._status is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        with contextlib.suppress(OSError):  # hung up
            os.close(self._pty)

    def hang_up(self) -> None:
        """Close the window, whatever the program does."""
        os.close(self._pty)

    def resize(self, columns: int, lines: int) -> None:
        """Change the size of the window."""
        fcntl.ioctl(self._pty, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
        self.screen.resize(lines, columns)

    def modes(self) -> list[Any]:
        """What stty would say of the terminal, without its control characters."""
        return termios.tcgetattr(self._pty)[:6]

    def press(self, keys: str) -> None:
        """Type on the keyboard."""
        os.write(self._pty, keys.encode())

    @property
    def lines(self) -> list[str]:
        """The lines of the screen."""
        return [line.rstrip() for line in self.screen.display]

    @property
    def text(self) -> str:
        """The whole screen."""
        return "\n".join(self.lines)

    def wait(self, until: Callable[[Terminal], object], what: str) -> str:
        """Let the program draw until the screen is as wanted; returns its text."""
        deadline = time.monotonic() + _TIMEOUT_S
        while not until(self):
            if time.monotonic() > deadline or not self._read():
                last = f"the last that the program wrote: {self.output[-200:]!r}"
                raise UnavailableError(f"the terminal never showed {what}:\n{self.text}\n{last}")
        return self.text

    def end(self) -> int:
        """Wait for the end of the program; its exit code, negative for a signal."""
        deadline = time.monotonic() + _TIMEOUT_S
        while self._read():
            if time.monotonic() > deadline:
                raise UnavailableError(f"the program does not end:\n{self.text}")
        _, self._status = os.waitpid(self.pid, 0)
        return os.waitstatus_to_exitcode(self._status)

    def _read(self) -> bool:
        """Take what the program has written, if it has; False when it has ended."""
        ready, _, _ = select.select([self._pty], [], [], 0.1)
        if not ready:
            return True
        try:
            data = os.read(self._pty, 65536)
        except OSError:  # Linux says EIO at the end
            return False
        self.output += data
        self._stream.feed(data)
        return bool(data)
