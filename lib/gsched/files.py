"""A file that is either the old one or the new one, whatever happens; and temporary copies."""

from __future__ import annotations

import errno
import os
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from gsched.errors import PermissionDeniedError, UnavailableError, UsageError

_NO_HARD_LINKS = (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK)


def write_atomically(path: Path, data: bytes, mode: int) -> None:
    """Replace `path` by `data`, all or nothing (see `writing_whole`); makes its folder."""
    try:
        path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    except PermissionError as e:
        raise PermissionDeniedError(f"cannot write {path}: {e.strerror}") from e
    except OSError as e:
        raise UnavailableError(f"cannot write {path}: {e.strerror}") from e
    with writing_whole(path, mode) as f:
        f.write(data)


def read_bounded(path: Path, max_bytes: int) -> bytes:
    """The first `max_bytes` of a file. Raises OSError, also for what is no file (a FIFO blocks)."""
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(fd, "rb") as f:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise OSError(errno.EINVAL, "not a file")
        return f.read(max_bytes)


@contextmanager
def writing_whole(path: Path, mode: int, *, replace: bool = True) -> Iterator[BinaryIO]:
    """A stream whose contents become `path` when the block ends, and vanish when it raises.

    Temporary file in the same folder, fsync, rename, fsync of the folder. Without `replace` a file
    that is there is left alone: UsageError. Raises PermissionDeniedError or UnavailableError (disk
    full) for any OSError within the block, and leaves the old file then.
    """
    if not replace and os.path.lexists(path):
        raise _exists(path)
    temporary = ""
    try:
        fd, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        with os.fdopen(fd, "wb") as f:
            yield f
            f.flush()
            os.fsync(f.fileno())
            os.fchmod(f.fileno(), mode)
            give_to_owner_of_folder(f.fileno(), path.parent)
        _put_in_place(Path(temporary), path, replace)
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


def _put_in_place(temporary: Path, path: Path, replace: bool) -> None:
    if replace:
        temporary.replace(path)
        return
    try:  # unlike a rename, this fails when somebody has made the file meanwhile
        os.link(temporary, path)
    except FileExistsError:
        raise _exists(path) from None
    except OSError as e:
        if e.errno not in _NO_HARD_LINKS:
            raise
        temporary.replace(path)  # a file system without hard links: FAT on a stick
        return
    temporary.unlink()


def _exists(path: Path) -> UsageError:
    return UsageError(f"{path} exists", "choose another name, or --force to replace it")


def give_to_owner_of_folder(fd: int, folder: Path) -> None:
    """When root has made a file in another user's folder, let that user own it.

    Else one command by root in an operator's state folder would lock the operator out.
    """
    if os.geteuid() == 0:
        owner = folder.stat()
        os.fchown(fd, owner.st_uid, owner.st_gid)


@contextmanager
def keeping_a_copy() -> Iterator[None]:
    """For work on a temporary file: an UnavailableError that names the folder where it fails."""
    try:
        yield
    except OSError as e:
        folder = tempfile.tempdir or "any temporary folder"
        raise UnavailableError(
            f"cannot keep a temporary copy in {folder}: {e.strerror or e}",
            "set TMPDIR to a folder with more room",
        ) from e
