"""A local socket that is asked one JSON line and answers one; the kernel says who asks.

A question is an object of the caller's own making. The answer is ``{"answer": {…}}``, or
``{"error": message, "hint": …, "exit_code": …}``, which ``unix_client`` raises again.
"""

from __future__ import annotations

import errno
import json
import pwd
import socket
import stat
import struct
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gsched.daemon.bounded_server import (
    ANSWER_TIMEOUT_S,
    QUESTION_TIMEOUT_S,
    BoundedListener,
    HasAsked,
    Refusals,
    goes_first,
)
from gsched.daemon.lines import read_line, send_line
from gsched.daemon.query_rates import AskerRates
from gsched.errors import (
    DataError,
    GschedError,
    PermissionDeniedError,
    TryAgainError,
    UnavailableError,
)

MAX_QUESTION_BYTES = 16 * 1024
_CREDENTIALS = struct.Struct("iII")  # struct ucred, see unix(7)


@dataclass(frozen=True, slots=True)
class Asker:
    """Who has connected, as the kernel says (SO_PEERCRED)."""

    uid: int
    gid: int
    pid: int

    @property
    def name(self) -> str:
        """The user's name on this host, '' for none."""
        try:
            return pwd.getpwuid(self.uid).pw_name
        except KeyError:
            return ""

    @property
    def text(self) -> str:
        """User and process, for the log."""
        return f"user {self.name or self.uid} (process {self.pid})"


Answer = Callable[[dict[str, Any], Asker], Mapping[str, Any]]
"""Answers a question, in a thread beside others. A GschedError that it raises is the answer."""


class UnixServer:
    """Answers questions by `answer`.

    Of whom `admits` says no nothing is read, so that they take up no time; None admits everybody.
    """

    def __init__(self, answer: Answer, admits: Callable[[Asker], bool] | None = None) -> None:
        self.refusals = Refusals()
        self._answer = answer
        self._admits = admits
        self._rates = AskerRates()

    @contextmanager
    def listening(self, path: Path, mode: int = 0o666) -> Iterator[None]:
        """Serve at `path` for the block; whoever `mode` lets write to the socket may connect.

        A socket that nobody serves any more is replaced. Raises UnavailableError when somebody
        serves it, PermissionDeniedError or UnavailableError when it cannot be made.
        """
        _clear_way(path)
        with _Listener(self, path, mode) as listener:
            try:
                with listener.serving():
                    yield
            finally:
                listener.remove_socket()

    def serve(self, connection: socket.socket, has_asked: HasAsked) -> None:
        """Answer one question, see ``bounded_server.Answering``."""
        answer: dict[str, Any]
        asker = _asker(connection)
        try:
            if self._admits is not None and not self._admits(asker):
                raise PermissionDeniedError(f"user {asker.name or asker.uid} may not ask here")
            line = read_line(connection, MAX_QUESTION_BYTES, QUESTION_TIMEOUT_S)
            has_asked(asker.uid)
            answer = {"answer": dict(self._answered(line, asker))}
        except GschedError as error:
            self.refusals.count(f"{asker.text}: {error.message}")
            answer = {"error": error.message, "hint": error.hint, "exit_code": error.exit_code}
        with suppress(UnavailableError):  # whoever has gone needs no answer
            send_line(connection, json.dumps(answer, allow_nan=False), ANSWER_TIMEOUT_S)

    def _answered(self, line: str, asker: Asker) -> Mapping[str, Any]:
        if not self._rates.allows(asker.uid):
            raise TryAgainError(f"busy: user {asker.name or asker.uid} asks too often")
        try:
            question = json.loads(line)
        except (ValueError, RecursionError):
            raise DataError("the question is not JSON") from None
        if not isinstance(question, dict):
            raise DataError("the question is no JSON object")
        return self._answer(question, asker)


class _Listener(BoundedListener):
    """A socket in the file system."""

    address_family = socket.AF_UNIX

    def __init__(self, server: UnixServer, path: Path, mode: int) -> None:
        self._path, self._mode = path, mode
        self._inode = 0
        try:
            super().__init__(server, str(path))
        except PermissionError as error:
            raise PermissionDeniedError(f"cannot listen at {path}: {error.strerror}") from None
        except OSError as error:
            hint = "a socket's path may have 107 bytes" if "too long" in str(error) else ""
            raise UnavailableError(
                f"cannot listen at {path}: {error.strerror or error}", hint
            ) from None

    def server_bind(self) -> None:
        """Bind, and set the mode before anybody can connect."""
        self.socket.bind(self.server_address)
        self._path.chmod(self._mode)
        self._inode = self._path.lstat().st_ino

    def is_first(self, connection: socket.socket) -> bool:
        """The kernel says who has connected."""
        return goes_first(_asker(connection).uid)

    def remove_socket(self) -> None:
        """Take the file away, unless it is another server's by now."""
        with suppress(OSError):
            if self._path.lstat().st_ino == self._inode:
                self._path.unlink()


def _asker(connection: socket.socket) -> Asker:
    found = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    pid, uid, gid = _CREDENTIALS.unpack(found)
    return Asker(uid, gid, pid)


def _clear_way(path: Path) -> None:
    """Remove a socket whose server has died. Raises as `UnixServer.listening` does."""
    try:
        if not stat.S_ISSOCK(path.lstat().st_mode):
            raise UnavailableError(f"cannot listen at {path}: something else is there")
        with socket.socket(socket.AF_UNIX) as probe:
            probe.settimeout(QUESTION_TIMEOUT_S)
            found = probe.connect_ex(str(path))
        if found != errno.ECONNREFUSED:
            raise UnavailableError(f"cannot listen at {path}: somebody listens there already")
        path.unlink()
    except FileNotFoundError:
        return
    except PermissionError as error:
        raise PermissionDeniedError(f"cannot listen at {path}: {error.strerror}") from None
    except OSError as error:
        raise UnavailableError(f"cannot listen at {path}: {error.strerror or error}") from None
