"""Waiting that others may cut short: other threads, and signal handlers.

A signal handler runs within the thread that waits. It must take no lock that this thread may hold,
as ``threading.Event.set`` does; writing to an eventfd(2) takes none.
"""

from __future__ import annotations

import os
import select
from contextlib import suppress


class Waker:
    """Wakes who waits. A call of `wake` before `wait` counts for that wait."""

    def __init__(self) -> None:
        self._fd = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._poll = select.poll()
        self._poll.register(self._fd, select.POLLIN)

    def close(self) -> None:
        """Nobody waits or wakes any more."""
        os.close(self._fd)

    def wake(self) -> None:
        """End the present wait, or the next one. For any thread and for signal handlers."""
        with suppress(BlockingIOError):  # woken 2**64 times
            os.eventfd_write(self._fd, 1)

    def wait(self, seconds: float) -> bool:
        """Wait at most so long; whether somebody has called `wake`."""
        self._poll.poll(max(0.0, seconds) * 1000)
        with suppress(BlockingIOError):
            os.eventfd_read(self._fd)
            return True
        return False
