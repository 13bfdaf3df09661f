"""How long one rank waits for another: as long as there is progress."""

from __future__ import annotations

from collections.abc import Callable

_SIGNS_A_WAIT = 8


class Patience:
    """It is over when nothing has changed for `limit_s`."""

    def __init__(self, limit_s: float, stopwatch: Callable[[], float]) -> None:
        self._limit_s = limit_s
        self._stopwatch = stopwatch
        self._changed = self._signed = stopwatch()
        self._state: object = None

    def is_over(self, state: object) -> bool:
        """Whether `state`, what can be seen of the other, has been the same for too long."""
        now = self._stopwatch()
        if state != self._state:
            self._state, self._changed = state, now
        return now - self._changed > self._limit_s

    def shall_sign(self) -> bool:
        """Whether those who wait for the one who waits should see a sign of life now."""
        now = self._stopwatch()
        if now - self._signed < self._limit_s / _SIGNS_A_WAIT:
            return False
        self._signed = now
        return True
