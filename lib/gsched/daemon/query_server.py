"""The query socket: users ask the daemon about their jobs, and munge proves who asks.

Threads beside the rounds, which only read the last round's bulletin. Whoever connects is hostile
until munge has named them: a question is short, must come within seconds, and few connections are
served at a time, so that nobody can hold up a round. Who has not asked yet makes room for who comes
later, so that no flood of silent ones shuts the others out; who asks too often is told to wait.
"""

from __future__ import annotations

import logging
import pwd
import socket
import socketserver
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from gsched.config.address import parse_address
from gsched.daemon.query_protocol import (
    MAX_OWN_JOBS,
    MAX_QUESTION_BYTES,
    Question,
    answer_payload,
    busy_payload,
    read_line,
    read_question,
    send_line,
)
from gsched.daemon.query_rates import AskerRates
from gsched.daemon.status_file import Bulletin
from gsched.errors import GschedError, UnavailableError
from gsched.slurm.client import MAY_ACT, SlurmClient
from gsched.slurm.munge import Munge

log = logging.getLogger("gsched.daemon")

MAX_CONNECTIONS = 16
"""Served at a time."""
QUESTION_TIMEOUT_S = 2.0
"""So soon a question must be there, whole."""

_ANSWER_TIMEOUT_S = 5.0
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
        self._rates = AskerRates()
        self._privileged: dict[str, tuple[float, bool]] = {}
        self._refusals = _Refusals()

    @contextmanager
    def listening(self, address: str) -> Iterator[str]:
        """Serve at `address` for the block; gives the address with the port in use.

        Raises UnavailableError when nobody can listen there, and without a munge.
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
                self._refusals.report(at_once=True)

    def serve(self, connection: socket.socket, has_asked: Callable[[], bool]) -> None:
        """Answer one question; whatever is wrong with it ends in no answer.

        `has_asked` is told that the question is there; False: the asker has lost their place.
        """
        try:
            line = read_line(connection, MAX_QUESTION_BYTES, QUESTION_TIMEOUT_S)
            if not has_asked():
                raise UnavailableError("too many at a time")
            asker = self._munge.decode(line)
            question = read_question(asker.payload)
            if self._rates.allows(asker.uid):
                payload = answer_payload(question, self._answer(question, asker.uid))
            else:
                self.refuse(f"user {asker.uid} asks too often")
                payload = busy_payload(question)
            answer = self._munge.encode(payload, only_for_uid=asker.uid)
            send_line(connection, answer, _ANSWER_TIMEOUT_S)
        except GschedError as error:
            self.refuse(error.message)

    def refuse(self, reason: str) -> None:
        """Count a question that was not answered; the log has the newest once a minute."""
        self._refusals.count(reason)
        self.report()

    def report(self) -> None:
        """Log what has been counted, when the last line about that is a minute old."""
        self._refusals.report()

    def _answer(self, question: Question, uid: int) -> dict[str, Any]:
        bulletin = self._bulletin()
        if bulletin is None:
            self._hurry()
            raise UnavailableError("no round has ended yet")
        user = _user_name(uid)
        found = {asked: bulletin.index.find(asked) for asked in question.jobs}
        if None in found.values():
            self._hurry()
        jobs: dict[str, Any] = {}
        for asked, name in found.items():
            if name and not (bulletin.is_hidden(name, user) and not self._sees_all(user)):
                jobs[asked] = bulletin.jobs[name]
        if question.own and user:
            own = bulletin.by_owner.get(user, ())[:MAX_OWN_JOBS]
            jobs |= {name: bulletin.jobs[name] for name in own}
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


class _Refusals:
    """Questions that were not answered: counted, and told to the log once a minute at most."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._number = 0
        self._last = ""
        self._told_at = -_LOG_INTERVAL_S

    def count(self, reason: str) -> None:
        with self._lock:
            self._number += 1
            self._last = reason

    def report(self, at_once: bool = False) -> None:
        with self._lock:
            is_due = at_once or time.monotonic() - self._told_at >= _LOG_INTERVAL_S
            if not self._number or not is_due:
                return
            number, self._number = self._number, 0
            self._told_at = time.monotonic()
            last = self._last
        if number == 1:
            log.warning("1 question not answered: %s", last)
        else:
            log.warning("%d questions not answered, the last one: %s", number, last)


class _Places:
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


class _Listener(socketserver.ThreadingTCPServer):
    """A thread a connection, MAX_CONNECTIONS places."""

    allow_reuse_address = True
    daemon_threads = True
    block_on_close = False
    request_queue_size = 64

    def __init__(self, server: QueryServer, address: str) -> None:
        self._server = server
        self._places = _Places(MAX_CONNECTIONS)
        parsed = parse_address(address)
        try:
            found = socket.getaddrinfo(*parsed, type=socket.SOCK_STREAM)[0]
            self.address_family = found[0]
            super().__init__((str(found[4][0]), parsed[1]), _Connection)
        except OSError as error:
            raise UnavailableError(
                f"cannot listen at {address}: {error.strerror or error}",
                "`ss -ltnp` shows who listens where; daemon.query_listen names the address",
            ) from None

    @property
    def address_text(self) -> str:
        """Where it listens, as host:port."""
        host, port = str(self.server_address[0]), self.server_address[1]
        return f"[{host}]:{port}" if self.address_family is socket.AF_INET6 else f"{host}:{port}"

    def verify_request(self, request: Any, client_address: Any) -> bool:
        """Take a place; without a free one the connection is closed."""
        if self._places.take(request):
            return True
        self._server.refuse("too many at a time")
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
        self._server.report()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A connection that could not be served; the traceback that is usual here helps nobody."""
        self._server.refuse("no thread to serve it")

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Serve in a thread of its own, and give the place back."""
        try:
            self._server.serve(request, lambda: self._places.has_asked(request))
        finally:
            self._places.give_back(request)
            self.shutdown_request(request)


class _Connection(socketserver.BaseRequestHandler):
    """Not used: `_Listener` serves connections itself."""


def _user_name(uid: int) -> str:
    """The user's name on this host, '' for none: nobody's jobs are theirs."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return ""
