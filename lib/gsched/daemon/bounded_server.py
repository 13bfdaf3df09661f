"""What the daemon's sockets have in common: few places, silent askers make room, refusals counted.

Whoever connects is hostile until proved otherwise. A connection has a thread of its own; few are
served at a time, so that nobody can hold up a round. Who has not asked yet makes room for who comes
later, so that no flood of silent ones shuts the others out. No user has more than a few questions
under way, and root and the daemon's own user always find a place where the kernel says who comes.
"""

from __future__ import annotations

import logging
import os
import socket
import socketserver
import sys
import threading
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from gsched.errors import TryAgainError, UnavailableError

log = logging.getLogger("gsched.daemon")

MAX_CONNECTIONS = 16
"""Served at a time."""
MAX_PER_USER = 4
"""Questions of one user under way at a time; root and the daemon's own user may have more."""
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


def goes_first(uid: int) -> bool:
    """Whether it is root, or the user that this process runs as."""
    return uid in (0, os.geteuid())


@dataclass(slots=True)
class _Taken:
    """A place; `is_first`: whoever has it makes no room for ordinary users."""

    is_first: bool
    has_asked: bool = False

    def makes_room(self, for_first: bool) -> bool:
        """Whether who has it may lose it to who comes."""
        if self.has_asked:
            return for_first and not self.is_first
        return for_first or not self.is_first


class Places:
    """Who is being served.

    Who has not asked yet makes room for who comes, the oldest first; for who goes first also those
    make room who wait for their answer.
    """

    def __init__(self, number: int) -> None:
        self._number = number
        self._lock = threading.Lock()
        self._taken: dict[socket.socket, _Taken] = {}  # in the order of coming
        self._askers: dict[socket.socket, int] = {}  # whose threads have not ended

    def take(self, connection: socket.socket, is_first: bool = False) -> bool:
        """Take a place; False when there is none."""
        with self._lock:
            if len(self._taken) >= self._number:
                loser = self._loser(is_first)
                if loser is None:
                    return False
                del self._taken[loser]
                with suppress(OSError):  # gone by itself
                    loser.shutdown(socket.SHUT_RDWR)
            self._taken[connection] = _Taken(is_first)
            return True

    def _loser(self, for_first: bool) -> socket.socket | None:
        """Who makes room: silent ordinary users, silent others, ordinary users who have asked."""
        allowed = [
            (taken.has_asked, taken.is_first, connection)
            for connection, taken in self._taken.items()
            if taken.makes_room(for_first)
        ]
        return min(allowed, key=lambda found: found[:2])[2] if allowed else None

    def has_asked(self, connection: socket.socket, uid: int | None) -> None:
        """Keep the place until the answer, as `uid` where that is known by now.

        Raises UnavailableError when it is lost already, TryAgainError when `uid` has too many
        questions under way; those whose place is lost count until their threads have ended.
        """
        with self._lock:
            taken = self._taken.get(connection)
            if taken is None:
                raise UnavailableError("too many at a time")
            taken.has_asked = True
            if uid is None or goes_first(uid):
                return
            if list(self._askers.values()).count(uid) >= MAX_PER_USER:
                raise TryAgainError(
                    f"busy: {MAX_PER_USER} questions of user {uid} are under way already"
                )
            self._askers[connection] = uid

    def give_back(self, connection: socket.socket) -> None:
        """The place is free again."""
        with self._lock:
            self._taken.pop(connection, None)
            self._askers.pop(connection, None)


class HasAsked(Protocol):
    """Told by who serves that the question is there."""

    def __call__(self, uid: int | None = None) -> None:
        """See ``Places.has_asked``; once more as soon as it is known who asks."""
        ...


class Answering(Protocol):
    """Who answers what comes in at a `BoundedListener`."""

    refusals: Refusals

    def serve(self, connection: socket.socket, has_asked: HasAsked) -> None:
        """Answer one question; whatever is wrong with it ends in no answer."""
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
        if self._places.take(request, self.is_first(request)):
            return True
        self._answering.refusals.count("too many at a time")
        return False

    def is_first(self, connection: socket.socket) -> bool:
        """Whether others make room for who has connected: not where nobody knows who that is."""
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
        """A connection that could not be served; the traceback that is usual here would let anybody
        fill the log. Who serves catches what is to be expected: this is a fault of gsched's, or
        there is no thread to be had.
        """
        error = sys.exception()
        frame = traceback.extract_tb(error.__traceback__)[-1] if error else None
        where = f" ({Path(frame.filename).name}:{frame.lineno})" if frame else ""
        self._answering.refusals.count(f"{type(error).__name__}{where}")

    def finish_request(self, request: Any, client_address: Any) -> None:
        """Serve, in a thread of its own, and give the place back."""

        def has_asked(uid: int | None = None) -> None:
            self._places.has_asked(request, uid)

        try:
            self._answering.serve(request, has_asked)
        finally:
            self._places.give_back(request)


class _Connection(socketserver.BaseRequestHandler):
    """Not used: `BoundedListener` serves connections itself."""
