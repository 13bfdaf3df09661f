"""A file that is either the old one or the new one, whatever happens in between."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from gsched.errors import PermissionDeniedError, UnavailableError


def write_atomically(path: Path, data: bytes, mode: int) -> None:
    """Replace `path` by `data`: temporary file, fsync, rename, fsync of the folder.

    Raises PermissionDeniedError or UnavailableError (disk full) and leaves the old file then.
    """
    temporary = ""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        fd, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        with os.fdopen(fd, "wb") as f:
            f.write(data)
            f.flush()
            os.fsync(f.fileno())
            os.fchmod(f.fileno(), mode)
            give_to_owner_of_folder(f.fileno(), path.parent)
        Path(temporary).replace(path)
        temporary = ""
        folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
    except PermissionError as e:
        raise PermissionDeniedError(f"cannot write {path}: {e.strerror}") from e
    except OSError as e:
        raise UnavailableError(f"cannot write {path}: {e.strerror}") from e
    finally:
        if temporary:
            Path(temporary).unlink(missing_ok=True)


def give_to_owner_of_folder(fd: int, folder: Path) -> None:
    """When root has made a file in another user's folder, let that user own it.

    Else one command by root in an operator's state folder would lock the operator out.
    """
    if os.geteuid() == 0:
        owner = folder.stat()
        os.fchown(fd, owner.st_uid, owner.st_gid)
