"""Putting a checkpoint out of the way by one rename, so that somebody may still look at it."""

from __future__ import annotations

import itertools
import os
from pathlib import Path

from gsched.ckpt import layout
from gsched.ckpt.disk import Disk, make_folders


def set_aside(disk: Disk, folder: Path, path: Path) -> Path:
    """Rename what lies in `folder` into its `.set-aside`, durably; where it lies now."""
    aside = folder / layout.SET_ASIDE_NAME
    make_folders(disk, aside)
    name = path.name.removeprefix(".")
    for number in itertools.count(1):
        target = aside / (name if number == 1 else f"{name}.{number}")
        if not os.path.lexists(target):
            break
    disk.rename(path, target)
    disk.fsync_folder(aside)
    disk.fsync_folder(folder)
    return target
