"""Writing heartbeats: a file of fixed size, later starts win, and nobody else's folder is used."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
from support.heartbeats import record, tell

from gsched.telemetry.heartbeat_file import (
    CURVE_OFFSET,
    FILE_BYTES,
    decode_curve,
    decode_record,
)
from gsched.telemetry.heartbeat_writer import HeartbeatFile
from gsched.telemetry.loss_curve import LossCurve, Point
from gsched.telemetry.own_folder import KEEP_DAYS, OwnFolder

ME = os.getuid()
NOBODY = 65534


def file_of(folder: Path, rank: int = 0) -> HeartbeatFile:
    return HeartbeatFile(OwnFolder(folder, ME), "7", rank)


@pytest.mark.parametrize(("rank", "size"), [(0, FILE_BYTES), (3, CURVE_OFFSET)])
def test_the_size_never_changes(tmp_path, rank, size):
    file = file_of(tmp_path, rank)
    for step in range(5):
        curve = None if rank else LossCurve([Point(step, 1.0, 1)])
        assert file.write(record(rank=rank, step=step), curve)
        assert file.path.stat().st_size == size
        assert decode_record(file.path.read_bytes()).step == step


def test_a_write_that_is_cut_off_leaves_the_one_before(tmp_path):
    """Whichever it is: writes go into both slots by turns."""
    file = file_of(tmp_path)
    file.write(record(step=0), LossCurve([Point(0, 1.0, 1)]))
    for step in range(1, 4):
        before = file.path.read_bytes()
        file.write(record(step=step), LossCurve([Point(step, 1.0, 1)]))
        after = file.path.read_bytes()
        wrong = bytes(b if a == b else 0 for a, b in zip(before, after, strict=True))
        assert decode_record(wrong).step == step - 1
        assert decode_curve(wrong[CURVE_OFFSET:])[1].points == [Point(step - 1, 1.0, 1)]
        assert decode_record(after).step == step


def test_the_users_umask_decides_who_may_read(tmp_path):
    before = os.umask(0o077)
    try:
        path = tell(tmp_path, record())
    finally:
        os.umask(before)
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700


def test_what_an_earlier_start_left_is_found_again(tmp_path):
    assert file_of(tmp_path).before() == (None, None)
    curve = LossCurve([Point(400, 2.0, 1)])
    tell(tmp_path, record(), curve)
    assert file_of(tmp_path).before() == (record(), curve)


def test_a_later_start_takes_the_file_over(tmp_path):
    """Its clock may be behind that of the node on which the job ran before."""
    first, second = file_of(tmp_path), file_of(tmp_path)
    for step in range(10):
        assert first.write(record(run="a", step=step, started_time=9000.0), None)
    assert second.write(record(run="b", restart=1, step=3, started_time=8900.0), None)
    assert decode_record(second.path.read_bytes()).step == 3
    assert not first.write(record(run="a", step=10, started_time=9000.0), None)
    assert second.write(record(run="b", restart=1, step=4, started_time=8900.0), None)
    assert decode_record(second.path.read_bytes()).step == 4


def test_a_file_that_was_removed_is_made_again(tmp_path):
    file = file_of(tmp_path)
    file.write(record(step=1), None)
    file.path.unlink()
    file.write(record(step=2), None)
    assert decode_record(file.path.read_bytes()).step == 2


def test_garbage_in_the_file_is_written_over(tmp_path):
    path = tell(tmp_path, record())
    path.write_bytes(os.urandom(100))
    tell(tmp_path, record(step=5))
    assert decode_record(path.read_bytes()).step == 5
    assert path.stat().st_size == FILE_BYTES


def test_a_link_in_the_place_of_the_file_leads_nowhere(tmp_path):
    victim = tmp_path / "victim"
    victim.write_text("precious")
    path = tell(tmp_path, record())
    path.unlink()
    path.symlink_to(victim)
    with pytest.raises(OSError, match="symbolic"):
        tell(tmp_path, record())
    assert victim.read_text() == "precious"


def test_a_link_in_the_place_of_the_folder_leads_nowhere(tmp_path):
    (tmp_path / "victim").mkdir()
    (tmp_path / str(ME)).symlink_to(tmp_path / "victim")
    with pytest.raises(OSError, match="Not a directory"):
        tell(tmp_path, record())
    assert not list((tmp_path / "victim").iterdir())


def test_a_folder_that_somebody_else_has_made_is_not_used(tmp_path):
    folder = tell(tmp_path, record()).parent
    folder.chmod(0o777)
    os.chown(folder, NOBODY, -1)
    with pytest.raises(PermissionError, match="belongs to another user"):
        tell(tmp_path, record(step=401))
    file_of(tmp_path).path.unlink()
    with pytest.raises(PermissionError, match="belongs to another user"):
        file_of(tmp_path).tidy()
    assert list(folder.iterdir()) == []


def test_without_the_heartbeat_folder_there_is_none(tmp_path):
    with pytest.raises(FileNotFoundError):
        tell(tmp_path / "missing", record())


def aged(path: Path, days: float) -> Path:
    then = time.time() - days * 86400
    os.utime(path, (then, then), follow_symlinks=False)
    return path


def test_old_files_of_the_user_go_once_a_day(tmp_path):
    folder = tell(tmp_path, record()).parent
    old = aged(tell(tmp_path, record(job="5")), KEEP_DAYS + 1)
    young = aged(tell(tmp_path, record(job="6_1")), KEEP_DAYS - 1)
    other = folder / "notes"
    other.touch()
    aged(other, KEEP_DAYS + 1)
    file_of(tmp_path).tidy()
    assert (old.exists(), young.exists(), other.exists()) == (False, True, True)
    late = aged(tell(tmp_path, record(job="5")), KEEP_DAYS + 1)
    file_of(tmp_path).tidy()
    assert late.exists()
    aged(folder / ".tidied", 2)
    file_of(tmp_path).tidy()
    assert not late.exists()
