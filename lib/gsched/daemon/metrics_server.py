"""``GET /metrics`` over HTTP, for clients of whom nobody knows who they are.

A connection asks one question, of bounded length and within seconds, or loses its place (see
``bounded_server``). Any other question is an error of HTTP; nothing that is asked changes anything.
"""

from __future__ import annotations

import io
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from typing import Any
from urllib.parse import urlsplit

from prometheus_client import MetricsHandler
from prometheus_client.registry import Collector

from gsched.daemon.bounded_server import (
    ANSWER_TIMEOUT_S,
    QUESTION_TIMEOUT_S,
    HasAsked,
    Refusals,
)
from gsched.daemon.network_listener import NetworkListener
from gsched.errors import GschedError

MAX_REQUEST_BYTES = 8192
"""Prometheus asks in some 300."""

PATH = "/metrics"


class MetricsServer:
    """Answers from a registry."""

    def __init__(self, registry: Collector) -> None:
        self.refusals = Refusals("metrics request")
        self._registry = registry

    @contextmanager
    def listening(self, address: str) -> Iterator[str]:
        """Serve at `address` for the block; gives the address with the port in use.

        Raises UnavailableError when nobody can listen there.
        """
        with (
            NetworkListener(self, address, "daemon.metrics_listen") as listener,
            listener.serving(),
        ):
            yield listener.address_text

    def serve(self, connection: socket.socket, has_asked: HasAsked) -> None:
        """Answer one request, see ``bounded_server.Answering``."""
        try:
            _Request(connection, self._registry, has_asked, self.refusals)
        except (OSError, GschedError, ValueError) as error:  # ValueError: a path that is no URL
            self.refusals.count(str(error) or type(error).__name__)


class _Request(MetricsHandler):
    """One request; HTTP/1.0, so that the connection ends after it."""

    def __init__(
        self,
        connection: socket.socket,
        registry: Collector,
        has_asked: HasAsked,
        refusals: Refusals,
    ) -> None:
        self.registry = registry
        self._refusals = refusals
        self._has_asked = has_asked
        nobody: Any = None  # the server, which the handler does not use
        super().__init__(connection, ("", 0), nobody)

    def setup(self) -> None:
        """The socket as streams; what is read is bounded."""
        super().setup()
        self.rfile = io.BufferedReader(_BoundedReader(self.connection))

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Refuse, in the words of HTTP."""
        self._refusals.count(f"HTTP status {int(code)}")
        super().send_error(code, message, explain)

    def do_GET(self) -> None:  # noqa: N802 - the name that the base class calls
        """Answer with all metrics."""
        self._has_asked()
        self.connection.settimeout(ANSWER_TIMEOUT_S)
        if urlsplit(self.path).path == PATH:
            super().do_GET()
        else:
            self.send_error(HTTPStatus.NOT_FOUND, "Only /metrics is here")


class _BoundedReader(io.RawIOBase):
    """What one request may be: so many bytes, so many seconds in all, however slowly they drip."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._left = MAX_REQUEST_BYTES
        self._until = time.monotonic() + QUESTION_TIMEOUT_S

    def readable(self) -> bool:
        """Yes."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Some bytes. Raises OSError when the bounds are reached."""
        if self._left <= 0:
            raise ConnectionAbortedError("the request is too long")
        left_s = self._until - time.monotonic()
        try:
            if left_s <= 0:
                raise TimeoutError
            self._connection.settimeout(left_s)
            number = self._connection.recv_into(memoryview(buffer)[: self._left])
        except TimeoutError:  # which the base class would pass over in silence
            raise ConnectionAbortedError("the request did not come in time") from None
        self._left -= number
        return number
