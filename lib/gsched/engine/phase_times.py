"""How long the phases of a round take."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from gsched.engine.ports import Stopwatch


def no_stopwatch() -> float:
    """The stopwatch of a round that nobody times."""
    return 0.0


class PhaseTimes:
    """Seconds by phase; a phase that is entered again goes on."""

    def __init__(self, stopwatch: Stopwatch = no_stopwatch) -> None:
        self.seconds: dict[str, float] = {}
        self._stopwatch = stopwatch

    @contextmanager
    def of(self, phase: str) -> Iterator[None]:
        """Count the body's time as `phase`."""
        began = self._stopwatch()
        try:
            yield
        finally:
            taken = self._stopwatch() - began
            self.seconds[phase] = self.seconds.get(phase, 0.0) + taken
