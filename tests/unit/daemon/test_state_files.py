"""Locks, the halt mark and the public status file."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from gsched.daemon.locks import StateDir
from gsched.daemon.status_file import read_status
from gsched.errors import PermissionDeniedError, TryAgainError, UnavailableError
from gsched.files import write_atomically

HOLD = """
import sys
from pathlib import Path
from gsched.daemon.locks import StateDir
with StateDir(Path(sys.argv[1])).leading({"mode": "act"}):
    print("held", flush=True)
    sys.stdin.read()
"""


def holder(folder: Path) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    return process


def test_one_leader_at_a_time_and_a_kill_frees_the_lock(tmp_path: Path) -> None:
    state_dir = StateDir(tmp_path)
    with holder(tmp_path) as other:
        assert state_dir.leader() == {"pid": other.pid, "mode": "act"}
        with pytest.raises(TryAgainError, match=f"pid {other.pid}"), state_dir.leading({}):
            pass
        other.send_signal(signal.SIGKILL)
        other.wait()
        assert state_dir.leader() is None
        with state_dir.leading({"mode": "observe"}):
            assert StateDir(tmp_path).leader() == {"pid": os.getpid(), "mode": "observe"}
    assert state_dir.leader() is None


def test_who_leads_is_told_to_everybody_but_nobody_else_can_lock(tmp_path: Path) -> None:
    with StateDir(tmp_path).leading({}), StateDir(tmp_path).writing():
        modes = {p.name: stat.S_IMODE(p.stat().st_mode) for p in tmp_path.iterdir()}
    assert modes == {"leader.lock": 0o600, "writer.lock": 0o600, "leader.json": 0o644}


def test_another_process_with_a_dead_leaders_pid_is_not_taken_for_it(tmp_path: Path) -> None:
    told = tmp_path / "leader.json"
    told.write_text(json.dumps({"pid": os.getpid(), "born": 1, "mode": "act"}))
    assert StateDir(tmp_path).leader() is None


@pytest.mark.parametrize("text", ["", "{", "[]", '{"pid": "x"}', '{"pid": 1}'])
def test_a_leader_file_that_makes_no_sense_is_nobody(tmp_path: Path, text: str) -> None:
    (tmp_path / "leader.json").write_text(text)
    assert StateDir(tmp_path).leader() is None


def test_a_writer_waits_for_nobody_unless_told(tmp_path: Path) -> None:
    with (
        StateDir(tmp_path).writing(),
        pytest.raises(TryAgainError, match=f"pid {os.getpid()}.* is writing"),
        StateDir(tmp_path).writing(),
    ):
        pass
    with StateDir(tmp_path).writing(wait_s=5):
        pass


def test_a_lock_is_not_followed_through_a_link(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("precious")
    (tmp_path / "leader.lock").symlink_to(victim)
    with pytest.raises(UnavailableError), StateDir(tmp_path).leading({}):
        pass
    assert victim.read_text() == "precious"


def test_halt_and_lift(tmp_path: Path) -> None:
    state_dir = StateDir(tmp_path)
    assert state_dir.halted() is None
    state_dir.halt("by a test")
    assert StateDir(tmp_path).halted() == "by a test"
    assert state_dir.lift_halt() is True
    assert state_dir.halted() is None
    assert state_dir.lift_halt() is False


def test_a_file_is_replaced_whole_with_its_mode(tmp_path: Path) -> None:
    path = tmp_path / "sub" / "file"
    write_atomically(path, b"one", 0o640)
    write_atomically(path, b"two", 0o644)
    assert path.read_bytes() == b"two"
    assert stat.S_IMODE(path.stat().st_mode) == 0o644
    assert os.listdir(path.parent) == ["file"]  # noqa: PTH208


def test_a_file_that_cannot_be_written_stays_as_it_was(tmp_path: Path) -> None:
    target = tmp_path / "folder"
    (target / "inside").mkdir(parents=True)
    with pytest.raises((UnavailableError, PermissionDeniedError), match="cannot write"):
        write_atomically(target, b"x", 0o644)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["folder"]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "not json",
        "[]",
        json.dumps({"version": 99, "jobs": {}}),
        json.dumps({"version": 1}),
        json.dumps({"version": 1, "jobs": []}),
        "\x00\xff",
    ],
)
def test_a_status_file_that_makes_no_sense_is_no_answer(tmp_path: Path, text: str) -> None:
    path = tmp_path / "status.json"
    path.write_text(text, encoding="latin-1")
    assert read_status(path) is None
    assert read_status(tmp_path / "absent") is None


GOOD = {
    "submit_time": 5,
    "rank": {"queue": "gpu", "position": 1, "of": 2},
    "reason": {"code": "x", "params": {}},
    "excluded": {"code": "x", "detail": "y"},
    "duration_s": {"mean": 1.5, "quantiles": [[0.1, 1]], "source": "x", "similar_jobs": 2},
}


def test_a_good_status_file_is_read_and_unsound_answers_are_none(tmp_path: Path) -> None:
    path = tmp_path / "status.json"
    unsound = {
        "rank": [5, {}, {"queue": "gpu", "position": "1", "of": 2}],
        "reason": ["foo", {"code": 1, "params": {}}],
        "excluded": ["foo", {}],
        "duration_s": [7, {"mean": None, "quantiles": [], "similar_jobs": 1}]
        + [{"mean": 1, "quantiles": q, "similar_jobs": 1} for q in (None, [1], [[1]], [["a", 2]])],
        "submit_time": [None, "1"],
    }
    jobs = {"7": GOOD, "8": {"submit_time": 5}} | {
        f"{key}-{n}": GOOD | {key: value}
        for key, values in unsound.items()
        for n, value in enumerate(values)
    }
    head = {"version": 1, "as_of": 1, "interval_s": 30}
    path.write_text(json.dumps({**head, "jobs": jobs}))
    found = read_status(path)
    assert found is not None
    assert found["jobs"] == {"7": GOOD, "8": {"submit_time": 5}}
    for key in ("as_of", "interval_s"):
        path.write_text(json.dumps({**head, key: "yesterday", "jobs": {}}))
        assert read_status(path) is None
