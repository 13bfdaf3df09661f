"""Which folder of checkpoints somebody means, and whose right is used on it."""

from __future__ import annotations

import os
import pwd
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from gsched.config.settings import Settings
from gsched.errors import DataError, NoCheckpointError, PermissionDeniedError, UnavailableError
from gsched.model.jobid import parse_job_id


def folder_of(settings: Settings, named: str) -> Path:
    """The folder (or the one checkpoint) of that path, else that of the job of that number.

    A job's folder is what its heartbeat tells. Raises NoCheckpointError where there is neither.
    """
    path = Path(named)
    if os.path.lexists(path) or "/" in named or not _is_job(named):
        return path
    from gsched.app.job_checkpoints import checkpoint_folder

    return checkpoint_folder(settings, named)


@contextmanager
def changing(folder: Path) -> Iterator[None]:
    """For changes in a folder: root works with the rights of its owner alone, no more.

    Somebody who lays links into their own folder at the right moment gains nothing by root's hand;
    a link that leads to another one's folder is refused. An OSError in the block is told as what it
    means. Raises PermissionDeniedError, UnavailableError or NoCheckpointError.
    """
    try:
        owner = folder.stat()
        if os.geteuid() == 0:
            _check_links(folder, owner.st_uid)
        with _as_owner(owner):
            yield
    except FileNotFoundError as e:
        raise NoCheckpointError(f"there is no {e.filename}") from e
    except PermissionError as e:
        raise PermissionDeniedError(f"cannot change {_where(e, folder)}: {e.strerror}") from e
    except OSError as e:
        raise UnavailableError(f"cannot change {_where(e, folder)}: {e.strerror or e}") from e


@contextmanager
def _as_owner(status: os.stat_result) -> Iterator[None]:
    if os.geteuid() != 0 or status.st_uid == 0:
        yield
        return
    groups, group = os.getgroups(), os.getegid()
    try:
        gid = pwd.getpwuid(status.st_uid).pw_gid
    except KeyError:
        gid = status.st_gid
    os.setgroups([gid, status.st_gid])
    os.setegid(gid)
    os.seteuid(status.st_uid)
    try:
        yield
    finally:
        os.seteuid(0)
        os.setegid(group)
        os.setgroups(groups)


def _check_links(folder: Path, owner_uid: int) -> None:
    """Refuse a path that is led by a link of somebody else than root and the owner of its end."""
    for part in (folder.absolute(), *folder.absolute().parents):
        status = part.lstat()
        if stat.S_ISLNK(status.st_mode) and status.st_uid not in (0, owner_uid):
            raise PermissionDeniedError(
                f"{part} is a link of uid {status.st_uid} to a folder of uid {owner_uid}",
                f"name the folder itself: {folder.resolve()}",
            )


def _is_job(named: str) -> bool:
    try:
        parse_job_id(named)
    except DataError:
        return False
    return True


def _where(error: OSError, folder: Path) -> str:
    return os.fsdecode(error.filename) if error.filename else str(folder)
