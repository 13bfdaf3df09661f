"""What the daemon's sockets have in common: few places, silent askers make room, refusals counted.

Whoever connects is hostile until proved otherwise. A connection has a thread of its own; few are
served at a time, so that nobody can hold up a round. Who has not asked yet makes room for who comes
later, so that no flood of silent ones shuts the others out.
"""

from __future__ import annotations

import logging
import socket
import socketserver
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, Protocol

log = logging.getLogger("gsched.daemon")

MAX_CONNECTIONS = 16
"""Served at a time."""
QUESTION_TIMEOUT_S = 2.0
"""So soon a question must be there, whole."""
ANSWER_TIMEOUT_S = 5.0
"""So soon an answer must be taken."""

_LOG_INTERVAL_S = 60.0
_POLL_S = 0.2


class Refusals:
    """Questions that were not answered: counted, and told to the log once a minute at most."""

    def __init__(self, what: str = "question") -> None:
        """`what` is refused, in the log's words; `total` counts it since the beginning."""
        self.total = 0
        self._what = what
        self._lock = threading.Lock()
        self._number = 0
        self._last = ""
        self._told_at = -_LOG_INTERVAL_S

    def count(self, reason: str) -> None:
        """One more; the log has the newest once a minute."""
        with self._lock:
            self.total += 1
            self._number += 1
            self._last = reason
        self.report()

    def report(self, at_once: bool = False) -> None:
        """Log what has been counted, when the last line about that is a minute old."""
        with self._lock:
            is_due = at_once or time.monotonic() - self._told_at >= _LOG_INTERVAL_S
            if not self._number or not is_due:
                return
            number, self._number = self._number, 0
            self._told_at = time.monotonic()
            last = self._last
        if number == 1:
            log.warning("1 %s not answered: %s", self._what, last)
        else:
            log.warning("%d %ss not answered, the last one: %s", number, self._what, last)


class Places:
    """Who is being served. The oldest who has not asked yet makes room for who comes."""

    def __init__(self, number: int) -> None:
        self._number = number
        self._lock = threading.Lock()
        self._has_asked: dict[socket.socket, bool] = {}  # in the order of coming

    def take(self, connection: socket.socket) -> bool:
        """Take a place; False when all are taken by askers who wait for their answer."""
        with self._lock:
            if len(self._has_asked) >= self._number:
                silent = next((c for c, asked in self._has_asked.items() if not asked), None)
                if silent is None:
                    return False
                del self._has_asked[silent]
                with suppress(OSError):  # gone by itself
                    silent.shutdown(socket.SHUT_RDWR)
            self._has_asked[connection] = False
            return True

    def has_asked(self, connection: socket.socket) -> bool:
        """Keep the place until the answer; False when it is lost already."""
        with self._lock:
            if connection not in self._has_asked:
                return False
            self._has_asked[connection] = True
            return True

    def give_back(self, connection: socket.socket) -> None:
        """The place is free again."""
        with self._lock:
            self._has_asked.pop(connection, None)


class Answering(Protocol):
    """Who answers what comes in at a `BoundedListener`."""

    refusals: Refusals

    def serve(self, connection: socket.socket, has_asked: Callable[[], bool]) -> None:
        """Answer one question; whatever is wrong with it ends in no answer.

        `has_asked` is told that the question is there; False: the asker has lost their place.
        """
        ...


class BoundedListener(socketserver.ThreadingTCPServer):
    """A thread a connection, MAX_CONNECTIONS places; a child says of which address family."""

    daemon_threads = True
    block_on_close = False
    request_queue_size = 64

    def __init__(self, answering: Answering, address: Any) -> None:
        """Listens at `address` from now on. Raises OSError where that cannot be."""
        self._answering = answering
        self._places = Places(MAX_CONNECTIONS)
        super().__init__(address, _Connection)

    @contextmanager
    def serving(self) -> Iterator[None]:
        """Serve, beside whatever else this process does, during the block."""
        thread = threading.Thread(target=self.serve_forever, args=(_POLL_S,), daemon=True)
        thread.start()
        try:
            yield
        finally:
            self.shutdown()
            thread.join()
            self._answering.refusals.report(at_once=True)

    def verify_request(self, request: Any, client_address: Any) -> bool:
        """Take a place; without a free one the connection is closed."""
        if self._places.take(request):
            return True
        self._answering.refusals.count("too many at a time")
        return False

    def process_request(self, request: Any, client_address: Any) -> None:
        """Begin a thread; when this machine has none to give, the place is free again."""
        try:
            super().process_request(request, client_address)
        except RuntimeError:
            self._places.give_back(request)
            raise

    def service_actions(self) -> None:
        """Every _POLL_S: what was counted since the last line in the log is not forgotten."""
        self._answering.refusals.report()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A connection that could not be served; the traceback that is usual here helps nobody."""
        self._answering.refusals.count("no thread to serve it")

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Serve in a thread of its own, and give the place back."""
        try:
            self._answering.serve(request, lambda: self._places.has_asked(request))
        finally:
            self._places.give_back(request)
            self.shutdown_request(request)


class _Connection(socketserver.BaseRequestHandler):
    """Not used: `BoundedListener` serves connections itself."""
