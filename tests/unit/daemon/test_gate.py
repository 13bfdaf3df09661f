"""What the daemon may do: kill switch, halt, freeze windows, control intervals."""

from __future__ import annotations

import os
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from gsched.config.settings import DaemonSettings
from gsched.daemon.gate import Gate, Mode, Verdict, is_control, kill_switch_reason
from gsched.daemon.locks import StateDir
from gsched.errors import ConfigError

NOON = 1_795_000_000
DAY_S = 86400


@pytest.fixture
def settings(tmp_path: Path) -> DaemonSettings:
    return replace(DaemonSettings(), kill_switch=tmp_path / "off")


def gate(tmp_path: Path, settings: DaemonSettings, acting: bool = True) -> Gate:
    return Gate(acting, settings, StateDir(tmp_path))


def test_nothing_in_the_way(tmp_path: Path, settings: DaemonSettings) -> None:
    assert gate(tmp_path, settings).verdict(NOON) == Verdict(Mode.ACT, "")


def test_an_observer_observes_whatever_there_is(tmp_path: Path, settings: DaemonSettings) -> None:
    settings.kill_switch.touch()
    verdict = gate(tmp_path, settings, acting=False).verdict(NOON)
    assert (verdict.mode, verdict.take_back) == (Mode.OBSERVE, False)


def test_the_kill_switch_takes_back_once_and_each_time_anew(
    tmp_path: Path, settings: DaemonSettings
) -> None:
    found = gate(tmp_path, settings)
    settings.kill_switch.write_text("maintenance of \x1b[31m gn01\nmore\n")
    verdict = found.verdict(NOON)
    assert (verdict.mode, verdict.take_back) == (Mode.OFF, True)
    assert verdict.why == f"kill switch {settings.kill_switch}: maintenance of \x1b[31m gn01"
    assert found.verdict(NOON + 1).take_back is True  # not done yet: asked for again
    found.has_taken_back(Mode.OFF)
    assert found.verdict(NOON + 2) == replace(verdict, take_back=False)
    settings.kill_switch.unlink()
    assert found.verdict(NOON + 3).mode is Mode.ACT
    settings.kill_switch.touch()
    assert found.verdict(NOON + 4).take_back is True


def test_the_strongest_reason_is_told(tmp_path: Path, settings: DaemonSettings) -> None:
    settings = replace(settings, freeze=("00:00-24:00",), control_interval_s=10 * 365 * DAY_S)
    found = gate(tmp_path, settings)
    assert found.verdict(NOON).mode is Mode.FROZEN
    StateDir(tmp_path).halt("by a test")
    assert found.verdict(NOON) == Verdict(Mode.HALTED, "by a test")
    settings.kill_switch.touch()
    assert found.verdict(NOON).mode is Mode.OFF


def test_a_freeze_leaves_what_stands_and_says_until_when(
    tmp_path: Path, settings: DaemonSettings
) -> None:
    verdict = gate(tmp_path, replace(settings, freeze=("00:00-24:00",))).verdict(NOON)
    assert (verdict.mode, verdict.take_back) == (Mode.FROZEN, False)
    assert verdict.why.startswith("freeze window 00:00-24:00, until 20")


@pytest.mark.parametrize("kind", ["folder", "link", "fifo"])
def test_whatever_has_the_name_is_the_kill_switch(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "off"
    if kind == "folder":
        path.mkdir()
    elif kind == "link":
        path.symlink_to(tmp_path / "nowhere")
    else:
        os.mkfifo(path)  # nobody writes to it: reading it would never end
    assert kill_switch_reason(path) == (f"kill switch {path}", True)


def test_where_nobody_could_use_it_the_daemon_does_not_act(tmp_path: Path) -> None:
    path = tmp_path / ("x" * 300)
    assert kill_switch_reason(path) == (
        f"cannot look for the kill switch {path}: File name too long",
        False,
    )
    (tmp_path / "file").touch()
    assert kill_switch_reason(tmp_path / "file" / "off") is None


def test_control_weeks_begin_on_monday_in_utc(tmp_path: Path, settings: DaemonSettings) -> None:
    week = 7 * DAY_S

    def epoch(day: int, hour: int = 0, minute: int = 0) -> int:
        return int(datetime(2026, 11, day, hour, minute, tzinfo=UTC).timestamp())

    turns = {is_control(epoch(day, 12), week) for day in (23, 25, 29)}  # Monday to Sunday
    assert len(turns) == 1
    assert is_control(epoch(22, 23, 59), week) is not is_control(epoch(23), week)
    assert is_control(epoch(30), week) is not is_control(epoch(29, 23, 59), week)
    found = gate(tmp_path, replace(settings, control_interval_s=week))
    control = next(at for at in (epoch(23), epoch(30)) if is_control(at, week))
    assert found.verdict(control).take_back is True
    found.has_taken_back(Mode.CONTROL)
    assert found.verdict(control + 1).take_back is False
    assert found.verdict(control + week).mode is Mode.ACT
    assert found.verdict(control + 2 * week).take_back is True


def test_other_settings_hold_from_the_next_verdict_on_and_bad_ones_never(
    tmp_path: Path, settings: DaemonSettings
) -> None:
    found = gate(tmp_path, settings)
    with pytest.raises(ConfigError):
        found.configure(replace(settings, freeze=("never",), control_interval_s=1))
    assert found.verdict(NOON).mode is Mode.ACT
    found.configure(replace(settings, freeze=("00:00-24:00",)))
    assert found.verdict(NOON).mode is Mode.FROZEN
