"""Files that are there whole or not at all."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

import pytest

from gsched.errors import PermissionDeniedError, UnavailableError, UsageError
from gsched.files import writing_whole


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def write_and_fail(target, error):
    with writing_whole(target, 0o600) as file:
        file.write(b"new")
        raise error


def test_what_was_written_is_on_disk_before_it_has_its_name_and_the_name_after(
    tmp_path, monkeypatch
):
    target = tmp_path / "x"
    steps = []
    real = os.fsync

    def fsync(fd):
        kind = "folder" if stat.S_ISDIR(os.fstat(fd).st_mode) else "file"
        steps.append((kind, target.exists()))
        real(fd)

    monkeypatch.setattr(os, "fsync", fsync)
    for replace in (True, False):
        steps.clear()
        target.unlink(missing_ok=True)
        with writing_whole(target, 0o640, replace=replace) as file:
            file.write(b"one")
        assert steps == [("file", False), ("folder", True)]
        assert target.read_bytes() == b"one"
        assert stat.S_IMODE(target.stat().st_mode) == 0o640
        assert names(tmp_path) == ["x"]


def test_an_error_within_leaves_the_old_file_and_nothing_else(tmp_path):
    target = tmp_path / "x"
    target.write_bytes(b"old")
    for error in (ValueError(), KeyboardInterrupt(), OSError(errno.ENOSPC, "No space")):
        expected = UnavailableError if isinstance(error, OSError) else type(error)
        with pytest.raises(expected):
            write_and_fail(target, error)
    assert target.read_bytes() == b"old"
    assert names(tmp_path) == ["x"]


def test_a_file_that_is_there_is_left_alone_also_when_it_comes_late(tmp_path):
    target = tmp_path / "x"
    with pytest.raises(UsageError, match="exists"), writing_whole(target, 0o600, replace=False):
        target.write_bytes(b"mine")
    with pytest.raises(UsageError, match="exists"), writing_whole(target, 0o600, replace=False):
        pytest.fail("not even begun")
    dangling = tmp_path / "link"
    dangling.symlink_to("nowhere")
    with pytest.raises(UsageError, match="exists"), writing_whole(dangling, 0o600, replace=False):
        pytest.fail("not even begun")
    assert target.read_bytes() == b"mine"
    assert names(tmp_path) == ["link", "x"]


def test_a_file_system_without_hard_links_serves_as_well(tmp_path, monkeypatch):
    def link(*_):
        raise OSError(errno.EPERM, os.strerror(errno.EPERM))

    monkeypatch.setattr(os, "link", link)
    with writing_whole(tmp_path / "x", 0o600, replace=False) as file:
        file.write(b"one")
    assert (tmp_path / "x").read_bytes() == b"one"
    assert names(tmp_path) == ["x"]


def test_a_folder_that_is_not_there_is_an_error_in_words():
    with (
        pytest.raises((UnavailableError, PermissionDeniedError), match="cannot write /no/such/x"),
        writing_whole(Path("/no/such/x"), 0o600),
    ):
        pytest.fail("not even begun")
