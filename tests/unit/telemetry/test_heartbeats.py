"""The reader of heartbeats believes no file that its job's owner may not have written."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest
from support.heartbeats import record, tell

from gsched.errors import DataError
from gsched.telemetry.heartbeat_file import FILE_BYTES
from gsched.telemetry.heartbeats import HeartbeatFolder
from gsched.telemetry.loss_curve import LossCurve, Point
from gsched.telemetry.user_folders import why_refused

ME = os.getuid()


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """The caller's folder within the heartbeat folder."""
    made = tmp_path / str(ME)
    made.mkdir()
    return made


def read(tmp_path, job="7", uid=ME):
    with HeartbeatFolder(tmp_path) as folder:
        return folder.record(uid, job)


def test_what_a_job_tells_is_read(tmp_path):
    curve = LossCurve([Point(1, 2.5, 1), Point(400, 1.5, 1)])
    tell(tmp_path, record(), curve)
    assert read(tmp_path) == record()
    with HeartbeatFolder(tmp_path) as folder:
        assert folder.curve(ME, "7") == curve


def test_a_job_that_tells_nothing_is_no_error(tmp_path, place):
    assert read(tmp_path) is None
    assert read(tmp_path, uid=ME + 1) is None
    assert read(tmp_path / "missing") is None
    with HeartbeatFolder(tmp_path) as folder:
        assert folder.curve(ME, "7") is None


def test_each_rank_tells_for_itself(tmp_path):
    for rank in (0, 1, 3):
        tell(tmp_path, record(rank=rank, world_size=4, step=100 + rank))
    (tmp_path / str(ME) / "7.2").write_bytes(b"x")
    with HeartbeatFolder(tmp_path) as folder:
        assert [r.step for r in folder.ranks(ME, "7", 4)] == [100, 101, 103]


def test_another_jobs_heartbeat_under_this_name_is_refused(tmp_path):
    tell(tmp_path, record(job="8")).rename(tmp_path / str(ME) / "7.0")
    with pytest.raises(DataError, match="job 8"):
        read(tmp_path)


def test_a_link_is_not_followed(tmp_path, place):
    real = tell(tmp_path, record(job="8"))
    (place / "7.0").symlink_to(real)
    with pytest.raises(DataError, match="is a link"):
        read(tmp_path)


def test_a_folder_that_is_a_link_is_not_entered(tmp_path, place):
    tell(tmp_path, record())
    (tmp_path / "else").mkdir()
    place.rename(tmp_path / "else" / "real")
    place.symlink_to(tmp_path / "else" / "real")
    assert read(tmp_path) is None


def test_a_fifo_is_not_waited_for(tmp_path, place):
    os.mkfifo(place / "7.0")
    seen = []

    def look():
        with pytest.raises(DataError, match="not a file"):
            read(tmp_path)
        seen.append(True)

    thread = threading.Thread(target=look, daemon=True)
    thread.start()
    thread.join(30)
    assert seen == [True]


def test_what_is_no_heartbeat_file_is_refused(tmp_path, place):
    (place / "7.0").mkdir()
    with pytest.raises(DataError, match="not a file"):
        read(tmp_path)
    (place / "8.0").write_text("step 5")
    with pytest.raises(DataError, match="does not begin as one"):
        read(tmp_path, "8")


def test_a_file_that_is_larger_than_any_heartbeat_is_refused(tmp_path):
    os.truncate(tell(tmp_path, record()), FILE_BYTES + 1)
    with pytest.raises(DataError, match=f"more than {FILE_BYTES}"):
        read(tmp_path)


def test_a_file_that_is_being_made_tells_nothing_yet(tmp_path, place):
    (place / "7.0").touch()
    for size in (0, FILE_BYTES):
        os.truncate(place / "7.0", size)
        assert read(tmp_path) is None


def test_a_folder_of_somebody_else_is_refused(tmp_path):
    file = tell(tmp_path, record())
    file.parent.rename(tmp_path / str(ME + 1))
    with pytest.raises(DataError, match=f"{ME + 1} belongs to another user"):
        read(tmp_path, uid=ME + 1)


def test_a_file_of_somebody_else_is_refused(tmp_path):
    """As when a user links another's file into the own folder: only root could make that here."""
    status = tell(tmp_path, record()).stat()
    assert why_refused(status, ME, None) == ""
    assert why_refused(status, ME + 1, None) == f"belongs to another user (uid {ME})"


def test_no_descriptor_stays_open(tmp_path):
    tell(tmp_path, record())
    (tmp_path / str(ME) / "9.0").write_text("?")
    before = len(list(Path("/proc/self/fd").iterdir()))
    for _ in range(5):
        read(tmp_path)
        with pytest.raises(DataError):
            read(tmp_path, "9")
    assert len(list(Path("/proc/self/fd").iterdir())) == before
