"""How much processor time forecasts may take: a share, saved up for a while, and some on credit."""

from __future__ import annotations

from collections.abc import Callable


class CpuBudget:
    """Seconds of processor time, which come at `share` a second up to `most_s`."""

    def __init__(self, share: float, most_s: float, monotonic: Callable[[], float]) -> None:
        self._share = share
        self._most_s = most_s
        self._monotonic = monotonic
        self._left_s = most_s
        self._at = monotonic()

    @property
    def left_s(self) -> float:
        """What may be spent now; negative after more was."""
        now = self._monotonic()
        self._left_s = min(self._most_s, self._left_s + self._share * (now - self._at))
        self._at = now
        return self._left_s

    def spend(self, seconds: float) -> None:
        """So much was taken."""
        self._left_s = self.left_s - seconds

    def allows(self, seconds: float, *, on_credit: bool = False) -> bool:
        """Whether what will take so long may begin; `on_credit`, as long as the debt is small.

        What takes more than can be saved up may begin when all is saved.
        """
        needed = -self._most_s if on_credit else min(seconds, self._most_s)
        return self.left_s >= needed
