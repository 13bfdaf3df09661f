"""What signals and sockets want of the daemon's main thread, and how that waits for them."""

from __future__ import annotations

import queue
import threading
from dataclasses import dataclass, field

from gsched.daemon.waker import Waker
from gsched.errors import GschedError, TryAgainError


@dataclass(frozen=True, slots=True)
class Reloaded:
    """What a reload of the configuration has changed, keys in dotted form (``daemon.policy``).

    `needs_restart` are those of other values that only a new start puts in force.
    """

    changed: tuple[str, ...]
    needs_restart: tuple[str, ...]


@dataclass(slots=True)
class Ticket:
    """Somebody's wait for a reload."""

    is_done: threading.Event = field(default_factory=threading.Event)
    reloaded: Reloaded | None = None
    error: GschedError | None = None


class Wishes:
    """Ending, reloading and hurrying. A wish is noted at once and served between two rounds."""

    def __init__(self) -> None:
        self.ended = False
        self._hurried = False
        self._reload_wanted = False
        self._tickets: queue.SimpleQueue[Ticket] = queue.SimpleQueue()
        self._waker = Waker()

    def close(self) -> None:
        """Nobody waits any more."""
        self._waker.close()

    def end(self) -> None:
        """Let the daemon end after the round in progress. For signal handlers, too."""
        self.ended = True
        self._waker.wake()

    def hurry(self) -> None:
        """Bring the next round forward: somebody waits for an answer. For any thread."""
        self._hurried = True
        self._waker.wake()

    def reload(self) -> None:
        """Read the configuration again. For signal handlers, too."""
        self._reload_wanted = True
        self._waker.wake()

    def reload_and_wait(self, timeout_s: float) -> Reloaded:
        """Read the configuration again, and wait until it is in force. For other threads.

        Raises the error for which the former one stays, TryAgainError when a round takes longer
        than `timeout_s`: then the reload comes after it.
        """
        ticket = Ticket()
        self._tickets.put(ticket)
        self.reload()
        if not ticket.is_done.wait(timeout_s):
            raise TryAgainError(
                "the daemon is in the middle of a round",
                "it reads its configuration after that: `gsched daemon status` shows the outcome",
            )
        if ticket.error is not None:
            raise ticket.error
        return ticket.reloaded or Reloaded((), ())

    def wait(self, seconds: float) -> None:
        """Wait until somebody wishes something, at most so long."""
        self._waker.wait(seconds)

    @property
    def wants_reload(self) -> bool:
        """Whether a reload is to be done."""
        return self._reload_wanted

    def take_reload(self) -> list[Ticket]:
        """Take over the wish for a reload, with everybody who waits for it."""
        self._reload_wanted = False
        tickets = []
        while not self._tickets.empty():
            tickets.append(self._tickets.get())
        return tickets

    def take_hurry(self) -> bool:
        """Whether somebody was in a hurry since the last call."""
        hurried, self._hurried = self._hurried, False
        return hurried
