"""What somebody may have planted where root is about to make a database."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from gsched.errors import GschedError
from gsched_sql import History


def test_a_link_that_leads_nowhere_makes_no_file_elsewhere(tmp_path: Path) -> None:
    """Made as root, it would belong to whoever owns the folder of the link."""
    folder, target = tmp_path / "state", tmp_path / "elsewhere" / "planted"
    folder.mkdir()
    target.parent.mkdir()
    if os.geteuid() == 0:
        os.chown(folder, 65534, 65534)
    (folder / "history.db").symlink_to(target)
    with pytest.raises(GschedError, match="cannot use"):
        History.create(f"sqlite:///{folder}/history.db")
    assert not target.exists()


def test_two_that_make_it_at_once_both_have_it(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/history.db"
    (tmp_path / "history.db").touch(mode=0o640)
    History.create(url)
    History.open(url).close()
