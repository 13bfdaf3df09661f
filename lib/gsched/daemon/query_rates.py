"""How often each user may ask: a token bucket a user."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

PER_S = 10
"""Questions a second that a user may go on asking."""
BURST = 20
"""Questions that a user may ask at once."""

_MOST_USERS = 4096


class AskerRates:
    """Buckets by numeric user id; those that are full again are forgotten."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._left: dict[int, tuple[float, float]] = {}  # questions left, and when that was

    def allows(self, uid: int) -> bool:
        """Whether `uid` may ask one more question now, which counts then."""
        with self._lock:
            at = self._monotonic()
            if len(self._left) >= _MOST_USERS:
                self._left = {u: kept for u, kept in self._left.items() if _now(kept, at) < BURST}
            left = _now(self._left.get(uid, (BURST, at)), at)
            is_allowed = left >= 1
            self._left[uid] = (left - 1 if is_allowed else left, at)
            return is_allowed


def _now(kept: tuple[float, float], at: float) -> float:
    left, since = kept
    return min(BURST, left + (at - since) * PER_S)
