"""`gsched daemon status` and `reload` beside a configuration that is broken by now."""

from __future__ import annotations

import json
import threading

import pytest

from gsched.daemon.asker_rights import AskerRights
from gsched.daemon.control_server import ControlServer
from gsched.daemon.gate import Mode
from gsched.daemon.locks import StateDir
from gsched.daemon.model_facts import ModelFacts
from gsched.daemon.notify import Notifier
from gsched.daemon.reloading import reload_if_wanted
from gsched.daemon.situation import Board
from gsched.daemon.wishes import Wishes
from gsched.errors import ConfigError


@pytest.fixture
def broken(tmp_path):
    """A configuration whose end is no TOML, by the variable that names it."""
    path = tmp_path / "gsched.toml"
    path.write_text(f'state_dir = "{tmp_path}"\n[daemon]\nsocket = "{tmp_path}/s"\n[submit\n')
    return {"GSCHED_CONFIG": str(path), "GSCHED_STATE_DIR": ""}


def test_the_daemon_is_reached_and_says_what_it_thinks(gsched, broken, tmp_path):
    wishes, board = Wishes(), Board(1_795_000_000, Mode.ACT)

    def refuse():
        raise ConfigError("gsched.toml: is not valid TOML", "mend it")

    def main():
        wishes.wait(60)
        reload_if_wanted(wishes, refuse, Notifier("", 0.0), board, lambda: 1_795_000_001)

    server = ControlServer(board, wishes, bytes, lambda *_: [], AskerRights(lambda _: "user"))
    with server.listening(tmp_path / "s"):
        found = gsched("daemon", "status", "--json", environ=broken)
        assert found.returncode == 0, found.stderr
        assert "the configuration is wrong" in found.stderr
        assert "is not valid TOML" in found.stderr
        assert json.loads(found.stdout)["mode"] == "act"
        thread = threading.Thread(target=main)
        thread.start()
        refused = gsched("daemon", "reload", environ=broken)
        thread.join()
        assert (refused.returncode, "hint: mend it" in refused.stderr) == (78, True)
        found = json.loads(gsched("daemon", "status", "--json", environ=broken).stdout)
        assert found["config_in_force"] is False
        assert found["config_problem"] == "gsched.toml: is not valid TOML"
    wishes.close()
    for command in ("status", "reload"):
        alone = gsched("daemon", command, environ=broken)
        assert (alone.returncode, "is not valid TOML" in alone.stderr) == (78, True)


def test_why_the_model_is_not_up_to_date_is_said(gsched, tmp_path):
    board = Board(1_795_000_000, Mode.ACT)
    facts = ModelFacts(pinned="duration-1", problem="duration.gsmodel is damaged")
    board.post(model=facts.document())
    server = ControlServer(board, Wishes(), bytes, lambda *_: [], AskerRights(lambda _: "user"))
    with server.listening(tmp_path / "s"):
        environ = {"GSCHED_DAEMON_SOCKET": str(tmp_path / "s")}
        told = json.loads(gsched("daemon", "status", "--json", environ=environ).stdout)["model"]
        assert (told["problem"], told["written_at"]) == ("duration.gsmodel is damaged", None)
        text = gsched("daemon", "status", environ=environ).stdout
        shown = [line.removeprefix("model").strip() for line in text.splitlines()]
        at = shown.index("none")
        lines = ["none", "duration.gsmodel is damaged", "model duration-1 is pinned"]
        assert shown[at : at + 3] == lines


def test_what_a_silent_daemon_does_is_not_told_from_old_files(gsched, tmp_path):
    state = tmp_path / "state"
    with StateDir(state).leading({"started_at": 1_000, "mode": "act"}):
        found = json.loads(gsched("daemon", "status", "--json").stdout)
        assert (found["running"], found["asked"], found["mode"]) == (True, False, None)
