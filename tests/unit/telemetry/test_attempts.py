"""The register of attempts: what launcher and hooks write is read, whatever else is in the file."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gsched.errors import DataError
from gsched.telemetry.attempts import (
    MAX_BYTES,
    READ_BYTES,
    AttemptLog,
    JobAttempt,
    Register,
    decode,
    read_register,
)
from gsched.telemetry.user_folders import UserFolders

ME = os.getuid()


def log_of(folder: Path, restart: int = 0, **facts: str) -> AttemptLog:
    environ = {
        "GSCHED_HEARTBEAT_DIR": str(folder),
        "SLURM_JOB_ID": "7",
        "SLURM_JOB_UID": str(ME),
        "SLURMD_NODENAME": "gn01",
        "SLURM_JOB_NODELIST": "gn[01-02]",
        "SLURM_RESTART_COUNT": str(restart),
    }
    log = AttemptLog.of_job(environ | facts)
    assert log is not None
    return log


def read(folder: Path, job: str = "7") -> Register | None:
    with UserFolders(folder) as opened:
        return read_register(opened, ME, job)


def lines(*events: dict[str, object]) -> bytes:
    usual = {"by": "hook", "restart": 0, "time": 100, "host": "gn01", "nodes": "gn01"}
    return b"".join(json.dumps(usual | event).encode() + b"\n" for event in events)


def only(data: bytes) -> JobAttempt:
    (attempt,) = decode(data).attempts
    return attempt


def test_what_the_launcher_tells_is_read(tmp_path):
    first, second = log_of(tmp_path), log_of(tmp_path, restart=1)
    first.begin(checkpoints="/scratch/ä\n", log="/home/u/out.attempt-1")
    first.signal("USR1")
    first.signal("TERM")
    first.end(signal="TERM")
    second.begin()
    found = read(tmp_path)
    assert found.num_unreadable == 0
    one, two = found.attempts
    assert (one.restart, one.host, one.nodes) == (0, "gn01", "gn[01-02]")
    assert (one.checkpoints, one.log) == ("/scratch/ä\n", "/home/u/out.attempt-1")
    assert [name for name, _ in one.signals] == ["USR1", "TERM"]
    assert (one.exit_code, one.signal) == (None, "TERM")
    assert one.started_time <= one.ended_time == one.heard_time
    assert (two.restart, two.ended_time, two.checkpoints) == (1, None, None)
    assert read(tmp_path, "8") is None


def test_a_task_of_an_array_has_its_own(tmp_path):
    log_of(tmp_path, SLURM_ARRAY_JOB_ID="5", SLURM_ARRAY_TASK_ID="3").begin()
    assert read(tmp_path, "5_3").attempts
    assert read(tmp_path) is None


@pytest.mark.parametrize("lacking", ["GSCHED_HEARTBEAT_DIR", "SLURM_JOB_ID"])
def test_without_a_folder_or_a_job_nothing_is_told(tmp_path, lacking):
    environ = {"GSCHED_HEARTBEAT_DIR": str(tmp_path), "SLURM_JOB_ID": "7"}
    assert AttemptLog.of_job(environ | {lacking: ""}) is None


def test_hook_and_launcher_tell_of_the_same_attempt():
    attempt = only(
        lines(
            {"event": "begin"},
            {"event": "begin", "time": 102, "checkpoints": "/ck", "log": None, "nodes": ""},
            {"event": "step", "time": 103, "step": 0, "tasks": 2},
            {"event": "step_end", "time": 104, "step": 0},
            {"event": "step_end", "time": 104, "step": 0},  # slurm.conf names the hook as well
            {"event": "step", "time": 105, "step": 1, "tasks": 2},
            {"event": "end", "time": 109, "exit_code": 3, "signal": None},
            {"event": "end", "time": 110, "exit_code": None, "signal": None},
        )
    )
    assert attempt == JobAttempt(
        0, 110, 100, "gn01", "gn01", "/ck", None, {0, 1}, {0}, [], 109, exit_code=3
    )


def test_lines_may_come_in_another_order_than_they_were_told():
    attempt = only(
        lines(
            {"event": "begin", "time": 105},
            {"event": "begin", "time": 102},
            {"event": "signal", "time": 109, "signal": "USR1"},
            {"event": "step", "time": 103, "step": 0, "tasks": 1},
        )
    )
    assert (attempt.started_time, attempt.heard_time) == (102, 109)


def test_of_a_job_without_a_script_its_first_step_is_the_beginning():
    attempt = only(
        lines({"event": "step", "step": 0, "tasks": 1}, {"event": "step_end", "step": 0})
    )
    assert (attempt.started_time, attempt.num_steps, attempt.num_ended_steps) == (100, 1, 1)


@pytest.mark.parametrize(
    "later",
    [{"restart": 0, "time": 900}, {"restart": 2, "time": 900}],
    ids=["a first attempt after a third", "one that had ended begins again"],
)
def test_a_number_that_is_used_again_is_another_job(later):
    ended = {"event": "end", "restart": 2, "exit_code": 0, "signal": None}
    data = lines({"event": "begin"}, {"event": "begin", "restart": 2}, ended)
    assert [a.restart for a in decode(data).attempts] == [0, 2]
    (only_one,) = decode(data + lines({"event": "begin"} | later)).attempts
    assert (only_one.started_time, only_one.ended_time) == (900, None)


def test_lines_that_are_not_understood_are_counted_and_harm_no_other():
    begin = lines({"event": "begin"})
    bad = [
        b"step 5", b"[]", b"{}", b'{"event":"begin"}', b"\xff" * 50, b"[" * 5000, b"NaN",
        *(
            lines({"event": "begin"} | wrong).strip()
            for wrong in (
                {"event": "party"}, {"restart": -1}, {"restart": True}, {"time": "now"},
                {"time": 1e300}, {"host": "a\x1b[2J"}, {"nodes": None}, {"checkpoints": "ck"},
                {"log": "/a\0b"}, {"event": "signal", "signal": "X" * 17},
                {"event": "end", "exit_code": "0"}, {"event": "step", "step": None},
            )
        ),
    ]  # fmt: skip
    found = decode(b"\n".join([*bad, begin]))
    assert found.num_unreadable == len(bad)
    assert found.attempts == decode(begin).attempts


def test_what_a_bad_line_says_in_part_is_not_taken():
    begin = lines({"event": "begin"})
    for bad in ({"log": "x"}, {"checkpoints": "x"}):
        attempt = only(begin + lines({"event": "begin", "time": 50, "host": "evil"} | bad))
        assert attempt == only(begin)


def test_signals_are_bounded():
    many = lines(*({"event": "signal", "signal": "USR1"} for _ in range(500)))
    assert len(only(many).signals) == 32


@given(st.binary(max_size=300))
def test_no_bytes_break_the_reader(data):
    decode(data)


def test_a_write_that_was_cut_off_costs_its_line_alone(tmp_path):
    log_of(tmp_path).begin()
    place = tmp_path / str(ME) / "7.attempts"
    whole = place.read_bytes()
    place.write_bytes(whole + whole[:20])
    log_of(tmp_path).end(exit_code=0)
    found = read(tmp_path)
    assert found.num_unreadable == 1
    assert found.attempts[0].exit_code == 0


def test_of_a_job_that_is_requeued_for_ever_the_newest_attempts_are_kept(tmp_path):
    log_of(tmp_path).begin()
    place = tmp_path / str(ME) / "7.attempts"
    line = lines({"event": "begin", "restart": 5})
    place.write_bytes(line * (MAX_BYTES // len(line) + 1))
    log_of(tmp_path, restart=6).signal("USR1")
    assert place.stat().st_size > MAX_BYTES
    log_of(tmp_path, restart=7).begin()
    assert READ_BYTES - 100 < place.stat().st_size < READ_BYTES + 300
    found = read(tmp_path)
    assert [a.restart for a in found.attempts] == [5, 6, 7]
    assert found.num_unreadable == 0
    assert sorted(p.name for p in place.parent.iterdir()) == [".tidied", "7.attempts"]


def test_of_a_long_register_the_end_is_read(tmp_path):
    log_of(tmp_path).begin()
    place = tmp_path / str(ME) / "7.attempts"
    place.write_bytes(b"x" * 3 * READ_BYTES + b"\n" + lines({"event": "begin", "restart": 3}))
    assert [a.restart for a in read(tmp_path).attempts] == [3]


def test_paths_that_are_too_long_for_a_line_are_left_out(tmp_path):
    log_of(tmp_path).begin(checkpoints="/" + "x" * 5000)
    (attempt,) = read(tmp_path).attempts
    assert (attempt.checkpoints, attempt.host) == (None, "gn01")


def test_what_is_no_file_of_the_users_is_refused(tmp_path):
    log_of(tmp_path).begin()
    place = tmp_path / str(ME) / "7.attempts"
    place.rename(place.with_name("else"))
    place.symlink_to("else")
    with pytest.raises(DataError, match="is a link"):
        read(tmp_path)
    with pytest.raises(OSError, match="symbolic"):
        log_of(tmp_path).signal("USR1")
    place.unlink()
    os.mkfifo(place)
    with pytest.raises(DataError, match="not a file"):
        read(tmp_path)
    with pytest.raises(PermissionError, match="not a file"):
        log_of(tmp_path).signal("USR1")
