"""What doctor says of the heartbeat folder, and that its mend mends."""

from __future__ import annotations

import os
import subprocess
from contextlib import contextmanager
from pathlib import Path

import pytest

from gsched.app.doctor import Walk, heartbeats
from gsched.app.doctor.findings import Finding
from gsched.app.doctor.heartbeats import check
from gsched.app.user_names import user_name
from gsched.config.settings import HeartbeatSettings, Settings

ME = os.getuid()


def findings(folder: Path | str) -> list[Finding]:
    settings = Settings(heartbeat=HeartbeatSettings(str(folder)))
    return list(check(Walk(settings, {}, lambda: 0.0)))


def codes(folder: Path) -> list[tuple[str, str]]:
    return [(finding.level, finding.code) for finding in findings(folder)]


def test_where_none_is_set_nothing_is_said():
    assert findings("") == []


@pytest.mark.parametrize(
    ("mode", "level", "code"),
    [
        (None, "warn", "heartbeat-folder-absent"),
        (0o777, "warn", "heartbeat-folder-not-sticky"),
        (0o755, "note", "heartbeat-folder-closed"),
    ],
    ids=["absent", "0777", "0755"],
)
def test_a_folder_that_does_not_do_and_its_mend(tmp_path, mode, level, code):
    folder = tmp_path / "beats"
    if mode is not None:
        folder.mkdir()
        folder.chmod(mode)
    (finding,) = findings(folder)
    assert (finding.level, finding.code) == (level, code)
    mend = finding.mend.partition("`")[2].partition("`")[0] or finding.mend.partition(",")[0]
    subprocess.run(mend.split(), check=True)
    assert codes(folder) == [("ok", "heartbeat-folder")]


def test_a_place_that_another_user_has_taken(tmp_path):
    tmp_path.chmod(0o1777)
    for name in (str(ME), str(ME + 1), "notes"):
        (tmp_path / name).mkdir()
    _, finding = findings(tmp_path)
    assert (finding.level, finding.code) == ("warn", "heartbeat-folder-taken")
    place = tmp_path / str(ME + 1)
    assert f"{place} is the place of {user_name(ME + 1)}" in finding.found
    assert f"rm -r {place}" in finding.mend


def test_a_folder_that_goes_while_all_are_looked_at(tmp_path, monkeypatch):
    tmp_path.chmod(0o1777)
    for name in (str(ME + 1), str(ME + 2)):
        (tmp_path / name).mkdir()
    scandir = os.scandir

    @contextmanager
    def losing(path):
        with scandir(path) as entries:
            found = sorted(entries, key=lambda entry: entry.name)
        (tmp_path / found[0].name).rmdir()
        yield found

    monkeypatch.setattr(heartbeats.os, "scandir", losing)
    (told,) = [finding.found for finding in findings(tmp_path)[1:]]
    assert str(tmp_path / str(ME + 2)) in told
