"""The state folder: whose it is, who else can change it, and how much room it has."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

from gsched.app.doctor.findings import Finding
from gsched.app.doctor.walk import Walk
from gsched.app.user_names import user_name

_WHAT = "state folder"
LOW_BYTES = 1024**3
"""Less room than this is told; a history of a million jobs takes about as much."""
LEAST_BYTES = 64 * 1024**2
_KEPT = ("history.db", "leader.lock", "writer.lock", "model.lock", "models", "status.json")


def check(walk: Walk) -> Iterator[Finding]:
    """Whether the daemon can use the folder, and nobody else can change what is in it."""
    folder = walk.settings.state_dir
    if not folder.is_dir():
        yield Finding(
            "warn",
            "state-folder-absent",
            _WHAT,
            f"{folder} does not exist",
            f"`install -d -m 755 -o USER {folder}` with the daemon's USER, or set state_dir; "
            "`gsched db init` makes the database in it",
        )
        return
    found = folder.stat()
    yield from _foreign_files(folder, found.st_uid)
    if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        yield Finding(
            "fail",
            "state-folder-writable",
            _WHAT,
            f"{folder} can be changed by others than its owner (mode "
            f"{stat.S_IMODE(found.st_mode):04o}): they could put a database of their own there",
            f"chmod go-w {folder}",
        )
    elif not os.access(folder, os.W_OK | os.X_OK):
        yield Finding(
            "note",
            "state-folder-closed",
            _WHAT,
            f"{folder} is not yours to write",
            "nothing to do for users; the daemon runs as its owner",
        )
    else:
        yield Finding("ok", "state-folder", _WHAT, str(folder))


def _foreign_files(folder: Path, owner: int) -> Iterator[Finding]:
    foreign = []
    for name in _KEPT:
        try:
            uid = (folder / name).lstat().st_uid
        except FileNotFoundError:
            continue
        if uid != owner:
            foreign.append(f"{name} is {user_name(uid)}'s")
    if foreign:
        yield Finding(
            "fail",
            "state-folder-owner",
            _WHAT,
            f"{folder} is {user_name(owner)}'s, but {', '.join(foreign)}: the daemon cannot use it",
            f"chown -R --no-dereference {user_name(owner)} {folder}",
        )


def check_space(walk: Walk) -> Iterator[Finding]:
    """How much room there is: a full disk stops the journal, and so the daemon."""
    folder = walk.settings.state_dir
    if not folder.is_dir():
        return
    found = os.statvfs(folder)
    free = found.f_bavail * found.f_frsize
    if free >= LOW_BYTES and found.f_favail:
        return
    left = f"{free // 1024**2} MiB" if free < LOW_BYTES else "no place for another file"
    yield Finding(
        "fail" if free < LEAST_BYTES or not found.f_favail else "warn",
        "disk-full",
        "free space",
        f"{left} left where {folder} lies; on a full disk the daemon journals and so does nothing",
        "make room there; `gsched db prune` removes old jobs from the history",
    )
