"""The daemon's local socket: who may what, hostile askers, the socket's file."""

from __future__ import annotations

import json
import os
import pwd
import socket
import stat
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from gsched.daemon import asker_rights, bounded_server, control_client
from gsched.daemon.asker_rights import AskerRights
from gsched.daemon.bounded_server import MAX_CONNECTIONS, MAX_PER_USER
from gsched.daemon.control_server import ControlServer
from gsched.daemon.gate import Mode
from gsched.daemon.situation import Board
from gsched.daemon.unix_client import ask
from gsched.daemon.unix_server import MAX_QUESTION_BYTES, Asker
from gsched.daemon.wishes import Reloaded, Wishes
from gsched.errors import (
    ConfigError,
    DataError,
    GschedError,
    PermissionDeniedError,
    TryAgainError,
    UnavailableError,
    UsageError,
)
from gsched.slurm.privileges import Privilege
from gsched.testbed.wait import wait_for

ROOT = Asker(0, 0, 1)
OWN = Asker(os.geteuid(), os.getegid(), 1)
GAMES = Asker(pwd.getpwnam("games").pw_uid, 60, 1)
NEWS = Asker(pwd.getpwnam("news").pw_uid, 9, 1)


class Office:
    """A control server whose Slurm has one operator, news."""

    def __init__(self) -> None:
        self.board = Board(1_795_000_000, Mode.ACT)
        self.board.post_failure(1_795_000_001, "job 7 of somebody", 1)
        self.board.post(config_problem="/etc/gsched/gsched.toml: is not valid TOML")
        self.wishes = Wishes()
        self.operators_asked: list[str] = []
        self.goes_on = threading.Event()  # unset while slurmdbd hangs
        self.goes_on.set()
        self.audits: list[tuple[str | None, int]] = []
        self.server = ControlServer(
            self.board,
            self.wishes,
            lambda: b"gsched_mode 1\n",
            self.audit,
            AskerRights(self.privilege),
        )

    def audit(self, job: str | None, limit: int) -> list[dict[str, Any]]:
        self.audits.append((job, limit))
        return [{"job": "7", "reason_text": "x\x1b[31m"}]

    def privilege(self, user: str) -> Privilege:
        self.operators_asked.append(user)
        if not self.goes_on.is_set():
            self.goes_on.wait(60)
            raise TryAgainError("sacctmgr gave no answer")
        return "operator" if user == "news" else "user"

    def serve_reload(self, error: GschedError | None) -> None:
        """What the daemon's main thread does."""
        self.wishes.wait(30)
        for ticket in self.wishes.take_reload():
            ticket.error = error
            ticket.reloaded = None if error else Reloaded(("daemon.policy",), ())
            ticket.is_done.set()


@pytest.fixture
def office() -> Iterator[Office]:
    made = Office()
    yield made
    made.wishes.close()


# -- who may what --------------------------------------------------------------------------------


def test_what_errors_say_is_for_the_daemons_own_eyes(office: Office) -> None:
    for asker in (ROOT, OWN):
        told = office.server.answer({"verb": "status"}, asker)
        assert told["problem"] == "job 7 of somebody"
        assert told["last_errors"] == [{"at": 1_795_000_001, "message": "job 7 of somebody"}]
    told = office.server.answer({"verb": "status"}, GAMES)
    assert (told["mode"], told["failures"], told["config_in_force"]) == ("act", 1, False)
    assert told["problem"] is told["last_errors"] is told["config_problem"] is None
    assert "job 7" not in str(told)


def test_why_a_daemon_waits_is_for_its_own_eyes_too(office: Office) -> None:
    office.board.post(
        mode=Mode.WAITING,
        why="cannot open /var/lib/gsched/history.db",
        listeners={"metrics": ("", "cannot listen at /run/x"), "control": ("/run/s", "")},
    )
    told = office.server.answer({"verb": "status"}, OWN)
    assert told["why"] == "cannot open /var/lib/gsched/history.db"
    assert told["listeners"]["metrics"]["problem"] == "cannot listen at /run/x"
    told = office.server.answer({"verb": "status"}, GAMES)
    assert told["why"] == "what rounds need does not answer"
    assert told["listeners"] == {
        "metrics": {"address": "", "problem": "it cannot be opened"},
        "control": {"address": "/run/s", "problem": ""},
    }
    office.board.post(mode=Mode.OFF, why="kill switch /etc/gsched/off: upgrade")
    assert office.server.answer({"verb": "status"}, GAMES)["why"].endswith("upgrade")


def test_a_user_may_not_reload(office: Office) -> None:
    for asker in (GAMES, NEWS):
        with pytest.raises(PermissionDeniedError, match="may not reload"):
            office.server.answer({"verb": "reload"}, asker)
    assert office.wishes.wants_reload is False


def test_the_audit_is_for_slurms_operators(office: Office) -> None:
    with pytest.raises(PermissionDeniedError, match="user games may not read the audit"):
        office.server.answer({"verb": "audit", "limit": 5}, GAMES)
    assert office.audits == []
    for _ in range(3):
        rows = office.server.answer({"verb": "audit", "job": "7", "limit": 5}, NEWS)["rows"]
    assert len(rows) == 1
    assert office.audits == [("7", 5)] * 3
    assert office.operators_asked == ["games", "news"]  # Slurm is not asked each time
    with pytest.raises(PermissionDeniedError):
        office.server.answer({"verb": "audit", "limit": 5}, Asker(4_000_000_000, 1, 1))


@pytest.mark.parametrize(
    ("question", "error"),
    [
        ({}, UsageError),
        ({"verb": "shutdown"}, UsageError),
        ({"verb": ["status"]}, UsageError),
        ({"verb": "audit"}, UsageError),
        ({"verb": "audit", "limit": 10**9}, UsageError),
        ({"verb": "audit", "limit": 0}, UsageError),
        ({"verb": "audit", "limit": "5"}, UsageError),
        ({"verb": "audit", "limit": 5, "job": {"$gt": ""}}, DataError),
    ],
)
def test_questions_that_make_no_sense(
    office: Office, question: dict[str, Any], error: type[GschedError]
) -> None:
    with pytest.raises(error):
        office.server.answer(question, ROOT)
    assert office.audits == []


# -- over the socket -----------------------------------------------------------------------------


def test_status_metrics_and_reload_over_the_socket(office: Office, tmp_path: Path) -> None:
    path = tmp_path / "run" / "daemon.sock"
    with office.server.listening(path) as address:
        assert address == str(path)
        assert stat.S_IMODE(path.stat().st_mode) == 0o666
        assert stat.S_IMODE(path.parent.stat().st_mode) == 0o755
        assert control_client.status(path)["pid"] == os.getpid()
        assert ask(path, {"verb": "metrics"}) == {"text": "gsched_mode 1\n"}
        assert control_client.audit(path, None, 3)[0]["job"] == "7"
        for error in (None, ConfigError("gsched.toml: unknown key daemon.polcy", "did you mean")):
            main = threading.Thread(target=office.serve_reload, args=(error,))
            main.start()
            if error is None:
                done = control_client.reload(path)
                assert done == {"changed": ["daemon.policy"], "needs_restart": []}
            else:
                with pytest.raises(ConfigError) as told:
                    control_client.reload(path)
                assert (told.value.message, told.value.hint) == (error.message, error.hint)
            main.join()
    assert not path.exists()
    with pytest.raises(UnavailableError, match="nobody listens at"):
        control_client.status(path)


def test_a_reload_that_takes_too_long_is_told_of(
    office: Office, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gsched.daemon.control_server.RELOAD_TIMEOUT_S", 0.05)
    path = tmp_path / "daemon.sock"
    with office.server.listening(path), pytest.raises(TryAgainError, match="middle of a round"):
        control_client.reload(path)


def test_silent_and_endless_askers_shut_nobody_out(
    office: Office, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bounded_server, "QUESTION_TIMEOUT_S", 0.5)
    path = tmp_path / "daemon.sock"
    with office.server.listening(path), ExitStack() as hostile:
        for _ in range(3 * MAX_CONNECTIONS):
            silent = hostile.enter_context(socket.socket(socket.AF_UNIX))
            silent.connect(str(path))
        assert control_client.status(path)["mode"] == "act"
        with socket.socket(socket.AF_UNIX) as endless:
            endless.connect(str(path))
            endless.settimeout(10)
            with pytest.raises(OSError, match=r"Broken pipe|reset"):
                endless.sendall(b"x" * (100 * MAX_QUESTION_BYTES))
        assert control_client.status(path)["mode"] == "act"
        wait_for(lambda: office.server.refusals.total > 0, "the refusals to be counted")


_ASKER = """
import contextlib, json, socket, sys
def asked(line):
    made = socket.socket(socket.AF_UNIX)
    made.connect(sys.argv[1])
    with contextlib.suppress(OSError):  # refused already
        made.sendall(line.encode() + b"\\n")
    return made
held = [asked(line) for line in sys.argv[2:]]
for connection in held:
    try:
        print(connection.makefile().readline().strip(), flush=True)
    except OSError:
        print(flush=True)
"""


@contextmanager
def asking(path: Path, uid: int, *questions: str) -> Iterator[subprocess.Popen[str]]:
    """A process of `uid` that sends each question over a connection of its own, then listens."""
    me = ("setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups", sys.executable, "-c")
    words = (*me, _ASKER, str(path), *questions)
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def test_who_waits_for_slurm_shuts_nobody_out(
    office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    """slurmdbd hangs, and a user asks for the audit on more connections than there are places."""
    monkeypatch.setattr(asker_rights, "QUESTION_LIMIT_S", 60.0)  # nobody gives up by themselves
    audit, status = '{"verb": "audit", "limit": 5}', '{"verb": "status"}'
    office.goes_on.clear()
    with ExitStack() as held:
        folder = Path(held.enter_context(tempfile.TemporaryDirectory()))
        folder.chmod(0o755)
        path = folder / "daemon.sock"
        held.enter_context(office.server.listening(path))
        number = MAX_CONNECTIONS + 2
        flood = held.enter_context(asking(path, NEWS.uid, *[audit] * number))
        wait_for(
            lambda: office.server.refusals.total == number - MAX_PER_USER, "refusals of the rest"
        )
        other = held.enter_context(asking(path, GAMES.uid, status))
        assert other.stdout
        assert json.loads(other.stdout.readline())["answer"]["mode"] == "act"
        for uid in (1, 2, 3, 4):  # some more, for whom there is no place any more
            held.enter_context(asking(path, uid, *[audit] * MAX_PER_USER))
        wait_for(lambda: office.server.refusals.total >= number, "all places to be taken")
        for _ in range(3):
            assert control_client.status(path)["mode"] == "act"
        main = threading.Thread(target=office.serve_reload, args=(None,))
        main.start()
        assert control_client.reload(path)["changed"] == ["daemon.policy"]
        main.join()
        office.goes_on.set()
        assert flood.stdout
        told = [line for _ in range(number) if (line := flood.stdout.readline().strip())]
    assert len(told) >= number - MAX_PER_USER  # root may have taken a place of theirs
    assert {json.loads(line)["exit_code"] for line in told} == {TryAgainError.exit_code}
    assert office.operators_asked == ["news"]


# -- the socket's file ---------------------------------------------------------------------------


def test_a_dead_daemons_socket_is_replaced_a_living_ones_never(
    office: Office, tmp_path: Path
) -> None:
    path = tmp_path / "daemon.sock"
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(path))
    with office.server.listening(path):
        other = Office()
        refused = pytest.raises(UnavailableError, match="somebody listens there already")
        with refused, other.server.listening(path):
            pytest.fail("two daemons at one socket")
        other.wishes.close()
        assert control_client.status(path)["mode"] == "act"


def test_a_file_that_is_no_socket_is_left_alone(office: Office, tmp_path: Path) -> None:
    path = tmp_path / "daemon.sock"
    path.write_text("precious")
    refused = pytest.raises(UnavailableError, match="something else is there")
    with refused, office.server.listening(path):
        pytest.fail("listening at a file")
    assert path.read_text() == "precious"


def test_a_path_that_no_socket_can_have_is_an_error_that_says_so(
    office: Office, tmp_path: Path
) -> None:
    path = tmp_path / ("x" * 120)
    with pytest.raises(UnavailableError) as error, office.server.listening(path):
        pytest.fail("listening at such a path")
    assert str(path) in error.value.message
    assert "107 bytes" in error.value.hint


def test_a_folder_that_cannot_be_made_is_an_error(office: Office, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    path = tmp_path / "file" / "x" / "daemon.sock"
    with pytest.raises(UnavailableError, match="cannot make"), office.server.listening(path):
        pytest.fail("listening below a file")
