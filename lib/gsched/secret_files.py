"""Files that hold a secret or decide what is done: whose they may be, who may read and write."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from gsched.errors import ConfigError, PermissionDeniedError


def why_exposed(status: os.stat_result, uid: int | None = None) -> str:
    """Why a file is no place for a secret, in words ("everybody may read it"); "" where it is one.

    Its owner, root or (unless that is root) the caller, alone may write it; a group may read it.
    """
    if status.st_mode & stat.S_IROTH:
        return "everybody may read it"
    return why_not_ours(status, uid)


def why_not_ours(status: os.stat_result, uid: int | None = None) -> str:
    """Why others than root and the caller decide what is in a file or folder; "" where none can.

    To root every owner will do: root works in the folder of the daemon's user. `uid` is another
    user than the caller.
    """
    uid = os.geteuid() if uid is None else uid
    if status.st_mode & (stat.S_IWOTH | stat.S_IWGRP):
        return "others may write it"
    if uid not in (0, status.st_uid) and status.st_uid != 0:
        return f"it belongs to another user (uid {status.st_uid})"
    return ""


def mend_not_ours(path: Path, status: os.stat_result) -> str:
    """What helps against `why_not_ours`."""
    if status.st_mode & (stat.S_IWOTH | stat.S_IWGRP):
        return f"chmod go-w {path}, and see whose it is"
    return (
        f"run as the user of it (uid {status.st_uid}), or, as root, chown it to the one that runs"
    )


def read_secret(path: Path) -> str:
    """The text of a file that keeps a secret. Raises ConfigError where it is none, or exposed."""
    try:
        with path.open("rb") as f:
            status = os.fstat(f.fileno())
            if not stat.S_ISREG(status.st_mode):
                raise ConfigError(f"{path}, which should hold a password, is not a file")
            if why := why_exposed(status):
                raise ConfigError(
                    f"{path} holds a password, and {why}",
                    f"chown it to the user that runs gsched (or root), and chmod 600 {path}",
                )
            return f.read(2**16).decode()
    except UnicodeDecodeError:
        raise ConfigError(f"{path}, which should hold a password, is not UTF-8 text") from None
    except PermissionError as e:
        raise PermissionDeniedError(f"cannot read {path}: {e.strerror}") from e
    except OSError as e:
        raise ConfigError(f"cannot read {path}: {e.strerror}") from e
