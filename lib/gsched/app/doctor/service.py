"""The daemon: whether it runs and goes on, whether it is alone, and what holds it back."""

from __future__ import annotations

import os
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

from gsched.app.doctor.findings import Finding
from gsched.app.doctor.walk import Walk
from gsched.app.wiring import open_history
from gsched.config.freeze import parse_freeze
from gsched.config.loader import load
from gsched.daemon.gate import kill_switch_reason
from gsched.daemon.locks import StateDir
from gsched.daemon.status_file import read_status, silent_s
from gsched.errors import ConfigError
from gsched.model.job import JobState

_PROCESSES = Path("/proc")


def check_daemon(walk: Walk) -> Iterator[Finding]:
    """Whether it runs, and whether its rounds go on."""
    leader = StateDir(walk.settings.state_dir).leader()
    if leader is None:
        yield Finding("ok", "daemon", "daemon", "not running")
        return
    pid = leader["pid"]
    status = read_status(walk.settings.status_file)
    silent = silent_s(status, walk.clock()) if status else 0.0
    if silent:
        yield Finding(
            "fail",
            "daemon-hung",
            "daemon",
            f"process {pid} lives, but its last round ended {silent:.0f} s ago",
            f"its log says why (`journalctl -u gsched-daemon`); `kill -9 {pid}` loses nothing, and "
            "systemd starts it again",
        )
        return
    yield Finding("ok", "daemon", "daemon", f"running, pid {pid}, started to {leader.get('mode')}")


def check_others(walk: Walk) -> Iterator[Finding]:
    """Daemons on this host that order the same cluster from another folder: they would fight."""
    for pid in _daemons():
        folder = _folder_of(pid, walk)
        if folder is not None and folder != walk.settings.state_dir:
            yield Finding(
                "fail",
                "two-daemons",
                "daemon",
                f"process {pid} is another gsched daemon for this cluster, with its state in "
                f"{folder}: each would undo what the other orders",
                f"end it: `kill {pid}`, or disable its unit; then `gsched daemon clear` with its "
                "configuration takes back what it wrote",
            )


def _daemons() -> Iterator[int]:
    for entry in _PROCESSES.iterdir():
        if not entry.name.isdigit():
            continue
        try:
            words = (entry / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue  # has ended
        names = [os.path.basename(word) for word in words[:2]]  # noqa: PTH119 - bytes
        at = names.index(b"gsched") if b"gsched" in names else -1
        if at >= 0 and words[at + 1 : at + 3] == [b"daemon", b"run"]:
            yield int(entry.name)


def _folder_of(pid: int, walk: Walk) -> Path | None:
    """The state folder of a daemon of the same cluster; None for another's, or a hidden one."""
    try:
        found = (_PROCESSES / str(pid) / "environ").read_bytes().decode(errors="replace")
    except OSError:
        return None
    environ = dict(pair.partition("=")[::2] for pair in found.split("\0") if "=" in pair)
    if environ.get("SLURM_CONF", "") != walk.environ.get("SLURM_CONF", ""):
        return None
    try:
        return load(environ).state_dir
    except ConfigError:
        return None


def check_gate(walk: Walk) -> Iterator[Finding]:
    """What keeps the daemon from acting just now: kill switch, halt, freeze window."""
    settings = walk.settings.daemon
    off = kill_switch_reason(settings.kill_switch)
    if off is not None:
        yield Finding(
            "warn",
            "kill-switch",
            "kill switch",
            f"{off[0]}: daemons only observe",
            f"rm {settings.kill_switch}",
        )
    halted = StateDir(walk.settings.state_dir).halted()
    if halted:
        yield Finding(
            "warn",
            "halt",
            "halt",
            f"acting is halted by {halted}",
            "`gsched daemon clear --lift-halt` lets the daemon act again",
        )
    now = walk.clock()
    for window in map(parse_freeze, settings.freeze):
        if (end := window.ends(now)) is not None:
            until = datetime.fromtimestamp(end).astimezone().isoformat(timespec="minutes")
            yield Finding(
                "note",
                "frozen",
                "freeze",
                f"in the freeze window {window.text} the daemon only observes, until {until}",
                "wait, or take it out of freeze in [daemon] and `gsched daemon reload`",
            )


def check_standing(walk: Walk) -> Iterator[Finding]:
    """Values that stand on waiting jobs although the kill switch is on: who would take them back?

    Only a daemon that was started to act does, in its next round; one that ended before did not.
    """
    if kill_switch_reason(walk.settings.daemon.kill_switch) is None:
        return
    with open_history(walk.settings) as history:
        standing = history.journal().standing(walk.config.cluster)
    moved = {key.slurm_id for (key, _), ours in standing.items() if ours.written != ours.found}
    waiting = [
        row
        for row in (walk.client.queue().rows if moved else ())
        if row.state is JobState.PENDING and row.slurm_id in moved
    ]
    if not waiting:
        return
    leader = StateDir(walk.settings.state_dir).leader()
    acts = leader is not None and leader.get("mode") == "act"
    who = "the daemon has not taken back yet" if acts else "no daemon that acts takes back"
    yield Finding(
        "warn",
        "kill-switch-values",
        "kill switch",
        f"{len(waiting)} waiting jobs still have the SiteFactor of gsched's that {who}",
        "`gsched daemon clear` takes it back; `gsched daemon clear --lift-halt` lets daemons act "
        "again later",
    )
