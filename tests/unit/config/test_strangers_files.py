"""Whose settings are obeyed."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from gsched.config.loader import load
from gsched.errors import ConfigError


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "gsched.toml"
    path.write_text('[daemon]\npolicy = "fifo"\n')
    return path


def test_a_file_that_anybody_may_write_is_refused(file: Path) -> None:
    file.chmod(0o666)
    with pytest.raises(ConfigError, match="anybody may write to it") as caught:
        load({"GSCHED_CONFIG": str(file)})
    assert caught.value.hint == f"chmod o-w {file}"


def test_root_obeys_no_users_file(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As with a sudo that keeps the caller's HOME or GSCHED_CONFIG."""
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    if os.getuid() == 0:
        os.chown(file, 65534, 65534)
    with pytest.raises(ConfigError, match="root would obey it"):
        load({"GSCHED_CONFIG": str(file)})
    home = file.parent / ".config" / "gsched"
    home.mkdir(parents=True)
    file.rename(home / "gsched.toml")
    with pytest.raises(ConfigError, match="root would obey it"):
        load({"HOME": str(file.parent)})


def test_a_user_obeys_roots_and_their_own(file: Path) -> None:
    assert load({"GSCHED_CONFIG": str(file)}).daemon.policy == "fifo"
