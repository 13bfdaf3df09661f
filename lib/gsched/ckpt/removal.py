"""Taking a checkpoint away: one rename out of every reader's sight, then the files.

What a killed process leaves behind is a ``.removing-…`` that means nothing to anybody but the next
one that removes.
"""

from __future__ import annotations

import errno
import os
import secrets
import stat
from contextlib import suppress
from pathlib import Path

from gsched.ckpt import layout
from gsched.ckpt.disk import Disk
from gsched.ckpt.faults import FaultHook, FaultPoint, no_faults

_NOT_EMPTY = (errno.ENOTEMPTY, errno.EEXIST)


def take_away(disk: Disk, path: Path, reached: FaultHook = no_faults) -> Path:
    """Rename a checkpoint to a name that nobody reads; gives it. Durable when this returns."""
    name = f"{layout.REMOVING_PREFIX}{path.name[:200]}-{secrets.token_hex(4)}"
    away = path.with_name(name)
    disk.rename(path, away)
    disk.fsync_folder(path.parent)
    reached(FaultPoint.REMOVAL_BEGUN)
    return away


def remove(disk: Disk, path: Path, reached: FaultHook = no_faults) -> None:
    """Delete what was taken away: a file, or a folder with all in it. Links are not followed.

    What vanishes meanwhile is good too. A folder that NFS still holds a file in stays, for the next
    one that removes.
    """
    try:
        is_folder = stat.S_ISDIR(path.lstat().st_mode)
    except FileNotFoundError:
        return
    if not is_folder:
        _unlink(disk, path, reached)
        return
    for folder, folders, files in os.walk(path, topdown=False, onerror=_raise):
        for name in files:
            _unlink(disk, Path(folder, name), reached)
        for name in folders:
            if Path(folder, name).is_symlink():
                _unlink(disk, Path(folder, name), reached)
        with suppress(FileNotFoundError):
            try:
                disk.remove_folder(Path(folder))
            except OSError as e:
                if e.errno not in _NOT_EMPTY:
                    raise


def leftovers(folder: Path) -> list[Path]:
    """What killed processes have left to remove in `folder`."""
    return sorted(folder.glob(f"{layout.REMOVING_PREFIX}*"))


def _unlink(disk: Disk, path: Path, reached: FaultHook) -> None:
    with suppress(FileNotFoundError):
        disk.unlink(path)
        reached(FaultPoint.FILE_REMOVED)


def _raise(error: OSError) -> None:
    if not isinstance(error, FileNotFoundError):
        raise error
