"""The daemon's refits: a process of their own, for which no round waits."""

from __future__ import annotations

import json
import os
import select
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from gsched.config.loader import variable
from gsched.config.settings import Settings
from gsched.daemon.child_process import ChildProcess
from gsched.daemon.lines import read_line
from gsched.errors import EXIT_SOFTWARE, GschedError, UnavailableError

LONGEST_S = 3600.0
"""A fit that takes longer hangs: with a million jobs it takes minutes."""
WORKER = "gsched.app.refit_worker"
MAX_ANSWER_BYTES = 65536
_ANSWER_S = 1.0
_NOT_THE_CHILDS = frozenset({"NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"})


@dataclass(frozen=True, slots=True)
class RefitResult:
    """How a refit has ended. `exit_code` is that of `gsched predict train`."""

    exit_code: int
    message: str


class Refit:
    """At most one process that fits a model; the thread that starts it must outlive it."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._child: ChildProcess | None = None
        self._until = 0.0

    @property
    def is_running(self) -> bool:
        """Whether a fit has begun whose end has not been asked for."""
        return self._child is not None

    @property
    def pid(self) -> int | None:
        """The process that fits now."""
        return self._child.process.pid if self._child else None

    def start(self, settings: Settings) -> None:
        """Begin a fit by these settings. Raises UnavailableError when no process can be had."""
        self._child = ChildProcess.start(WORKER, _environment(settings, os.environ))
        self._until = self._monotonic() + LONGEST_S

    def result(self) -> RefitResult | None:
        """How the fit has ended; None while it goes on, for LONGEST_S at most: then it is killed.

        Asks once: then there is none any more.
        """
        child = self._child
        if child is None:
            return None
        if not select.select([child.connection], [], [], 0)[0]:
            if self._monotonic() < self._until:
                return None
            self.end()
            return RefitResult(EXIT_SOFTWARE, f"it had not ended after {LONGEST_S:.0f} s: killed")
        try:
            answer = json.loads(read_line(child.connection, MAX_ANSWER_BYTES, _ANSWER_S))
            return RefitResult(int(answer["exit_code"]), str(answer["message"]))
        except UnavailableError:
            why = f"its process ended without a word ({child.end_words()})"
            return RefitResult(EXIT_SOFTWARE, why)
        except (GschedError, ValueError, KeyError, TypeError) as e:
            return RefitResult(EXIT_SOFTWARE, f"its process gave no answer that is one: {e}")
        finally:
            self.end()

    def end(self) -> None:
        """End a fit that is under way: what was in use stays."""
        child, self._child = self._child, None
        if child is not None:
            child.end()


def _environment(settings: Settings, base: Mapping[str, str]) -> dict[str, str]:
    """The settings in force, which the files may not say any more."""
    told: dict[str, Any] = {
        "state_dir": settings.state_dir,
        "database.url": settings.database.url,
        "database.password_file": settings.database.password_file,
        "predict.min_jobs": settings.predict.min_jobs,
        "predict.history_days": settings.predict.history_days,
        "predict.keep_models": settings.predict.keep_models,
        "predict.default_duration_s": settings.predict.default_duration_s,
    }
    kept = {name: value for name, value in base.items() if name not in _NOT_THE_CHILDS}
    return kept | {variable(key): str(value) for key, value in told.items()}
