"""This attempt in the register of the job's attempts, which `gsched show` shows.

It lies on a file system that compute nodes share, whose server may hang: a thread writes it, and
nothing waits for that but, for a moment, the end.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Mapping
from pathlib import Path

from gsched.errors import GschedError
from gsched.launch.say import say
from gsched.launch.signals import name_of
from gsched.telemetry.attempts import AttemptLog

_END_LIMIT_S = 2.0


class Register:
    """What is told of this attempt; nothing where the site has no heartbeat folder."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._log = AttemptLog.of_job(environ)
        self._events: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._write, name="register", daemon=True)
        if self._log is not None:
            self._thread.start()

    def begin(self, checkpoints: Path | None, output: Path | None) -> None:
        """The attempt begins; `output` is where its own output goes."""
        if (log := self._log) is not None:
            folder, file = (None if path is None else str(path) for path in (checkpoints, output))
            self._events.put(lambda: log.begin(checkpoints=folder, log=file))

    def signal(self, number: int) -> None:
        """A signal has come."""
        if (log := self._log) is not None:
            self._events.put(lambda: log.signal(_name(number)))

    def end(self, code: int) -> None:
        """The attempt ends with this exit code; negative for a signal."""
        if (log := self._log) is not None:
            how = {"signal": _name(-code)} if code < 0 else {"exit_code": code}
            self._events.put(lambda: log.end(**how))
            self._events.put(None)
            self._thread.join(_END_LIMIT_S)

    def _write(self) -> None:
        said = False
        while (event := self._events.get()) is not None:
            try:
                event()
            except (OSError, GschedError) as error:
                if not said:
                    say(f"this attempt is not in the register of attempts: {_words(error)}")
                said = True


def _words(error: OSError | GschedError) -> str:
    if isinstance(error, GschedError):
        return error.message
    where = f"{error.filename}: " if error.filename else ""
    return f"{where}{error.strerror}" if error.strerror else str(error)


def _name(number: int) -> str:
    return name_of(number).removeprefix("SIG")
