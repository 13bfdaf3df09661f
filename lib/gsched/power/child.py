"""A command that switches a node: one program without a shell, bounded in time and in words."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import IO

from gsched.errors import ConfigError, TryAgainError, UnavailableError

_ENVIRONMENT = {
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "LANG": "C.UTF-8",
}
_MOST_BYTES = 4096


@dataclass(frozen=True, slots=True)
class Ended:
    """Exit status (negative: the signal that ended it) and the beginning of what it said."""

    status: int
    words: str


def run(
    argv: Sequence[str],
    variables: Mapping[str, str],
    timeout_s: float,
    held: Sequence[int] = (),
) -> Ended:
    """Run a command in an environment of `variables` and little else.

    What it starts in the background may live on and keep the output open: its own end counts.
    It also holds `held`, open locks, which so outlast this process where that is killed.
    Raises ConfigError when it cannot be started, TryAgainError when it takes longer than
    `timeout_s`: its process group is then killed.
    """
    try:
        process = subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env={**_ENVIRONMENT, **variables},
            cwd="/",
            start_new_session=True,
            pass_fds=held,
        )
    except BlockingIOError as error:
        raise UnavailableError(f"{argv[0]} cannot be started now: {error.strerror}") from None
    except OSError as error:
        raise ConfigError(f"{argv[0]} cannot be started: {error.strerror}") from None
    assert process.stdout is not None  # noqa: S101  it was asked for
    with process.stdout as output:
        words = _words(process, output, time.monotonic() + timeout_s)
    if words is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        raise TryAgainError(f"{argv[0]} did not end within {timeout_s:g} s")
    return Ended(process.wait(), words.decode("utf-8", "replace").strip())


def _words(process: subprocess.Popen[bytes], output: IO[bytes], deadline: float) -> bytes | None:
    """What it says until it ends; None when it has not ended at `deadline`."""
    end, stream = os.pidfd_open(process.pid), output.fileno()
    try:
        waiting = select.poll()
        waiting.register(end, select.POLLIN)
        waiting.register(stream, select.POLLIN)
        kept = b""
        while (left_s := deadline - time.monotonic()) > 0:
            ready = {fd for fd, _ in waiting.poll(left_s * 1000)}
            if stream in ready:
                piece = os.read(stream, 65536)  # read on, so that it is not held up by its words
                kept = (kept + piece)[:_MOST_BYTES]
                if not piece:
                    waiting.unregister(stream)
            if end in ready:  # what a pipe can hold has just been read
                return kept
        return None
    finally:
        os.close(end)
