"""The heartbeat folder: whether jobs can write there, and users leave each other alone."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from gsched.app.doctor.findings import Finding
from gsched.app.doctor.walk import Walk
from gsched.app.user_names import user_name

_WHAT = "heartbeat folder"
_MAX_ENTRIES = 100_000


def check(walk: Walk) -> Iterator[Finding]:
    """Nothing is said where none is set."""
    if not walk.settings.heartbeat.dir:
        return
    folder = Path(walk.settings.heartbeat.dir)
    if not folder.is_dir():
        yield Finding(
            "warn",
            "heartbeat-folder-absent",
            _WHAT,
            f"{folder} is no folder on this host: no job's progress is shown",
            f"mount it here and on the nodes; `install -d -m 1777 {folder}` makes it",
        )
        return
    mode = stat.S_IMODE(folder.stat().st_mode)
    if mode & stat.S_IWOTH and not mode & stat.S_ISVTX:
        yield Finding(
            "warn",
            "heartbeat-folder-not-sticky",
            _WHAT,
            f"every user may remove another's folder in {folder} (mode {mode:04o})",
            f"chmod 1777 {folder}",
        )
    elif not mode & stat.S_IWOTH:
        yield Finding(
            "note",
            "heartbeat-folder-closed",
            _WHAT,
            f"users cannot make their folders in {folder} (mode {mode:04o}): only jobs of "
            "those who have one tell their progress",
            f"chmod 1777 {folder}, unless something of the site's makes the folders",
        )
    else:
        yield Finding("ok", "heartbeat-folder", _WHAT, str(folder))
    yield from _taken(folder)


def _taken(folder: Path) -> Iterator[Finding]:
    """Folders in the place of another user's, who cannot use it then."""
    with os.scandir(folder) as entries:
        for entry in islice(entries, _MAX_ENTRIES):
            try:
                owner = entry.stat(follow_symlinks=False).st_uid
            except FileNotFoundError:  # it has gone meanwhile
                continue
            if entry.name.isdecimal() and entry.name != str(owner):
                yield Finding(
                    "warn",
                    "heartbeat-folder-taken",
                    _WHAT,
                    f"{entry.path} is the place of {user_name(int(entry.name))}, and belongs to "
                    f"{user_name(owner)}: no job of the former can tell its progress",
                    f"ask {user_name(owner)} why, and `rm -r {entry.path}`",
                )
