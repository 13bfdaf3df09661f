"""Whose the daemon's folder is, and what somebody may have planted in it."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from gsched.daemon.locks import StateDir
from gsched.daemon.status_file import read_status
from gsched.errors import ConfigError, UnavailableError
from gsched.files import write_atomically


@pytest.fixture
def victim(tmp_path: Path) -> Path:
    """A file of root's that a link in the folder leads to."""
    path = tmp_path / "victim"
    path.write_text("precious")
    path.chmod(0o600)
    return path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "state"
    path.mkdir(mode=0o755)
    return path


@pytest.mark.parametrize("mode", [0o777, 0o1777, 0o775, 0o757, 0o770])
def test_a_folder_that_others_may_write_to_is_not_used(folder: Path, mode: int) -> None:
    folder.chmod(mode)
    caught = pytest.raises(ConfigError, match="others may write it")
    with caught as refused, StateDir(folder).leading({}):
        pass
    assert f"chmod go-w {folder}" in refused.value.hint
    with pytest.raises(ConfigError), StateDir(folder).writing():
        pass
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize("mode", [0o755, 0o750, 0o700, 0o711])
def test_a_folder_of_ones_own_is(folder: Path, mode: int) -> None:
    folder.chmod(mode)
    with StateDir(folder).leading({}), StateDir(folder).writing():
        assert StateDir(folder).leader() is not None


def test_a_folder_of_another_user_is_not_used(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    os.chown(folder, 65534 if os.geteuid() == 0 else -1, -1)
    monkeypatch.setattr(os, "geteuid", lambda: 4242)
    caught = pytest.raises(ConfigError, match="it belongs to another user")
    with caught as refused, StateDir(folder).leading({}):
        pass
    assert "chmod" not in refused.value.hint  # that would not help
    assert f"run as the user of it (uid {folder.stat().st_uid})" in refused.value.hint


@pytest.mark.parametrize("umask", [0o000, 0o002, 0o022, 0o077])
def test_a_new_folder_is_ones_own_whatever_the_umask(tmp_path: Path, umask: int) -> None:
    before = os.umask(umask)
    try:
        with StateDir(tmp_path / "new").leading({}), StateDir(tmp_path / "new").writing():
            pass
        write_atomically(tmp_path / "new" / "models" / "m", b"x", 0o640)
        write_atomically(tmp_path / "new" / "status.json", b"{}", 0o644)
    finally:
        os.umask(before)
    for path in (tmp_path / "new", *(tmp_path / "new").rglob("*")):
        assert not stat.S_IMODE(path.stat().st_mode) & 0o022, path
    modes = {p.name: stat.S_IMODE(p.stat().st_mode) for p in (tmp_path / "new").rglob("*")}
    expected = {"leader.lock": 0o600, "writer.lock": 0o600, "m": 0o640, "status.json": 0o644}
    assert {name: modes[name] for name in expected} == expected


@pytest.mark.parametrize("name", ["leader.lock", "writer.lock"])
@pytest.mark.parametrize("kind", ["symbolic", "hard"])
def test_a_lock_that_is_a_link_leads_nowhere(
    folder: Path, victim: Path, name: str, kind: str
) -> None:
    """To root: opening it would give another user's file away, and writing would empty it."""
    if kind == "symbolic":
        (folder / name).symlink_to(victim)
    else:
        (folder / name).hardlink_to(victim)
    if os.geteuid() == 0:
        os.chown(folder, 65534, 65534)
    owner = victim.stat().st_uid
    lock = StateDir(folder).leading({}) if name == "leader.lock" else StateDir(folder).writing()
    with pytest.raises(UnavailableError), lock:
        pass
    assert victim.read_text() == "precious"
    assert victim.stat().st_uid == owner


@pytest.mark.parametrize("name", ["status.json", "leader.json", "halt"])
def test_a_link_in_place_of_a_file_is_replaced_not_followed(
    folder: Path, victim: Path, name: str
) -> None:
    (folder / name).symlink_to(victim)
    if name == "leader.json":
        with StateDir(folder).leading({}):
            assert StateDir(folder).leader() is not None
    elif name == "halt":
        StateDir(folder).halt("by a test")
        assert not (folder / name).is_symlink()
    else:
        write_atomically(folder / name, b"{}", 0o644)
        assert not (folder / name).is_symlink()
    assert victim.read_text() == "precious"
    assert stat.S_IMODE(victim.stat().st_mode) == 0o600


def test_a_fifo_in_place_of_a_lock_blocks_nobody(folder: Path) -> None:
    os.mkfifo(folder / "leader.lock")
    refused = pytest.raises(UnavailableError, match="no file of its own")
    with refused, StateDir(folder).leading({}):
        pass


@pytest.mark.parametrize("name", ["halt", "leader.json"])
def test_a_fifo_in_place_of_a_file_blocks_nobody(folder: Path, name: str) -> None:
    os.mkfifo(folder / name)
    state_dir = StateDir(folder)
    if name == "halt":
        assert state_dir.halted() is not None  # somebody meant it: the daemon observes
    else:
        assert state_dir.leader() is None


def test_a_fifo_in_place_of_the_status_file_blocks_nobody(folder: Path) -> None:
    os.mkfifo(folder / "status.json")
    assert read_status(folder / "status.json") is None


def test_a_huge_halt_mark_is_not_read_whole(folder: Path) -> None:
    with (folder / "halt").open("wb") as f:
        f.truncate(2**33)
    found = StateDir(folder).halted()
    assert found is not None
    assert len(found) < 2000
