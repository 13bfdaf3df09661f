"""What `gsched ces status` reads: the daemon's own word, its public file, and what is neither."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from gsched.app.ces.status import ces_status
from gsched.config.node_settings import CesTable
from gsched.config.settings import Settings
from gsched.daemon.ces_facts import ces_for_everybody
from gsched.daemon.gate import Mode
from gsched.daemon.situation import Board
from gsched.daemon.unix_server import Asker, UnixServer
from gsched.errors import DataError, UnavailableError

POOL: dict[str, Any] = {
    "pool": "a100x8@gpu", "nodes": 9, "running": 3, "idle": 2, "falling": 0, "asleep": 4,
    "waking": 0, "excluded": 0, "wanted": 0, "spare": 1, "wake_lead_s": 60, "wake": 0, "sleep": 1,
    "reason": {"code": "ces.surplus", "params": {"awake": 5, "keep": 4, "surplus": 1}},
    "reason_at": 7, "forecast": {"code": "demand.forecast", "params": {}}, "forecast_made_at": 7,
}  # fmt: skip
DOCUMENT: dict[str, Any] = {
    "mode": "act", "acting": True, "why": "", "problem": "", "looked_at": 7, "pools": [POOL],
    "given_up": {}, "stopped": "", "demand": {"problem": ""},
}  # fmt: skip


@contextmanager
def daemon(folder: Path, told: Any) -> Iterator[None]:
    def answer(_question: dict[str, Any], _asker: Asker) -> dict[str, Any]:
        return {"ces": told}

    with UnixServer(answer).listening(folder / "daemon.sock", 0o666):
        yield


def write_file(folder: Path, told: Any, as_of: float) -> None:
    document = {"version": 1, "as_of": as_of, "interval_s": 30.0, "jobs": {}, "ces": told}
    (folder / "status.json").write_text(json.dumps(document))


def test_the_daemons_word_comes_with_its_reasons_in_words(tmp_path: Path) -> None:
    with daemon(tmp_path, DOCUMENT):
        found = ces_status(Settings(state_dir=tmp_path))
    (pool,) = found["pools"]
    assert pool["reason_text"] == "5 nodes awake, 4 have to be: 1 too many"
    assert pool["forecast_text"].startswith("there is a forecast")
    assert {key: found[key] for key in DOCUMENT if key != "pools"} == {
        key: value for key, value in DOCUMENT.items() if key != "pools"
    }
    assert found["silent_s"] == 0.0


def test_where_the_daemon_is_silent_its_file_tells_and_for_how_long(tmp_path: Path) -> None:
    settings = Settings(state_dir=tmp_path)
    write_file(tmp_path, DOCUMENT, time.time() - 5)
    assert ces_status(settings)["silent_s"] == 0.0
    write_file(tmp_path, DOCUMENT, time.time() - 4000)
    assert ces_status(settings)["silent_s"] == pytest.approx(4000, abs=60)


def test_off_is_told_as_off_and_nobody_as_nobody(tmp_path: Path) -> None:
    settings = Settings(state_dir=tmp_path)
    with pytest.raises(UnavailableError, match="no daemon tells"):
        ces_status(settings)
    with daemon(tmp_path, {}):
        assert ces_status(settings) == {"mode": "off", "silent_s": 0.0, "pools": []}
        acts = Settings(state_dir=tmp_path, ces=CesTable(mode="act"))
        found = ces_status(acts)
    assert (found["mode"], found["acting"], found["pools"]) == ("act", False, [])
    assert "has looked at no node yet" in found["why"]


def without(key: str) -> dict[str, Any]:
    return {name: value for name, value in POOL.items() if name != key}


@pytest.mark.parametrize(
    "told",
    [
        [1],
        "off",
        {"mode": "act", "pools": 3},
        {"mode": "act", "pools": [3]},
        {"mode": "act", "pools": [without("asleep")]},
        {"mode": "act", "pools": [without("sleep")]},
        {"mode": "act", "pools": [{**POOL, "idle": True}]},
        {"mode": "act", "pools": [{**POOL, "reason": "because"}]},
        {"mode": "act", "pools": [{**POOL, "reason": {"code": 1, "params": {}}}]},
        {"mode": "act", "pools": [{**POOL, "forecast": {"code": "x", "params": []}}]},
    ],
)
def test_what_is_no_such_document_is_refused(tmp_path: Path, told: Any) -> None:
    write_file(tmp_path, told, time.time())
    with pytest.raises(DataError, match="cannot be understood"):
        ces_status(Settings(state_dir=tmp_path))


SECRET = "/root/secret"
TELLING: dict[str, Any] = {
    **DOCUMENT,
    "problem": SECRET,
    "stopped": SECRET,
    "why": f"gsched-helper: {SECRET}",
    "given_up": {"gn01": SECRET},
    "demand": {"problem": SECRET, "left": 2},
    "pools": [{**POOL, "reason": {"code": "ces.suspending-stopped", "params": {"why": SECRET}}}],
}


def test_what_errors_say_is_for_trusted_eyes() -> None:
    public = ces_for_everybody(TELLING)
    assert SECRET not in json.dumps(public)
    assert public["given_up"] == {"gn01": "the daemon's log says why"}
    assert public["demand"] == {"problem": "the daemon's log says why", "left": 2}
    assert ces_for_everybody(DOCUMENT) == DOCUMENT
    assert ces_for_everybody({}) == {}
    board = Board(0, Mode.ACT)
    board.post(ces=TELLING)
    assert SECRET in json.dumps(board.document(trusted=True))
    assert SECRET not in json.dumps(board.document(trusted=False))
