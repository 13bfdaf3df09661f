"""The query socket: users ask the daemon about their jobs, and munge proves who asks.

Threads beside the rounds, which only read the last round's bulletin. Whoever connects is hostile
until munge has named them: a question is short, must come within seconds, and few connections are
served at a time, so that nobody can hold up a round.
"""

from __future__ import annotations

import logging
import pwd
import socket
import socketserver
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from gsched.config.address import parse_address
from gsched.daemon.query_protocol import (
    MAX_QUESTION_BYTES,
    Question,
    answer_payload,
    read_line,
    read_question,
    send_line,
)
from gsched.daemon.status_file import Bulletin, find_job
from gsched.errors import ConfigError, GschedError, UnavailableError
from gsched.slurm.client import MAY_ACT, SlurmClient
from gsched.slurm.munge import Munge

log = logging.getLogger("gsched.daemon")

MAX_CONNECTIONS = 16
"""Served at a time; more are hung up on."""
QUESTION_TIMEOUT_S = 5.0

_PRIVILEGE_LIFE_S = 300.0
_LOG_INTERVAL_S = 60.0
_POLL_S = 0.2


class QueryServer:
    """Answers questions from the bulletin that `bulletin` gives."""

    def __init__(
        self,
        munge: Munge,
        client: SlurmClient,
        bulletin: Callable[[], Bulletin | None],
        hurry: Callable[[], None],
    ) -> None:
        """`hurry` is called when somebody asks about a job that no round has seen yet."""
        self._munge = munge
        self._client = client
        self._bulletin = bulletin
        self._hurry = hurry
        self._privileged: dict[str, tuple[float, bool]] = {}
        self._refused = 0
        self._logged_at = -_LOG_INTERVAL_S

    @contextmanager
    def listening(self, address: str) -> Iterator[str]:
        """Serve at `address` for the block; gives the address with the port in use.

        Raises ConfigError when nobody can listen there, UnavailableError without a munge.
        """
        self._munge.encode("")  # a daemon that cannot answer shall say so at its start
        with _Listener(self, address) as listener:
            thread = threading.Thread(target=listener.serve_forever, args=(_POLL_S,), daemon=True)
            thread.start()
            try:
                yield listener.address_text
            finally:
                listener.shutdown()
                thread.join()

    def serve(self, connection: socket.socket) -> None:
        """Answer one question; whatever is wrong with it ends in no answer."""
        try:
            line = read_line(connection, MAX_QUESTION_BYTES, QUESTION_TIMEOUT_S)
            asker = self._munge.decode(line)
            question = read_question(asker.payload)
            payload = answer_payload(question, self._answer(question, asker.uid))
            answer = self._munge.encode(payload, only_for_uid=asker.uid)
            send_line(connection, answer, QUESTION_TIMEOUT_S)
        except GschedError as error:
            self.refuse(error.message)

    def refuse(self, reason: str) -> None:
        """Count a question that was not answered; log the newest once a minute."""
        self._refused += 1
        if time.monotonic() - self._logged_at >= _LOG_INTERVAL_S:
            self._logged_at = time.monotonic()
            log.warning("%d questions not answered, the last one: %s", self._refused, reason)

    def _answer(self, question: Question, uid: int) -> dict[str, Any]:
        bulletin = self._bulletin()
        if bulletin is None:
            self._hurry()
            raise UnavailableError("no round has ended yet")
        user = _user_name(uid)
        jobs: dict[str, Any] = {}
        if question.jobs:
            visible = bulletin.visible_to(user, bulletin.private and self._sees_all(user))
            found = {name: find_job(visible, name) for name in question.jobs}
            jobs = {name: job for name, job in found.items() if job is not None}
            if any(find_job(bulletin.jobs, name) is None for name in question.jobs):
                self._hurry()
        return {**bulletin.head, "jobs": jobs}

    def _sees_all(self, user: str) -> bool:
        """Whether Slurm shows hidden jobs to `user`; looked up again after some minutes."""
        if not user:
            return False
        known = self._privileged.get(user)
        if known is None or time.monotonic() - known[0] > _PRIVILEGE_LIFE_S:
            known = (time.monotonic(), self._client.privilege(user) in MAY_ACT)
            self._privileged[user] = known
        return known[1]


class _Listener(socketserver.ThreadingTCPServer):
    """A thread a connection, at most MAX_CONNECTIONS of them."""

    allow_reuse_address = True
    daemon_threads = True
    block_on_close = False
    request_queue_size = 64

    def __init__(self, server: QueryServer, address: str) -> None:
        self._server = server
        self._free = threading.BoundedSemaphore(MAX_CONNECTIONS)
        parsed = parse_address(address)
        try:
            found = socket.getaddrinfo(*parsed, type=socket.SOCK_STREAM)[0]
            self.address_family = found[0]
            super().__init__((str(found[4][0]), parsed[1]), _Connection)
        except OSError as error:
            raise ConfigError(
                f"cannot listen at {address}: {error.strerror or error}",
                "correct daemon.query_listen; empty = no query socket",
            ) from None

    @property
    def address_text(self) -> str:
        """Where it listens, as host:port."""
        host, port = str(self.server_address[0]), self.server_address[1]
        return f"[{host}]:{port}" if self.address_family is socket.AF_INET6 else f"{host}:{port}"

    def verify_request(self, request: Any, client_address: Any) -> bool:
        """Take a place; without a free one the connection is closed."""
        if self._free.acquire(blocking=False):
            return True
        self._server.refuse("too many at a time")
        return False

    def process_request(self, request: Any, client_address: Any) -> None:
        """Begin a thread; when this machine has none to give, the place is free again."""
        try:
            super().process_request(request, client_address)
        except RuntimeError:
            self._free.release()
            raise

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A connection that could not be served; the traceback that is usual here helps nobody."""
        self._server.refuse("no thread to serve it")

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Serve in a thread of its own, and give the place back."""
        try:
            self._server.serve(request)
        finally:
            self.shutdown_request(request)
            self._free.release()


class _Connection(socketserver.BaseRequestHandler):
    """Not used: `_Listener` serves connections itself."""


def _user_name(uid: int) -> str:
    """The user's name on this host, '' for none: nobody's jobs are theirs."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return ""
