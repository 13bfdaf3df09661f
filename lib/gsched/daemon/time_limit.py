"""A bound on how long foreign code may run in the daemon's own thread."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from gsched.engine.ports import OverTimeError

_AGAIN_S = 1.0


@contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Raise OverTimeError into the block after so many seconds, and again each second from then.

    For the main thread only: it is done by SIGALRM. Code that does not return to Python's
    interpreter is not interrupted; for that there is the service manager's watchdog.
    """
    is_done = False

    def ring(_signal: int, _frame: FrameType | None) -> None:
        if not is_done:
            raise OverTimeError

    before = signal.signal(signal.SIGALRM, ring)
    try:
        try:
            signal.setitimer(signal.ITIMER_REAL, seconds, _AGAIN_S)
            yield
        finally:  # it may ring here: then the outer block disarms all the same
            is_done = True
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
