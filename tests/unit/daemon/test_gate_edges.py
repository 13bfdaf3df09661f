"""The gate: which weeks are control, and a kill switch that is swapped while it is looked at."""

from __future__ import annotations

import os
import threading
from datetime import UTC, datetime
from pathlib import Path

from gsched.daemon.gate import FIRST_MONDAY, _first_line, is_control
from gsched.testbed.wait import wait_for

WEEK_S = 7 * 86400


def test_the_weeks_keep_their_turns_for_good() -> None:
    """Reports of past weeks count on it: which weeks are control is the same in every release."""
    monday = int(datetime(2026, 11, 23, tzinfo=UTC).timestamp())
    assert not is_control(FIRST_MONDAY, WEEK_S)
    assert not is_control(monday, WEEK_S)
    assert not is_control(monday + WEEK_S - 1, WEEK_S)
    assert is_control(monday + WEEK_S, WEEK_S)
    assert is_control(monday + 2 * WEEK_S - 1, WEEK_S)
    assert not is_control(monday + 2 * WEEK_S, WEEK_S)
    assert is_control(monday + 3600, 3600)  # whole hours since that Monday
    assert not is_control(monday + 7200, 3600)


def test_a_link_in_the_place_of_the_file_is_not_followed(tmp_path: Path) -> None:
    path, secret = tmp_path / "off", tmp_path / "secret"
    path.write_text("why")
    secret.write_text("root:x:0:0")
    seen = path.lstat()
    assert _first_line(path, seen) == ": why"
    path.unlink()
    path.symlink_to(secret)
    assert _first_line(path, seen) == ""


def test_a_pipe_in_the_place_of_the_file_is_not_waited_for(tmp_path: Path) -> None:
    path = tmp_path / "off"
    path.write_text("why")
    seen = path.lstat()
    path.unlink()
    os.mkfifo(path)  # nobody writes to it
    told: list[str] = []
    thread = threading.Thread(target=lambda: told.append(_first_line(path, seen)))
    thread.start()
    try:
        wait_for(lambda: told, "an answer", timeout_s=10)
    finally:
        os.close(os.open(path, os.O_RDWR | os.O_NONBLOCK))  # lets one go that does wait
        thread.join()
    assert told == [""]
