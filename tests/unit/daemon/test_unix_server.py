"""The local sockets over real connections: who asks is what the kernel says."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import stat
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gsched.daemon.bounded_server import MAX_CONNECTIONS
from gsched.daemon.query_rates import BURST
from gsched.daemon.unix_client import ask
from gsched.daemon.unix_server import MAX_QUESTION_BYTES, Asker, UnixServer
from gsched.errors import (
    ConfigError,
    DataError,
    PermissionDeniedError,
    TryAgainError,
    UnavailableError,
    UsageError,
)

ME = Asker(os.geteuid(), os.getegid(), os.getpid())


def echo(question: dict[str, Any], asker: Asker) -> dict[str, Any]:
    if "fail" in question:
        raise ConfigError("as asked for", "ask for something else")
    return {"question": question, "uid": asker.uid, "pid": asker.pid}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "s.sock"


@pytest.fixture
def served(path: Path) -> Iterator[Path]:
    with UnixServer(echo).listening(path):
        yield path


def raw(path: Path, data: bytes) -> dict[str, Any]:
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(5)
        connection.connect(str(path))
        with contextlib.suppress(BrokenPipeError):  # it may have answered, and gone, unread
            connection.sendall(data)
        with connection.makefile("rb") as answers:
            found: dict[str, Any] = json.loads(answers.readline())
            return found


def test_a_question_is_answered_to_whom_the_kernel_names(served: Path) -> None:
    found = ask(served, {"verb": "status", "text": "zwölf\n"})
    assert found == {
        "question": {"verb": "status", "text": "zwölf\n"},
        "uid": ME.uid,
        "pid": ME.pid,
    }


def test_an_error_of_the_server_is_raised_by_the_client(served: Path) -> None:
    with pytest.raises(ConfigError, match="as asked for") as found:
        ask(served, {"fail": True})
    assert (found.value.hint, found.value.exit_code) == ("ask for something else", 78)


@pytest.mark.parametrize(
    ("line", "why"),
    [
        (b"{not json}\n", "is not JSON"),
        (b"[" * 8000 + b"\n", "is not JSON"),
        (b"[1]\n", "is no JSON object"),
        ('{"a": "ü"}\n'.encode(), "no ASCII"),
        (b"{" + b" " * MAX_QUESTION_BYTES, "more than 16384 bytes"),
    ],
)
def test_what_is_no_question_is_refused(served: Path, line: bytes, why: str) -> None:
    answer = raw(served, line)
    assert (why in answer["error"], answer["exit_code"]) == (True, DataError.exit_code)
    assert ask(served, {})["uid"] == ME.uid


def test_who_is_not_admitted_is_refused_unread(path: Path) -> None:
    asked: list[Asker] = []

    def nobody(asker: Asker) -> bool:
        asked.append(asker)
        return False

    with UnixServer(echo, nobody).listening(path):
        with pytest.raises(PermissionDeniedError, match="may not ask here"):
            ask(path, {"verb": "x"})
        assert raw(path, b"")["exit_code"] == 77  # not even waited for
    assert asked == [ME, ME]


def test_the_log_has_who_was_refused(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with UnixServer(echo, lambda _asker: False).listening(path):
        raw(path, b"")
    assert f"user root (process {ME.pid}): user root may not ask here" in caplog.text
    caplog.clear()
    with UnixServer(echo).listening(path):
        raw(path, b"{" + b" " * MAX_QUESTION_BYTES)
    assert f"user root (process {ME.pid}): a line of more than 16384 bytes" in caplog.text


def test_silent_askers_make_room(served: Path) -> None:
    silent = [socket.socket(socket.AF_UNIX) for _ in range(2 * MAX_CONNECTIONS)]
    try:
        for connection in silent:
            connection.connect(str(served))
        assert ask(served, {}, timeout_s=5)["uid"] == ME.uid
    finally:
        for connection in silent:
            connection.close()


def test_who_asks_too_often_is_told_to_wait(served: Path) -> None:
    def ask_and_ask() -> None:
        for _ in range(20 * BURST):
            ask(served, {})

    with pytest.raises(TryAgainError, match="asks too often"):
        ask_and_ask()


def test_the_mode_is_the_one_asked_for_and_the_socket_goes(path: Path) -> None:
    with UnixServer(echo).listening(path, mode=0o600):
        found = path.lstat().st_mode
        assert (stat.S_ISSOCK(found), stat.S_IMODE(found)) == (True, 0o600)
    assert not path.exists()
    with pytest.raises(UnavailableError, match="nobody listens"):
        ask(path, {})


def test_a_dead_socket_is_replaced_and_a_live_one_or_a_file_is_not(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(path))
        dead.listen()
    with UnixServer(echo).listening(path):
        assert ask(path, {})["uid"] == ME.uid
        with (
            pytest.raises(UnavailableError, match="somebody listens there already"),
            UnixServer(echo).listening(path),
        ):
            pass
        assert ask(path, {})["uid"] == ME.uid
    path.write_text("precious")
    with (
        pytest.raises(UnavailableError, match="something else is there"),
        UnixServer(echo).listening(path),
    ):
        pass
    assert path.read_text() == "precious"


def test_a_place_that_cannot_be_listened_at_is_named(tmp_path: Path) -> None:
    for path in (tmp_path / "none" / "s.sock", tmp_path / ("x" * 120)):
        with (
            pytest.raises(UnavailableError, match="cannot listen at"),
            UnixServer(echo).listening(path),
        ):
            pass


def test_a_server_that_says_nothing_or_nonsense_is_an_error(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))
        server.listen()
        with pytest.raises(TryAgainError, match="no answer in time"):
            ask(path, {}, timeout_s=0.1)
        for said, kind in (
            (b"{}\n", DataError),
            (b"[]\n", DataError),
            (b"", UnavailableError),
            (b'{"error": "x", "exit_code": 2}\n', UsageError),
            (b'{"error": "x", "exit_code": "?"}\n', TryAgainError),
        ):
            thread = threading.Thread(target=_answer_last, args=(server, said))
            thread.start()
            with pytest.raises(kind):
                ask(path, {"n": said.decode()})
            thread.join()


def _answer_last(server: socket.socket, said: bytes) -> None:
    """Answer the first asker who is still there; an earlier one may have given up."""
    while True:
        connection, _ = server.accept()
        with connection, connection.makefile("rb") as questions:
            if questions.readline() != b"{}\n":
                connection.sendall(said)
                return
