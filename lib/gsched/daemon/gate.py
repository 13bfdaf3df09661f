"""What the daemon is allowed to do just now: asked before each round."""

from __future__ import annotations

import enum
import os
import stat
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from gsched.config.freeze import parse_freeze
from gsched.config.settings import DaemonSettings
from gsched.daemon.locks import StateDir

FIRST_MONDAY = 4 * 86400
"""Monday 1970-01-05 00:00 UTC: control intervals are counted from it."""
_REASON_BYTES = 200


class Mode(enum.Enum):
    """What a daemon does; `value` is the word of status, metrics and spans.

    STANDBY: another host's daemon leads. WAITING: what rounds need does not answer.
    """

    ACT = "act"
    OBSERVE = "observe"
    FROZEN = "frozen"
    HALTED = "halted"
    OFF = "off"
    CONTROL = "control"
    STANDBY = "standby"
    WAITING = "waiting"


@dataclass(frozen=True, slots=True)
class Verdict:
    """One answer of the gate. `take_back`: what was written before must be taken back first."""

    mode: Mode
    why: str
    take_back: bool = False


class Gate:
    """Decides the mode of a daemon that leads. The strongest reason wins: kill switch, halt,
    freeze, control interval.
    """

    def __init__(self, acting: bool, settings: DaemonSettings, state_dir: StateDir) -> None:
        """`acting`: the daemon was started to act. Raises ConfigError for a bad freeze window."""
        self._acting = acting
        self._state_dir = state_dir
        self._taken_back: Mode | None = None
        self.configure(settings)

    def configure(self, settings: DaemonSettings) -> None:
        """Follow other settings from now on. Raises ConfigError, and keeps the former ones."""
        self._windows = tuple(map(parse_freeze, settings.freeze))
        self._kill_switch = settings.kill_switch
        self._control_interval_s = settings.control_interval_s

    def verdict(self, at: int) -> Verdict:
        """The mode at the time `at` (epoch seconds)."""
        mode, why, takes_back = self._mode(at)
        if not takes_back:
            self._taken_back = None
        return Verdict(mode, why, takes_back and self._taken_back is not mode)

    def has_taken_back(self, mode: Mode) -> None:
        """What was written has been taken back: once is enough for as long as `mode` lasts."""
        self._taken_back = mode

    def _mode(self, at: int) -> tuple[Mode, str, bool]:
        if not self._acting:
            return Mode.OBSERVE, "started to observe", False
        if (off := kill_switch_reason(self._kill_switch)) is not None:
            return Mode.OFF, *off
        halted = self._state_dir.halted()
        if halted is not None:
            return Mode.HALTED, halted, False
        for window in self._windows:
            if (end := window.ends(at)) is not None:
                until = datetime.fromtimestamp(end).astimezone().isoformat(timespec="minutes")
                return Mode.FROZEN, f"freeze window {window.text}, until {until}", False
        if self._control_interval_s and is_control(at, self._control_interval_s):
            return Mode.CONTROL, "control interval: acting pauses for comparison", True
        return Mode.ACT, "", False


def is_control(at: int, interval_s: int) -> bool:
    """Whether the time `at` lies in an interval in which an acting daemon only observes."""
    return (at - FIRST_MONDAY) // interval_s % 2 == 1


def kill_switch_reason(path: Path) -> tuple[str, bool] | None:
    """Why the kill switch is on and whether what was written must be taken back; None when off.

    Where it cannot be looked for, nobody could use it: the daemon does not act, but leaves what it
    has written.
    """
    try:
        found = path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        return f"cannot look for the kill switch {path}: {error.strerror}", False
    return f"kill switch {path}{_first_line(path, found)}", True


def _first_line(path: Path, found: os.stat_result) -> str:
    """`: ` and the reason that whoever made the file wrote, '' for none."""
    if not stat.S_ISREG(found.st_mode):
        return ""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
        with os.fdopen(fd, "rb") as f:
            read = f.read(_REASON_BYTES) or b""  # None where a pipe has come in its place meanwhile
    except OSError:
        return ""
    line = read.decode(errors="replace").strip().partition("\n")[0]
    return f": {line}" if line else ""
