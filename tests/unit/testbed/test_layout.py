"""The folder of a testbed: what is taken for one, and what is refused."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from gsched.errors import DataError, PermissionDeniedError, TryAgainError, UsageError
from gsched.testbed import layout
from gsched.testbed.layout import Layout, Owner, Record
from gsched.testbed.spec import TestbedSpec


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "bed"


def record_of(root: Path) -> Record:
    spec = TestbedSpec(Path("/var/tmp/x"), num_nodes=2)
    return Record(spec, 20_480, is_up=True, owner=Owner(12, 34), is_temporary=True)


def test_a_new_folder_is_made_and_can_be_entered_by_others(root: Path) -> None:
    previous = os.umask(0o077)
    try:
        layout.claim(root).make_folders()
    finally:
        os.umask(previous)
    assert root.stat().st_mode & 0o777 == 0o755
    assert (root / "etc").stat().st_mode & 0o777 == 0o755


def test_an_empty_folder_and_a_former_testbed_are_accepted(root: Path) -> None:
    root.mkdir(mode=0o700)
    claimed = layout.claim(root)
    claimed.make_folders()
    layout.write_record(claimed, record_of(root))
    assert layout.claim(root) == claimed


def test_a_folder_with_files_is_refused_and_left_as_it_is(root: Path) -> None:
    root.mkdir(mode=0o700)
    (root / "thesis.tex").write_text("x")
    with pytest.raises(UsageError, match="is not a testbed"):
        layout.claim(root)
    assert root.stat().st_mode & 0o777 == 0o700
    with pytest.raises(UsageError, match="is not a testbed"):
        layout.remove(Layout(root))
    assert (root / "thesis.tex").exists()


def test_a_folder_that_others_may_write_is_refused(root: Path) -> None:
    root.mkdir()
    root.chmod(0o777)
    with pytest.raises(PermissionDeniedError, match="can be written by others"):
        layout.claim(root)


def test_a_folder_below_one_that_others_may_write_is_refused(root: Path) -> None:
    root.mkdir()
    root.chmod(0o777)
    with pytest.raises(PermissionDeniedError, match="can be changed by others"):
        layout.claim(root / "below")
    root.chmod(0o1777)  # as /tmp is
    layout.claim(root / "below")


def test_a_link_a_file_and_a_missing_parent_are_refused(root: Path, tmp_path: Path) -> None:
    target = tmp_path / "elsewhere"
    target.mkdir()
    root.symlink_to(target)
    with pytest.raises(UsageError, match="is not a folder"):
        layout.claim(root)
    root.unlink()
    root.touch()
    with pytest.raises(UsageError, match="is not a folder"):
        layout.claim(root)
    with pytest.raises(UsageError, match="does not exist"):
        layout.claim(tmp_path / "no" / "such")


def test_a_folder_that_others_cannot_enter_is_named(root: Path) -> None:
    root.mkdir()
    root.chmod(0o700)
    with pytest.raises(UsageError, match=f"cannot enter {root}"):
        layout.check_reachable(root)


def test_a_record_survives_being_written_down(root: Path) -> None:
    claimed = layout.claim(root)
    assert layout.read_record(claimed) is None
    layout.write_record(claimed, record_of(root))
    assert layout.read_record(claimed) == record_of(root)
    assert [entry.name for entry in root.iterdir()] == ["testbed.json"]


@pytest.mark.parametrize("text", ["", "{", "[]", '{"format": 1}', '{"format": 2}'])
def test_a_damaged_record_is_an_error_and_nothing_is_removed(root: Path, text: str) -> None:
    claimed = layout.claim(root)
    claimed.record.write_text(text)
    with pytest.raises(DataError, match=r"testbed\.json"):
        layout.read_record(claimed)
    with pytest.raises(DataError):
        layout.remove(claimed)
    assert claimed.record.exists()


def test_a_record_with_a_field_of_a_wrong_type_is_an_error(root: Path) -> None:
    claimed = layout.claim(root)
    layout.write_record(claimed, record_of(root))
    values = json.loads(claimed.record.read_text())
    claimed.record.write_text(json.dumps(values | {"owner": {"pid": 1}}))
    with pytest.raises(DataError, match="damaged"):
        layout.read_record(claimed)


def test_a_private_file_is_private_whatever_was_there(tmp_path: Path) -> None:
    path = tmp_path / "slurmdbd.conf"
    path.write_text("old")
    path.chmod(0o644)
    layout.write_private(path, b"new")
    assert path.read_text() == "new"
    assert path.stat().st_mode & 0o777 == 0o600
    assert [entry.name for entry in tmp_path.iterdir()] == ["slurmdbd.conf"]


def test_only_one_at_a_time(root: Path) -> None:
    claimed = layout.claim(root)
    with layout.exclusive(claimed), pytest.raises(TryAgainError), layout.exclusive(claimed):
        pass
    with layout.exclusive(claimed):
        pass


@pytest.mark.parametrize("name", ["", "a/b", "..", "run-1", "a b", "ä", "-"])
def test_names_that_are_no_names_are_refused(name: str) -> None:
    with pytest.raises(UsageError):
        layout.default_root(name)


def test_a_name_is_a_folder_of_the_calling_user() -> None:
    assert layout.default_root("my-bed_2") == Path(
        f"/var/tmp/gsched-testbed-{os.getuid()}/my-bed_2"
    )
