"""What jobs tell of their checkpoints, as leases hear it."""

from __future__ import annotations

import errno
import os
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest
from support.heartbeats import record, tell
from support.jobs import T0

from gsched.daemon import lease_heartbeats
from gsched.daemon.lease_heartbeats import MAX_AGE_S, HeartbeatReports, report_of
from gsched.engine.leases import NOT_READABLE, SaveReport
from gsched.model.accounts import LeaseGrant, Told
from gsched.model.job import JobKey, Lease, LeaseState
from gsched.telemetry.heartbeats import CLOCK_SKEW_S

GRANT = LeaseGrant(
    Lease("l1", LeaseState.SIGNALLED, T0, 3600), JobKey("c", 7, epoch=T0), T0, 8, restarts=2
)
TOLD = record(
    started_time=T0 + 5.0, restart=2, first_step=300, step=420, committed_step=400,
    committed_time=T0 + 100.0, checkpoint_dir="/scratch/7", written_time=T0 + 110.0, seq=9,
)  # fmt: skip
NOW = T0 + 111.0
SAID = SaveReport(420, 400, run=TOLD.run, seq=9)
FIRST = replace(SAID, seq=0)
"""As the file counts it when it is written once."""


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """However busy this host is; its clock stands still."""
    monkeypatch.setattr(time, "time", lambda: NOW)
    monkeypatch.setattr(lease_heartbeats, "READ_LIMIT_S", 60.0)


def reports(folder: Path | str, uid: int | None = os.getuid()) -> HeartbeatReports:
    return HeartbeatReports(lambda: str(folder), lambda name: uid if name == "ann" else None)


def test_what_is_done_and_what_of_it_is_saved() -> None:
    assert report_of(TOLD, GRANT, NOW) == SAID
    busy = replace(TOLD, saving_since=T0 + 200.0)
    assert report_of(busy, GRANT, NOW) == replace(SAID, is_writing=True)


def test_what_an_attempt_went_on_from_is_saved() -> None:
    begun = replace(TOLD, committed_step=None, committed_time=None, step=300)
    assert report_of(begun, GRANT, NOW) == replace(SAID, step=300, committed_step=300)


@pytest.mark.parametrize(
    "changes",
    [
        {"checkpoint_dir": None, "committed_step": None},
        {"restart": 1},
        {"restart": 3},
        {"started_time": T0 - CLOCK_SKEW_S - 1},
    ],
    ids=["tells of no checkpoints", "of before", "of later", "another job's"],
)
def test_what_says_nothing_of_this_attempt(changes: dict[str, object]) -> None:
    assert report_of(replace(TOLD, **changes), GRANT, NOW) is None  # type: ignore[arg-type]


def test_clocks_of_nodes_may_differ_a_little() -> None:
    early = replace(TOLD, started_time=T0 - CLOCK_SKEW_S + 1)
    assert report_of(early, GRANT, NOW) == SAID


def test_a_loop_of_its_own_need_not_name_its_folder() -> None:
    assert report_of(replace(TOLD, checkpoint_dir=None), GRANT, NOW) == SAID


def test_the_file_is_that_of_the_user_and_the_job(tmp_path: Path) -> None:
    assert reports(tmp_path)(GRANT, "ann") is None
    tell(tmp_path, TOLD)
    task = replace(GRANT, key=replace(GRANT.key, array_task=3))
    tell(tmp_path, replace(TOLD, job="7_3", step=999))
    assert reports(tmp_path)(GRANT, "ann") == FIRST
    assert reports(tmp_path)(task, "ann") == replace(FIRST, step=999)
    assert reports(tmp_path)(replace(GRANT, key=JobKey("c", 8)), "ann") is None
    assert reports(tmp_path)(GRANT, "nobody-of-this-name") is None
    assert reports("")(GRANT, "ann") is None


def test_what_is_not_to_be_believed_tells_nothing(tmp_path: Path) -> None:
    path = tell(tmp_path, TOLD)
    path.write_bytes(b"x" * path.stat().st_size)
    assert reports(tmp_path)(GRANT, "ann") is None
    assert reports(tmp_path, uid=os.getuid() + 1)(GRANT, "ann") is None


def test_a_heartbeat_that_nobody_writes_any_more_is_no_answer(tmp_path: Path) -> None:
    for age_s in (0, MAX_AGE_S, -100):
        fresh = replace(TOLD, written_time=NOW - age_s)
        assert report_of(fresh, GRANT, NOW) == SAID
    old = replace(TOLD, written_time=NOW - MAX_AGE_S - 1)
    said = report_of(old, GRANT, NOW)
    assert said is not None
    assert (said.unheard, said.is_writing) == ("its heartbeat was last written 121 s ago", True)
    assert said.has_saved(Told(1)) is False
    over = report_of(replace(TOLD, ended_time=NOW), GRANT, NOW)
    assert over is not None
    assert (over.unheard, over.is_writing) == ("its training has ended", True)
    tell(tmp_path, old)
    assert reports(tmp_path)(GRANT, "ann") == said


@pytest.mark.parametrize("code", [errno.EIO, errno.ESTALE, errno.EACCES])
@pytest.mark.parametrize("call", ["open", "pread"])
def test_a_folder_that_fails_is_not_taken_for_silence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str, code: int
) -> None:
    tell(tmp_path, TOLD)

    def fails(*_args: object, **_more: object) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(os, call, fails)
    assert reports(tmp_path)(GRANT, "ann") is NOT_READABLE


def test_a_folder_that_is_not_there_is_not_taken_for_silence(tmp_path: Path) -> None:
    assert reports(tmp_path / "unmounted")(GRANT, "ann") is NOT_READABLE


def test_a_link_in_its_place_tells_nothing(tmp_path: Path) -> None:
    path = tell(tmp_path, TOLD)
    path.rename(tmp_path / "elsewhere")
    path.symlink_to(tmp_path / "elsewhere")
    assert reports(tmp_path)(GRANT, "ann") is None


def test_a_file_server_that_hangs_holds_no_round_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lease_heartbeats, "READ_LIMIT_S", 0.05)
    answers, begun = threading.Event(), []

    def number_of(_name: str) -> int:
        begun.append(1)
        answers.wait(60)
        return os.getuid()

    tell(tmp_path, TOLD)
    hung = HeartbeatReports(lambda: str(tmp_path), number_of)
    assert hung(GRANT, "ann") is NOT_READABLE
    assert hung(GRANT, "ann") is NOT_READABLE
    assert len(begun) == 1  # no second reader beside one that hangs
    answers.set()
    reader = hung._reader
    assert reader is not None
    reader.join()
    monkeypatch.setattr(lease_heartbeats, "READ_LIMIT_S", 60.0)
    assert hung(GRANT, "ann") == FIRST
